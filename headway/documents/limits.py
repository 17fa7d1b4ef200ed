"""How much a document may take. A meter counts what is unpacked and parsed, and refuses the rest.

The limits are in force for a whole document, however many parts it has: `apply_limits` starts a meter, and the code
that unpacks and parses counts into it. A trusted user's files get the defaults; a server applies much smaller ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from headway.errors import HeadwayError


@dataclass(frozen=True, kw_only=True)
class DocumentLimits:
    file_bytes: int = 256 << 20
    parts: int = 10_000  # of an archive
    part_bytes: int = 64 << 20  # of a part that is translated, unpacked
    unpacked_bytes: int = 512 << 20  # of all parts of an archive
    elements: int = 2_000_000  # tags, or lines of a plain format; each takes up to 1 KB of memory
    depth: int = 150  # of nested elements
    characters: int | None = None  # of text to translate
    pages: int = 10_000  # of a .pdf file
    seconds: float = 600.0  # to find the text of a .pdf file


class DocumentMeter:
    """What a document has taken so far."""

    def __init__(self, limits: DocumentLimits) -> None:
        self.limits = limits
        self.unpacked_bytes = 0
        self.elements = 0
        self.characters = 0

    def count_unpacked(self, count: int, name: str) -> None:
        self.unpacked_bytes += count
        if self.unpacked_bytes > self.limits.unpacked_bytes:
            raise HeadwayError(
                f"{name} is refused as a zip bomb: it unpacks to more than {format_bytes(self.limits.unpacked_bytes)}."
            )

    def count_elements(self, count: int, name: str) -> None:
        self.elements += count
        if self.elements > self.limits.elements:
            raise HeadwayError(
                f"{name} has more than {self.limits.elements:,} elements or lines, the limit for a document. Split it "
                "into smaller files."
            )

    def count_characters(self, count: int) -> None:
        self.characters += count
        if self.limits.characters is not None and self.characters > self.limits.characters:
            raise HeadwayError(
                f"the file has more than {self.limits.characters:,} characters of text, the limit for a file. Split it "
                "into smaller files."
            )


_METER: ContextVar[DocumentMeter | None] = ContextVar("document meter", default=None)


@contextmanager
def apply_limits(limits: DocumentLimits) -> Iterator[DocumentMeter]:
    """Inside the block, one document is parsed under these limits."""
    token = _METER.set(DocumentMeter(limits))
    try:
        yield current_meter()
    finally:
        _METER.reset(token)


def current_meter() -> DocumentMeter:
    """The meter of the document that is being parsed; a new one with the default limits where none was applied."""
    return _METER.get() or DocumentMeter(DocumentLimits())


def format_bytes(count: int) -> str:
    return f"{count / 2**20:.3g} MiB" if count >= 2**20 else f"{count:,} bytes"
