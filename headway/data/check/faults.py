"""The kinds of fault of a sentence pair. The faults of a pair are the bits of one integer."""

from typing import NamedTuple


class FaultKind(NamedTuple):
    name: str  # for --keep and --json
    title: str
    meaning: str


# In order of priority: a pair with several faults is counted as left out for the first of them.
FAULT_KINDS = (
    FaultKind("encoding", "not UTF-8", "invalid UTF-8, or text that was decoded with the wrong encoding"),
    FaultKind("broken", "malformed line", "too few or too many columns, or not a JSON object"),
    FaultKind("control", "control characters", "NUL and the like, or line separators inside a line"),
    FaultKind("empty", "empty side", "no letter or digit on one side"),
    FaultKind("copy", "copied", "both sides are equal, ignoring case and punctuation"),
    FaultKind("swapped", "sides swapped", "each side is in the other's language"),
    FaultKind("script", "wrong script", "most letters are in another script than the language's"),
    FaultKind("language", "wrong language", "a side is in another language"),
    FaultKind("long", "too long", "more than --max-words"),
    FaultKind("ratio", "length mismatch", "length ratio more than --max-ratio times the usual one"),
    FaultKind("misaligned", "not a translation", "the words of the two sides do not match"),
    FaultKind("duplicate", "duplicate", "the same pair occurs earlier"),
    FaultKind("valid", "in the validation text", "training on it would make validation scores too good"),
    FaultKind("test", "in the test text", "training on it would make test scores too good"),
)
FAULT_NAMES = tuple(kind.name for kind in FAULT_KINDS)
FAULT_BITS = {name: 1 << number for number, name in enumerate(FAULT_NAMES)}

KEEPABLE_FAULTS = tuple(name for name in FAULT_NAMES if name != "broken")

# Pairs with one of these faults are not compared word by word.
NOT_COMPARED_BITS = sum(
    FAULT_BITS[name]
    for name in ("encoding", "broken", "empty", "copy", "swapped", "script", "language", "long", "ratio")
)
