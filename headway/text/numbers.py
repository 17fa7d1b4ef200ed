"""Numbers that a translation must repeat, and those that it lost."""

import re
from collections import Counter
from collections.abc import Collection

from headway.languages import primary

NUMBER = re.compile(r"\d{1,3}(?:[’' \u00a0\u202f]\d{3})+(?!\d)|\d+(?:[.,:]\d+)*")
SPELLED = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve",
    "de": "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
}
WORDS = [set(words) for words in zip(*(spelled.split() for spelled in SPELLED.values()))]
WORDS[1] |= {"a", "an", "eins", "eine", "einen", "einem", "einer", "eines"}
IN_DIGITS = len(WORDS)  # from here on they are seldom written otherwise


def numbers(text: str) -> list[str]:
    """Their digits alone: 1,000.5 and 1.000,5 are one number, and so are 10:30 and 10.30."""
    return [digits(found) for found in NUMBER.findall(text)]


def missing_numbers(source: str, output: str) -> list[str]:
    """Numbers of the source that the output does not say: neither in digits nor, up to twelve, in English or German words.

    A number that stands there twice must be said twice. Other ways to say one (3 pm, a dozen, the nineties) count as
    missing, so the same count for true translations belongs beside this one."""
    said = Counter(numbers(output))
    words = Counter(re.findall(r"[^\W\d_]+", output.lower()))
    missing = []
    for number in numbers(source):
        small = len(number) < 3 and int(number) < len(WORDS)
        spelled = [word for word in (WORDS[int(number)] if small else ()) if words[word]]
        if said[number]:
            said[number] -= 1
        elif spelled:
            words[spelled[0]] -= 1
        else:
            missing.append(number)
    return missing


def lost_numbers(source: str, output: str) -> list[str]:
    """Numbers of the source, as they stand there, whose digits are nowhere in the output. Those that any language may say
    in words are not looked at."""
    said, found = digits(output), {one: digits(one) for one in NUMBER.findall(source)}
    return [one for one, bare in found.items() if (len(bare) > 2 or int(bare) >= IN_DIGITS) and bare not in said]


def digits(text: str) -> str:
    """In whatever script they are written."""
    return "".join(str(int(digit)) for digit in re.findall(r"\d", text))


def keeps_digits(languages: Collection[str]) -> bool:
    """Whether text goes between languages that write numbers alike: not where one counts in ten thousands, nor where a
    model adds up what it reads, or turns it round, and no language has a name of two letters."""
    from headway.text.scripts import UNSPACED, scripts_of

    names = {primary(language) for language in languages}
    return len(names) > 1 and all(len(name) == 2 and not scripts_of(name) & set(UNSPACED) for name in names)
