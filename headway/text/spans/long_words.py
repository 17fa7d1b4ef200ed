"""Words that nobody could translate: hundreds of characters without a space, as in encoded data, or a key held down.

A model would go round in loops over each piece of one. They are protected like a URL: they stay as they are."""

import re
from collections.abc import Sequence
from functools import lru_cache

from headway.text.unspaced import UNSPACED_CLASS

MAX_WORD_CHARACTERS = 400  # the longest compounds of any language are shorter
# What divides words beside whitespace: "one,two,three", quotations, brackets, placeholders of spans.
DIVIDERS = r"""\s,;!?"()\[\]{}<>|`“”„«»‹›…、。，；！？「」『』（）【】《》〈〉।॥⟦⟧"""


@lru_cache(maxsize=1)
def _run_pattern() -> re.Pattern[str]:
    return re.compile(f"[^{DIVIDERS}{UNSPACED_CLASS}]++")


def find_long_words(text: str, taken: Sequence[re.Match[str]] = ()) -> list[re.Match[str]]:
    """In what lies between the spans that are taken; not in scripts that have no spaces. In time linear in the text."""
    found = []
    start = 0
    for end, following in [*((span.start(), span.end()) for span in taken), (len(text), len(text))]:
        if end - start > MAX_WORD_CHARACTERS:
            runs = _run_pattern().finditer(text, start, end)
            found += [run for run in runs if run.end() - run.start() > MAX_WORD_CHARACTERS]
        start = following
    return found


def describe_long_words(spans: Sequence[str]) -> list[str]:
    """A warning about those of the spans that are such words."""
    long_words = [span for span in spans if len(span) > MAX_WORD_CHARACTERS and _run_pattern().fullmatch(span)]
    words = [span for span in long_words if "://" not in span[:10] and not span.startswith("www.")]
    if not words:
        return []
    longest = max(map(len, words))
    if len(words) == 1:
        return [f"a word of {longest:,} characters was left as it is"]
    return [f"{len(words):,} words of up to {longest:,} characters were left as they are"]
