"""TEXT IN CAPITALS: a model that has hardly met any reads it in small letters, and its answer is put in capitals again."""

from headway.text.tokenizer.tokenizer import Tokenizer

TIMES = 1.3  # as many tokens as for small letters: then capitals are spelled letter by letter
LONG = 4  # letters of a word that is more than an abbreviation


def shouted(text: str) -> bool:
    """Whether it is a phrase without a small letter, and not a row of abbreviations."""
    words = [letters for word in text.split() if (letters := [c for c in word if c.isalpha()])]
    return len(words) > 1 and any(len(word) >= LONG for word in words) and text == text.upper() != text.lower()


def calmed(text: str, tokenizer: Tokenizer) -> str:
    """In small letters but for the first, if it is shouted and the tokenizer knows capitals worse; else as it is."""
    if not shouted(text):
        return text
    small = text.lower()
    first = next(place for place, letter in enumerate(small) if letter.isalpha())
    small = small[:first] + small[first].upper() + small[first + 1 :]
    worse = len(tokenizer.encode(text)) > TIMES * len(tokenizer.encode(small))
    return small if worse else text
