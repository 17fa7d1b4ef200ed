"""Numbers in a source that its translation must contain, and which of them it has lost."""

import re
from collections import Counter
from collections.abc import Collection

from headway.text.language_codes import primary_language

NUMBER = re.compile(r"\d{1,3}(?:[’' \u00a0\u202f]\d{3})+(?:[.,]\d+)?(?!\d)|\d+(?:[.,:]\d+)*")
GROUPED = re.compile(r"\d{1,3}(?:([.,’' \u00a0\u202f])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")
SEPARATOR = re.compile(r"[.,:’' \u00a0\u202f]")
# Numbers whose separators are unambiguous: thousands twice, or thousands and decimals. 1,250 may be either.
GROUPED_INTEGER = re.compile(r"(\d{1,3}([.,’' \u00a0\u202f])\d{3}(?:\2\d{3})+)")
GROUPED_DECIMAL = re.compile(r"(\d{1,3}(?:([.,’' \u00a0\u202f])\d{3})(?:\2\d{3})*)(?!\2)[.,](\d+)")
IP_ADDRESS = re.compile(r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}\d{1,3}")
NUMBER_NAMES = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve",
    "de": "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
}
NUMBER_WORDS = [set(words) for words in zip(*(spelled.split() for spelled in NUMBER_NAMES.values()))]
NUMBER_WORDS[1] |= {"a", "an", "eins", "eine", "einen", "einem", "einer", "eines"}
# How words begin that express two to twelve, also indirectly.
NUMBER_STEMS = {
    "en": "two|second|both|doubl|twice|twin|pair|coupl three|third|tripl four|quarter five|fift six|half seven eight "
    "nin ten|decade eleven twel|dozen|noon|midnight",
    "de": "zwei|zwo|beid|doppel|paar drei|dritt vier fünf sech|halb sieb acht neun zehn|jahrzehnt elf "
    "zwölf|dutzend|mittag|mitternacht",
}
SEPARATORS = {"en": ",.", "de": ".,", "zh": ",."}  # between thousands, and before decimals
# Chinese counts in ten thousands and hundred millions: 2万 is 20,000, 1.2亿 is 120 million; and in characters: 二十五.
SCALED = re.compile(r"(\d+(?:[.,]\d+)*)\s?[多余餘]?[十百千]?[万萬亿億]")
NUMERALS = re.compile("[零〇一二两兩三四五六七八九十百千万萬亿億]{2,}|十")
NUMERAL_DIGITS = dict(zip("零〇一二两兩三四五六七八九", (0, 0, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9), strict=True))
NUMERAL_UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
FIRST_IN_DIGITS = len(NUMBER_WORDS)  # numbers from here on are seldom written as words


def find_numbers(text: str) -> list[str]:
    """The digits of each number: 1,000.5 and 1.000,5 are the same number, and so are 10:30 and 10.30."""
    return [extract_digits(number) for number in NUMBER.findall(text)]


def find_missing_numbers(source: str, output: str) -> list[str]:
    """Numbers of the source that the output lacks, in digits and, up to twelve, in English or German words.

    A number that occurs twice must be there twice. Other ways to express one (3 pm, a dozen, the nineties) count as
    missing, so compare with the same count for human translations."""
    in_output = Counter(find_numbers(output))
    words = Counter(re.findall(r"[^\W\d_]+", output.lower()))
    missing = []
    for number in find_numbers(source):
        is_small = len(number) < 3 and int(number) < len(NUMBER_WORDS)
        as_words = [word for word in (NUMBER_WORDS[int(number)] if is_small else ()) if words[word]]
        if in_output[number]:
            in_output[number] -= 1
        elif as_words:
            words[as_words[0]] -= 1
        else:
            missing.append(number)
    return missing


def find_lost_numbers(source: str, output: str, languages: Collection[str] = ()) -> list[str]:
    """Numbers of the source, as written there, that no number of the output expresses.

    The hour of a time is ignored; each part of a date counts by itself. The same digits are another number if the
    separators say so: 12,345,678 and 12,345.678. Small numbers may be words: they are checked only if the output is in
    one of `languages` whose number words are known."""
    numbers = dict.fromkeys(NUMBER.findall(source))
    output_numbers = NUMBER.findall(output) if numbers else []
    stems = [NUMBER_STEMS.get(primary_language(language), "").split() for language in languages]

    def is_lost(part: str, number: str) -> bool:
        if len(part) < 3 and int(part) < FIRST_IN_DIGITS:
            alone = part == number and int(part) > 1 and re.search(rf"(?<!\w){part}(?!\w)", source)
            checked = bool(alone and stems and all(stems))
            if not checked or _expresses_in_words(number, source):
                return False
            return not _expresses_small(int(part), output_numbers, stems, output)
        if any(_expresses(other, part, number) and _may_equal(number, other) for other in output_numbers):
            return False
        return not _expresses_in_chinese(part, number, source, output)

    return [number for number in numbers if any(is_lost(part, number) for part in _split_parts(number))]


def _expresses(other: str, part: str, number: str) -> bool:
    """Whether a number of the output expresses a part of a number of the source: it is the same, or has it as part of a
    date or a time; thousands may be zeros (70 thousand, 1.5 million), and a year may be complete ('90). A number that
    merely contains the digits is another: 440 is not in 4440."""
    digits = extract_digits(other)
    if part == digits or (not GROUPED.fullmatch(other) and part in map(extract_digits, re.split("[.,:]", other))):
        return True
    zeros = digits.removeprefix(part)
    if len(zeros) < len(digits) and not zeros.strip("0"):
        return len(zeros) > 2 or SEPARATOR.search(number) is not None
    return len(part) == 2 and len(digits) == 4 and digits[:2] in ("18", "19", "20") and digits[2:] == part


def _expresses_in_chinese(part: str, number: str, source: str, output: str) -> bool:
    """Whether either side counts in ten thousands, or in characters, and has the same digits but for zeros at the end;
    or a decade, a month or an hour: 1990s is 90年代, 8月 is August, and 15时 is 3 pm."""
    if source.isascii() and output.isascii():
        return False
    if _expresses_in_words(number, source) or (len(part) == 4 and re.search(rf"{part[2:]}\s?年代", output)):
        return True
    if _strip_zeros(part) in {*map(_strip_zeros, SCALED.findall(output)), *_read_numerals(output)}:
        return True
    scaled = set(map(_strip_zeros, SCALED.findall(source)))
    return _strip_zeros(part) in scaled and _strip_zeros(part) in map(_strip_zeros, NUMBER.findall(output))


def _expresses_in_words(number: str, source: str) -> bool:
    """Whether other languages write this number of a Chinese text otherwise: as an hour, the name of a month, a decade
    without its century."""
    if source.isascii():
        return False
    return re.search(rf"(?<!\d){re.escape(number)}\s?(?:[时時点點月]|世[纪紀]\s?\d+\s?年代)", source) is not None


def _strip_zeros(number: str) -> str:
    return extract_digits(number).strip("0")


def _read_numerals(text: str) -> set[str]:
    """The digits, without zeros at the end, of numbers that are written in Chinese characters."""
    return {_strip_zeros(str(_parse_numeral(found[0]))) for found in NUMERALS.finditer(text)}


def _parse_numeral(text: str) -> int:
    """二十五 is 25, 三百万 is 3,000,000, and 二〇二六 is 2026."""
    if not any(character in NUMERAL_UNITS for character in text):
        return int("".join(str(NUMERAL_DIGITS[character]) for character in text[:20]))
    total = section = digit = 0
    for character in text[:20]:
        if character in NUMERAL_DIGITS:
            digit = NUMERAL_DIGITS[character]
            continue
        unit = NUMERAL_UNITS[character]
        if unit >= 10**4:
            total += (section + digit or 1) * unit
            section = 0
        else:
            section += (digit or 1) * unit
        digit = 0
    return total + section + digit


def _expresses_small(number: int, output_numbers: list[str], stems: list[list[str]], output: str) -> bool:
    """Whether an output has a small number in digits, alone or as a part, as an afternoon hour, or in words."""
    parts = [part for other in output_numbers for part in (other, *re.split("[.,:]", other))]
    hours = {f"{hour:{width}}" for hour in (number, number + 12) for width in ("", "02")}
    if hours & set(parts) or any(_expresses(other, str(number), str(number)) for other in output_numbers):
        return True
    pattern = "|".join(each[number - 2] for each in stems)
    return re.search(rf"\b(?:{pattern})", output.lower()) is not None


def _may_equal(number: str, other: str) -> bool:
    """Whether the separators of two numbers with the same digits allow them to be equal."""
    value = _parse_value(number)
    other_value = _parse_value(other)
    if value is None or other_value is None:
        # A number of the output with two kinds of separators that give it no valid value is another number.
        return value is None or len(set(SEPARATOR.findall(other))) < 2
    return value == other_value


def _parse_value(number: str) -> tuple[str, str] | None:
    """The digits before and after the decimal separator; None if the separators are ambiguous."""
    if integer := GROUPED_INTEGER.fullmatch(number):
        return extract_digits(integer[1]), ""
    decimal = GROUPED_DECIMAL.fullmatch(number)
    return (extract_digits(decimal[1]), extract_digits(decimal[3]).rstrip("0")) if decimal else None


def localise_number(number: str, source: str, target: str) -> str:
    """A number as the target language writes it: 1,250,000 is 1.250.000 in German. 3.12 stays, because it may be a
    version; 1.250 does not, because it would become a thousand times as much. What is no number stays, and so does
    everything if the separators of a language are not known."""
    old, new = (SEPARATORS.get(primary_language(language), "") for language in (source, target))
    if not old or not new or IP_ADDRESS.fullmatch(number):
        return number
    thousands, decimal = map(re.escape, old)
    amount = rf"[1-9]\d{{0,2}}(?:{thousands}\d{{3}})+(?:{decimal}\d+)?"
    part = r"\d+,\d+" if old[1] == "," else r"\d{1,3}\.\d{3}"
    return number.translate(str.maketrans(old, new)) if re.fullmatch(rf"{amount}|{part}", number) else number


def _split_parts(number: str) -> list[str]:
    """The parts that are the same in any language: 18:45 may be 6:45, and 16.11.2026 the 16th of November 2026."""
    if ":" in number:
        return [extract_digits(number.rpartition(":")[2])]
    is_date = len(re.findall("[.,]", number)) > 1 and not GROUPED.fullmatch(number)
    return [extract_digits(part) for part in (re.split("[.,]", number) if is_date else [number])]


def extract_digits(text: str) -> str:
    """The digits of a text as 0-9, whatever script they are in."""
    return "".join(str(int(digit)) for digit in re.findall(r"\d", text))


def share_number_format(languages: Collection[str]) -> bool:
    """Whether these are languages that write numbers in the same way, or in one that is known (Chinese, which counts in
    ten thousands). Not for Japanese or Thai, nor for toy tasks that add up or reverse numbers, whose languages have no
    two-letter code."""
    from headway.text.scripts import UNSPACED_SCRIPTS, scripts_of

    names = {primary_language(language) for language in languages}
    known = {name for name in names if name == "zh" or not scripts_of(name) & set(UNSPACED_SCRIPTS)}
    return len(names) > 1 and all(len(name) == 2 and name in known for name in names)
