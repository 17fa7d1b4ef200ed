"""Numbers that a translation must repeat, and those that it lost."""

import re
from collections import Counter
from collections.abc import Collection

from headway.text.language_codes import primary

NUMBER = re.compile(r"\d{1,3}(?:[’' \u00a0\u202f]\d{3})+(?:[.,]\d+)?(?!\d)|\d+(?:[.,:]\d+)*")
GROUPED = re.compile(r"\d{1,3}(?:([.,’' \u00a0\u202f])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")
SIGN = re.compile(r"[.,:’' \u00a0\u202f]")
# Numbers that say what their signs mean: thousands twice, or thousands and decimals. 1,250 may be either.
WHOLE = re.compile(r"(\d{1,3}([.,’' \u00a0\u202f])\d{3}(?:\2\d{3})+)")
BROKEN = re.compile(r"(\d{1,3}(?:([.,’' \u00a0\u202f])\d{3})(?:\2\d{3})*)(?!\2)[.,](\d+)")
ADDRESS = re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}\d{1,3}")  # of a machine
SPELLED = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve",
    "de": "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
}
WORDS = [set(words) for words in zip(*(spelled.split() for spelled in SPELLED.values()))]
WORDS[1] |= {"a", "an", "eins", "eine", "einen", "einem", "einer", "eines"}
# How words begin that say two to twelve, or as good as say them.
SAYING = {
    "en": "two|second|both|doubl|twice|twin|pair|coupl three|third|tripl four|quarter five|fift six|half seven eight "
    "nin ten|decade eleven twel|dozen|noon|midnight",
    "de": "zwei|zwo|beid|doppel|paar drei|dritt vier fünf sech|halb sieb acht neun zehn|jahrzehnt elf "
    "zwölf|dutzend|mittag|mitternacht",
}
CUSTOMS = {"en": ",.", "de": ".,"}  # the signs between thousands, and before decimals
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


def lost_numbers(source: str, output: str, languages: Collection[str] = ()) -> list[str]:
    """Numbers of the source, as they stand there, that no number of the output says. The hour of a time is not looked at;
    of a date each part is by itself. Digits that are the same say another number where the signs between them do:
    12,345,678 and 12,345.678. Small numbers may be words: they are looked at where the output is in one of `languages`,
    whose words are known."""
    found = dict.fromkeys(NUMBER.findall(source))
    said = NUMBER.findall(output) if found else []
    words = [SAYING.get(primary(language), "").split() for language in languages]

    def lost(part: str, one: str) -> bool:
        if len(part) < 3 and int(part) < IN_DIGITS:
            alone = part == one and int(part) > 1 and re.search(rf"(?<!\w){part}(?!\w)", source)
            return bool(alone and words and all(words)) and not _said_small(int(part), said, words, output)
        return not any(_says(other, part, one) and _may_be(one, other) for other in said)

    return [one for one in found if any(lost(part, one) for part in _parts(one))]


def _says(other: str, part: str, one: str) -> bool:
    """Whether it is that number, or has it as the part of a date or a time; thousands may be zeros (70 thousand, 1.5
    million), and a year may be said in full ('90). What merely has its digits is another: 440 is not in 4440."""
    written = digits(other)
    if part == written or (not GROUPED.fullmatch(other) and part in map(digits, re.split("[.,:]", other))):
        return True
    zeros = written.removeprefix(part)
    if len(zeros) < len(written) and not zeros.strip("0"):
        return len(zeros) > 2 or SIGN.search(one) is not None
    return len(part) == 2 and len(written) == 4 and written[:2] in ("18", "19", "20") and written[2:] == part


def _said_small(number: int, said: list[str], words: list[list[str]], output: str) -> bool:
    """In digits, by itself or as a part of anything, as an hour of the afternoon, or in words."""
    parts = [part for other in said for part in (other, *re.split("[.,:]", other))]
    hours = {f"{hour:{width}}" for hour in (number, number + 12) for width in ("", "02")}
    if hours & set(parts) or any(_says(other, str(number), str(number)) for other in said):
        return True
    spoken = "|".join(each[number - 2] for each in words)
    return re.search(rf"\b(?:{spoken})", output.lower()) is not None


def _may_be(one: str, other: str) -> bool:
    """Whether their signs allow that they are the same number."""
    wanted, said = _value(one), _value(other)
    if wanted is None or said is None:
        return wanted is None or len(set(SIGN.findall(other))) < 2  # signs of two kinds that mean nothing are none
    return wanted == said


def _value(number: str) -> tuple[str, str] | None:
    """What stands before and behind the decimal sign, where that can be told."""
    if whole := WHOLE.fullmatch(number):
        return digits(whole[1]), ""
    broken = BROKEN.fullmatch(number)
    return (digits(broken[1]), digits(broken[3]).rstrip("0")) if broken else None


def rewritten(number: str, source: str, target: str) -> str:
    """As another language writes it: 1,250,000 is 1.250.000 in German. 3.12 stays as it is, for it may be a version, but
    1.250 does not, which would be a thousand times as much. What is no number stays, and all of a language whose customs
    are not known."""
    old, new = (CUSTOMS.get(primary(language), "") for language in (source, target))
    if not old or not new or ADDRESS.fullmatch(number):
        return number
    thousands, decimal = map(re.escape, old)
    amount = rf"[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+(?:{decimal}\d+)?"
    part = r"\d+,\d+" if old[1] == "," else r"\d{1,3}\.\d{3}"
    return number.translate(str.maketrans(old, new)) if re.fullmatch(rf"{amount}|{part}", number) else number


def _parts(number: str) -> list[str]:
    """What another language cannot write otherwise: 18:45 may be 6:45, and 16.11.2026 the 16th of some month in 2026."""
    if ":" in number:
        return [digits(number.rpartition(":")[2])]
    dated = len(re.findall("[.,]", number)) > 1 and not GROUPED.fullmatch(number)
    return [digits(part) for part in (re.split("[.,]", number) if dated else [number])]


def digits(text: str) -> str:
    """In whatever script they are written."""
    return "".join(str(int(digit)) for digit in re.findall(r"\d", text))


def keeps_digits(languages: Collection[str]) -> bool:
    """Whether text goes between languages that write numbers alike: not where one counts in ten thousands, nor where a
    model adds up what it reads, or turns it round, and no language has a name of two letters."""
    from headway.text.scripts import UNSPACED, scripts_of

    names = {primary(language) for language in languages}
    return len(names) > 1 and all(len(name) == 2 and not scripts_of(name) & set(UNSPACED) for name in names)
