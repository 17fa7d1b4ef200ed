"""Lowercase TEXT IN CAPITALS before translating, for models that tokenize it badly. The output is uppercased again."""

from headway.text.tokenizer.tokenizer import Tokenizer

MIN_TOKEN_RATIO = 1.3  # of capitals to lower case: beyond it capitals are tokenized letter by letter
MIN_WORD_LETTERS = 4  # of a word that is more than an abbreviation


def is_all_caps(text: str) -> bool:
    """Whether this is a phrase without a lowercase letter, and not a series of abbreviations."""
    words = [letters for word in text.split() if (letters := [c for c in word if c.isalpha()])]
    has_long_word = any(len(word) >= MIN_WORD_LETTERS for word in words)
    return len(words) > 1 and has_long_word and text == text.upper() != text.lower()


def lowercased(text: str, tokenizer: Tokenizer) -> str:
    """The text in lower case with a capital first letter, if it is all caps and the tokenizer needs far more tokens for
    capitals; otherwise unchanged."""
    if not is_all_caps(text):
        return text
    lower = text.lower()
    first = next(index for index, letter in enumerate(lower) if letter.isalpha())
    lower = lower[:first] + lower[first].upper() + lower[first + 1 :]
    return lower if len(tokenizer.encode(text)) > MIN_TOKEN_RATIO * len(tokenizer.encode(lower)) else text
