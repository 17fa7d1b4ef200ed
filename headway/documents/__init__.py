"""Documents: whatever is text in a file is translated, and everything else stays as it is.

translate_file reads and writes files, translate_html a string. Both take a function that translates a list of
segments: `through(translator)` makes one of a model."""

from headway.documents.files import KNOWN, beginning, translate_file, type_of
from headway.documents.html import translate_html
from headway.documents.segments import Asked, Counts, Said, Translate, through

__all__ = [
    "KNOWN",
    "Asked",
    "Counts",
    "Said",
    "Translate",
    "beginning",
    "through",
    "translate_file",
    "translate_html",
    "type_of",
]
