"""A question: its terms, without the words that only make it one."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from headway.errors import HeadwayError
from headway.text.search_terms import split_words, stem_word

MAX_QUESTION_CHARS = 2000
# Words of questions, which documents that answer them need not have: rare in a manual, "how" would weigh much.
FUNCTION_WORD_LISTS = {
    "en": "a also am an and any are as at be been being but by can could did do does doing done for from get had has "
    "have having he her here him his how i if in into is it its itself just like many may me might mine much must "
    "my of on one or our ours out please s shall she should so some such t tell than that the their them then "
    "there these they this those through to too up us use used uses using want was we were what when where "
    "whether which who whom whose why will with would you your",
    "de": "aber als am an auch auf aus bei bin bis da damit das dass dem den denn der des die dies diese dieser dieses "
    "doch du durch ein eine einem einen einer eines er es für gibt habe haben hat ich ihm ihn ihr ihre im in ist "
    "ja kann können man mein meine mich mir mit muss nach noch nur ob oder ohne sein seine sich sie sind so soll "
    "über um und uns vom von vor wann war warum was welche welchem welchen welcher welches wenn wer werde werden "
    "wie wieso wir wird wo womit woher wohin wozu zu zum zur",
    "fr": "au aux avec ce ces cette comment combien d dans de des du elle en est et il ils je l la le les leur mais "
    "mon nous on où ou par pas pour pourquoi qu quand que quel quelle quelles quels qui quoi sa se ses son sont sur "
    "un une vous",
    "es": "como con cual cuál cuando cuándo cómo de del dónde donde el ella en es está hay la las lo los más me mi no "
    "para pero por porque qué que quién se si sin sobre su sus un una y",
}
FUNCTION_WORDS = frozenset(word for words in FUNCTION_WORD_LISTS.values() for word in words.split())
# The same where no spaces divide them from other words: Chinese and Japanese
UNSPACED_FUNCTION_WORDS = re.compile(
    "为什么|什么|怎么样|怎么|怎样|如何|哪个|哪些|哪里|多少|是否|请问|可以|吗|呢|是|的|了|何で|何が|何を|どう|ですか|です|ます|とは"
)


class Question(NamedTuple):
    text: str
    words: dict[str, str]  # by term, in order: the word that it stands for

    @property
    def terms(self) -> list[str]:
        return list(self.words)


def read_question(text: str) -> Question:
    """Refuses what is too long to be one, or has nothing to search for."""
    if len(text) > MAX_QUESTION_CHARS:
        raise HeadwayError(
            f"the question has {len(text):,} characters: at most {MAX_QUESTION_CHARS:,} are allowed. Shorten it."
        )
    words = split_words(UNSPACED_FUNCTION_WORDS.sub(" ", text)) or split_words(text)
    if not words:
        raise HeadwayError("the question has no words. Ask something.")
    chosen = content_words(words) or {stem_word(word): word for word in words}
    return Question(" ".join(text.split()), chosen)


def content_words(words: Iterable[str]) -> dict[str, str]:
    """The terms of words that say what a text is about, with the first word of each."""
    found: dict[str, str] = {}
    for word in words:
        if word not in FUNCTION_WORDS:
            found.setdefault(stem_word(word), word)
    return found
