"""Language identification of single lines, among the languages that can be translated, or none of them.

py3langid goes by the bytes of a text. In a line of a few words, names, commands and English technical terms mislead it.
So these are left out, function words count for more, and rare languages for less. Lines of up to three words are
guessed among the languages that can be translated, by short_text.
"""

import math
import re
from collections.abc import Collection

from headway.text.chinese_script import find_script
from headway.text.language_codes import normalise_code
from headway.text.language_id import NO_LANGUAGE, known_languages, primary_language, rank_languages
from headway.text.scripts import count_scripts, scripts_of
from headway.text.short_text import known_share, load_table, score_short_text, to_probabilities

# Words that occur in texts on any subject, and hardly in texts of other languages.
FUNCTION_WORDS = {
    "en": "the of and to in is for that with on as are this be by from or an at it not have has was were which "
    "you can will if but all when his her their we i he she they what there no my your do does did into "
    "than a",
    "de": "der die das und ist in den von zu mit sich des auf für nicht im dem ein eine als auch es an werden "
    "aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur "
    "oder aber vor zur bis mehr durch man sein wurde ich wir ihr kein keine wenn was kann unter",
    "fr": "le la les des et est un une du pour dans que qui sur par pas avec ce au il sont ou plus cette ne se "
    "aux de ces en être",
    "nl": "de het een van en is dat niet te op voor met zijn aan door bij ook als of maar deze wordt worden die "
    "naar uit om in er heeft",
    "es": "el la los las de y que en un una es por con para del se no al como su más o este esta son",
    "it": "il la di e che un una è per con del della dei non in sono le gli al nel da si come questo questa o",
    "pt": "o a os as de e que um uma é para com do da dos das não em no na por se são ou mais como este esta",
    "da": "og at det der en et er på til med for som af ikke den de har kan vil skal fra eller hvis ved denne "
    "dette om",
    "no": "og at det som en et er på til med for av ikke den de har kan vil skal fra eller hvis ved denne dette "
    "om å",
    "sv": "och att det som en ett är på till med för av inte den de har kan skall från eller om vid denna detta "
    "i ska",
    "fi": "ja on ei se että joka tai kun ovat tämä jos myös sekä kuin niin voi ole",
    "pl": "i w na z do jest nie się że to o dla są lub od przez oraz po jak który która które ten tej",
    "cs": "a v na je se že to s z do pro nebo jako jsou který která které od při není tento o",
    "sk": "a v na je sa že to s z do pre alebo ako sú ktorý ktorá ktoré od pri nie tento o",
    "hu": "a az és hogy nem egy is ez meg vagy de ha mint csak van kell lehet",
    "tr": "ve bir bu için ile da de olarak veya olan gibi daha çok değil",
    "ro": "și de la în cu pe un o este nu care pentru sau din mai sunt",
    "id": "dan yang di untuk dengan dari ini pada atau adalah tidak dalam ke akan",
    "vi": "và là của các có không được cho trong một với này",
}  # fmt: skip
FUNCTION_WORD_SETS = {language: frozenset(text.split()) for language, text in FUNCTION_WORDS.items()}
COMMON_LANGUAGE_CODES = (
    "af ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu he hi hr hu hy id is it ja ka kk kn ko "
    "lt lv mk ml mr ms mt nl nn no pa pl pt ro ru sk sl sq sr sv sw ta te th tr uk ur vi zh"
)
COMMON_LANGUAGES = frozenset(COMMON_LANGUAGE_CODES.split())
# In units of the identifier's scores, which are log-probabilities.
FUNCTION_WORD_WEIGHT = 14.0
RARE_LANGUAGE_PENALTY = 1.5
OWN_LANGUAGE_BONUS = 0.2
SHORT_LINE_BONUS = 0.2  # per word less than SHORT_LINE_WORDS: in doubt a short line is translated
SHORT_LINE_WORDS = 5
MAX_SHORT_WORDS = 3  # of a line that is guessed among the own languages alone
MAX_SHORT_LETTERS = 60  # of such a line
NO_KANA_PENALTY = 8.0  # of Japanese beside Chinese, for a short line without kana
TARGET_MARGIN = 4.0  # by which the target must lead in a short line, which else would stay as it is
FOREIGN_MARGIN = 10.0  # by which a language that is not translated must lead in a short line
UNKNOWN_WORD_SHARE = 0.5  # of lines of unknown words that are in an own language rather than in one without a table
LETTERS_PER_CHARACTER = {"Han": 3, "Hiragana": 2, "Katakana": 2, "Hangul": 2}  # how many letters a character is worth
NON_PROSE = re.compile(r"[/\\@_=<>{}\[\]|#$%^~+*\d]|^-|--|::|\w\.\w|\w\(")  # in a word between spaces
URL_OR_EMAIL = re.compile(
    r"[<(]?(?:[a-z][a-z0-9+.-]{1,20}://|mailto:|www\.|[\w.+-]{1,64}@)[^\s@\u2e80-\U0010ffff]+", re.I
)
ACRONYM = re.compile(r"\W*[A-Z]{2,}\W*")
MAX_CHARACTERS = 2000  # of a line that are looked at
WORD = re.compile(r"[^\W\d_]+")


class LineLanguageDetector:
    """Detects the language of a line among `languages`, as a model names them."""

    def __init__(self, languages: Collection[str], target: str = "") -> None:
        """Languages that the identifier does not know are left out: see `languages`.

        target: one of the languages, to which lines are translated. A line in it stays as it is, so it must be certain:
        in doubt a line is in another language."""
        self.by_primary = {
            primary_language(language): language
            for language in languages
            if primary_language(language) in known_languages()
        }
        self.target = primary_language(target) if target else ""
        self.chinese = {
            script: next((code for code in languages if normalise_code(code) == f"zh-{tag}"), "")
            for script, tag in (("simplified", "hans"), ("traditional", "hant"))
        }

    @property
    def languages(self) -> frozenset[str]:
        return frozenset(self.by_primary.values()) | set(filter(None, self.chinese.values()))

    def detect(self, line: str) -> str:
        """One of the languages, or the code of another that the line seems to be in; "" if it cannot be told."""
        found = self._detect(line)
        if primary_language(found) != "zh":
            return found
        return self.chinese.get(find_script(line)) or self.chinese["simplified"] or found

    def _detect(self, line: str) -> str:
        text = keep_prose(line)
        words = WORD.findall(text.casefold())
        if not words or all(map(URL_OR_EMAIL.fullmatch, text.split())):
            return ""
        foreign_script = self.has_foreign_script(text)
        if self.by_primary and not foreign_script and is_short(text, words):
            guess = self.guess_short(text, words)
            return self.by_primary.get(guess, guess)
        scores: dict[str, float] = {}
        for language, share in rank_languages(text):
            if language == NO_LANGUAGE or (foreign_script and language in self.by_primary):
                continue
            score = math.log(max(share, 1e-30)) + function_word_bonus(language, words)
            if language in self.by_primary:
                score += OWN_LANGUAGE_BONUS + SHORT_LINE_BONUS * max(0, SHORT_LINE_WORDS - len(words))
            elif language not in COMMON_LANGUAGES:
                score -= RARE_LANGUAGE_PENALTY
            scores[language] = score
        best = max(scores, key=scores.__getitem__)
        return self.by_primary.get(best, best)

    def guess_short(self, text: str, words: list[str]) -> str:
        """Which of the own languages a short text is in; another one of the table, if it is certainly in that."""
        own = self.languages_in_script(text)
        scores = score_short_text(words, own)
        others = score_short_text(words, load_table().languages) if scores else {}
        for language, score in others.items():
            if language not in self.by_primary and score - max(scores.values()) >= FOREIGN_MARGIN:
                return language
        if not scores:  # the table lacks one of them
            shares = dict(rank_languages(text))
            scores = {
                language: math.log(max(shares[language], 1e-30)) + function_word_bonus(language, words)
                for language in own
            }
        if "ja" in scores and "zh" in scores and not has_kana(text):
            scores["ja"] -= NO_KANA_PENALTY
        if self.target in scores:
            scores[self.target] -= TARGET_MARGIN
        return max(scores, key=scores.__getitem__)

    def short_probabilities(self, line: str) -> dict[str, float]:
        """The probability of each own language for a short line; {} for others, and where the table lacks one of them.

        They add up to 1 for a line of known words, and to less where it may well be in another language."""
        text = keep_prose(line)
        words = WORD.findall(text.casefold())
        if not words or not is_short(text, words) or self.has_foreign_script(text):
            return {}
        scores = score_short_text(words, self.languages_in_script(text))
        if not scores:
            return {}
        among_table = to_probabilities(score_short_text(words, load_table().languages))
        unknown = UNKNOWN_WORD_SHARE * sum(among_table[language] for language in self.by_primary)
        identified = dict(rank_languages(text))
        certain = max(
            known_share(words, self.by_primary), unknown, sum(identified[language] for language in self.by_primary)
        )
        return {
            self.by_primary[language]: min(certain, 1.0) * share for language, share in to_probabilities(scores).items()
        }

    def languages_in_script(self, text: str) -> list[str]:
        """The own languages that are written in the script of most of the text; all where there is none."""
        counts = count_scripts(text)
        script = next(iter(counts), "")
        return [language for language in self.by_primary if script in scripts_of(language)] or list(self.by_primary)

    def has_foreign_script(self, text: str) -> bool:
        """Whether more than a quarter of it is in scripts that none of the languages uses."""
        counts = count_letters(text)
        own = frozenset[str]().union(*(scripts_of(language) for language in self.by_primary))
        return sum(count for script, count in counts.items() if script not in own) > sum(counts.values()) / 4


def has_kana(text: str) -> bool:
    """Whether it has letters that only Japanese has; hardly a sentence of it has none."""
    counts = count_scripts(text)
    return "Hiragana" in counts or "Katakana" in counts


def count_letters(text: str) -> dict[str, int]:
    """By script; a character that stands for a syllable or a word counts as several."""
    return {script: count * LETTERS_PER_CHARACTER.get(script, 1) for script, count in count_scripts(text).items()}


def is_short(text: str, words: list[str]) -> bool:
    return len(words) <= MAX_SHORT_WORDS and sum(count_letters(text).values()) <= MAX_SHORT_LETTERS


def function_word_bonus(language: str, words: list[str]) -> float:
    """A score for the share of function words."""
    known = FUNCTION_WORD_SETS.get(language)
    return FUNCTION_WORD_WEIGHT * sum(word in known for word in words) / len(words) if known else 0.0


def keep_prose(line: str) -> str:
    """The beginning of a line without URLs, options, code and acronyms, if enough letters are left."""
    line = line.strip()[:MAX_CHARACTERS]
    words = [word for word in line.split() if not NON_PROSE.search(word)]
    if not " ".join(words).isupper():
        words = [word for word in words if not ACRONYM.fullmatch(word)]
    text = " ".join(words)
    return text if sum(map(str.isalpha, text)) >= 8 else line
