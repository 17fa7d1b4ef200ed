"""The language of a line, among those that can be translated: one of them, or something else.

py3langid judges by the bytes of a text. Names, commands and English terms of the trade lead it astray in a line of a few
words, so that they are left out, small words that tell languages apart count for more, and rare languages for less."""

import math
import re
from collections.abc import Collection

from headway.text.language_id import NO_LANGUAGE, known_languages, primary, ranked
from headway.text.scripts import count_scripts, scripts_of

# What a text of any subject has, and speakers of other languages hardly write.
SMALL_WORDS = {
    "en": "the of and to in is for that with on as are this be by from or an at it not have has was were which you can "
    "will if but all when his her their we i he she they what there no my your do does did into than a",
    "de": "der die das und ist in den von zu mit sich des auf für nicht im dem ein eine als auch es an werden aus er hat "
    "dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis mehr "
    "durch man sein wurde ich wir ihr kein keine wenn was kann unter",
    "fr": "le la les des et est un une du pour dans que qui sur par pas avec ce au il sont ou plus cette ne se aux de ces "
    "en être",
    "nl": "de het een van en is dat niet te op voor met zijn aan door bij ook als of maar deze wordt worden die naar uit "
    "om in er heeft",
    "es": "el la los las de y que en un una es por con para del se no al como su más o este esta son",
    "it": "il la di e che un una è per con del della dei non in sono le gli al nel da si come questo questa o",
    "pt": "o a os as de e que um uma é para com do da dos das não em no na por se são ou mais como este esta",
    "da": "og at det der en et er på til med for som af ikke den de har kan vil skal fra eller hvis ved denne dette om",
    "no": "og at det som en et er på til med for av ikke den de har kan vil skal fra eller hvis ved denne dette om å",
    "sv": "och att det som en ett är på till med för av inte den de har kan skall från eller om vid denna detta i ska",
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
WORDS = {language: frozenset(text.split()) for language, text in SMALL_WORDS.items()}
NOT_RARE = (
    "af ar az be bg bn bs ca cs cy da de el en eo es et eu fa fi fr ga gl gu he hi hr hu hy id is it ja ka kk kn ko "
    "lt lv mk ml mr ms mt nl nn no pa pl pt ro ru sk sl sq sr sv sw ta te th tr uk ur vi zh"
)
COMMON = frozenset(NOT_RARE.split())
# In units of the identifier's scores, which are logarithms of shares.
SMALL_WORD, RARE, MARGIN = 14.0, 1.5, 0.2
SHORT, ENOUGH = 0.2, 5  # a line of fewer words is rather translated than left alone
SYLLABLES = {"Han": 3, "Hiragana": 2, "Katakana": 2, "Hangul": 2}  # what a character says, in letters
NO_TEXT = re.compile(r"[/\\@_=<>{}\[\]|#$%^~+*\d]|^-|--|::|\w\.\w|\w\(")  # in what stands between spaces
ADDRESS = re.compile(r"[<(]?(?:[a-z][a-z0-9+.-]{1,20}://|mailto:|www\.|[\w.+-]{1,64}@)[^\s@\u2e80-\U0010ffff]+", re.I)
CAPITALS = re.compile(r"\W*[A-Z]{2,}\W*")
MOST = 2000  # characters are enough
WORD = re.compile(r"[^\W\d_]+")


class Detector:
    """languages: those to choose from, as a model names them."""

    def __init__(self, languages: Collection[str]) -> None:
        """Those that the identifier does not know are left out: see `languages`."""
        self.spelt = {primary(language): language for language in languages if primary(language) in known_languages()}

    @property
    def languages(self) -> frozenset[str]:
        return frozenset(self.spelt.values())

    def name(self, line: str) -> str:
        """One of the languages; else the code of what it seems to be. "" where there is nothing to judge by."""
        text = running(line)
        words = WORD.findall(text.casefold())
        if not words or all(map(ADDRESS.fullmatch, text.split())):
            return ""
        foreign = self.is_foreign(text)
        scores: dict[str, float] = {}
        for language, share in ranked(text):
            if language == NO_LANGUAGE or (foreign and language in self.spelt):
                continue
            score = math.log(max(share, 1e-30)) + bonus(language, words)
            if language in self.spelt:
                score += MARGIN + SHORT * max(0, ENOUGH - len(words))
            elif language not in COMMON:
                score -= RARE
            scores[language] = score
        best = max(scores, key=scores.__getitem__)
        return self.spelt.get(best, best)

    def is_foreign(self, text: str) -> bool:
        """Whether it is written in letters that none of the languages has; a quoted word is not enough."""
        counts = {script: count * SYLLABLES.get(script, 1) for script, count in count_scripts(text).items()}
        own = frozenset[str]().union(*(scripts_of(language) for language in self.spelt))
        return sum(count for script, count in counts.items() if script not in own) > sum(counts.values()) / 4


def bonus(language: str, words: list[str]) -> float:
    """For the share of small words."""
    known = WORDS.get(language)
    return SMALL_WORD * sum(word in known for word in words) / len(words) if known else 0.0


def running(line: str) -> str:
    """The beginning of a line without addresses, options, code and capitals, where enough is left."""
    line = line.strip()[:MOST]
    words = [word for word in line.split() if not NO_TEXT.search(word)]
    if not " ".join(words).isupper():
        words = [word for word in words if not CAPITALS.fullmatch(word)]
    text = " ".join(words)
    return text if sum(map(str.isalpha, text)) >= 8 else line
