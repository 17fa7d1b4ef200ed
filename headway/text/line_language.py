"""Language identification of single lines, among the languages that can be translated, or none of them.

py3langid goes by the bytes of a text. In a line of a few words, names, commands and English technical terms mislead it.
So these are left out, function words count for more, and rare languages for less.
"""

import math
import re
from collections.abc import Collection

from headway.text.language_id import NO_LANGUAGE, known_languages, primary_language, rank_languages
from headway.text.scripts import count_scripts, scripts_of

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

    def __init__(self, languages: Collection[str]) -> None:
        """Languages that the identifier does not know are left out: see `languages`."""
        self.by_primary = {
            primary_language(language): language
            for language in languages
            if primary_language(language) in known_languages()
        }

    @property
    def languages(self) -> frozenset[str]:
        return frozenset(self.by_primary.values())

    def detect(self, line: str) -> str:
        """One of the languages, or the code of another that the line seems to be in; "" if it cannot be told."""
        text = keep_prose(line)
        words = WORD.findall(text.casefold())
        if not words or all(map(URL_OR_EMAIL.fullmatch, text.split())):
            return ""
        foreign_script = self.has_foreign_script(text)
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

    def has_foreign_script(self, text: str) -> bool:
        """Whether more than a quarter of it is in scripts that none of the languages uses."""
        counts = {script: count * LETTERS_PER_CHARACTER.get(script, 1) for script, count in count_scripts(text).items()}
        own = frozenset[str]().union(*(scripts_of(language) for language in self.by_primary))
        return sum(count for script, count in counts.items() if script not in own) > sum(counts.values()) / 4


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
