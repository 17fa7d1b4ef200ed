"""What can be wrong with a pair of sentences. A pair's faults are bits of one number."""

from typing import NamedTuple


class Kind(NamedTuple):
    name: str  # for --keep and --json
    title: str
    meaning: str


# In the order in which they count: a pair with several faults is left out for the first of them.
KINDS = (
    Kind("encoding", "not UTF-8", "no UTF-8, or decoded wrongly before"),
    Kind("broken", "no pair in the line", "too few columns, or no JSON object"),
    Kind("control", "control characters", "NULs and their like, line ends inside a line"),
    Kind("empty", "empty side", "no letter or digit"),
    Kind("copy", "copied", "both sides say the same, up to case and punctuation"),
    Kind("swapped", "sides swapped", "each side is in the other's language"),
    Kind("script", "wrong script", "most letters are not of the language's script"),
    Kind("language", "wrong language", "a side is in another language"),
    Kind("long", "too long", "more than --max-words"),
    Kind("ratio", "lengths do not fit", "--max-ratio times the usual, or more"),
    Kind("misaligned", "not a translation", "the sides' words do not explain each other"),
    Kind("duplicate", "duplicate", "the same pair stands further up"),
    Kind("valid", "in the validation text", "and must not be, to validate on it"),
    Kind("test", "in the test text", "and must not be, to test on it"),
)
NAMES = tuple(kind.name for kind in KINDS)
BITS = {name: 1 << number for number, name in enumerate(NAMES)}

KEEPABLE = tuple(name for name in NAMES if name != "broken")

# What makes a comparison of the two sides pointless.
NOT_COMPARED = sum(
    BITS[name] for name in ("encoding", "broken", "empty", "copy", "swapped", "script", "language", "long", "ratio")
)
