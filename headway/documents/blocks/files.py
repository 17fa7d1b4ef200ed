"""Read a document file as blocks; dispatch by suffix."""

import os
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

from headway.documents.blocks.block import PlaceUnit, TextBlock, join_words
from headway.documents.files import FORMAT_MODULES, document_type, read_document
from headway.documents.limits import DocumentLimits, apply_limits
from headway.documents.segments import SegmentRequest, SegmentResult

READERS = {  # module and function: data and name to blocks
    ".txt": ("plain_text", "read_txt_blocks"),
    ".md": ("markdown", "read_markdown_blocks"),
    ".html": ("html", "read_html_blocks"),
    ".htm": ("html", "read_html_blocks"),
    ".epub": ("html", "read_epub_blocks"),
    ".docx": ("office", "read_docx_blocks"),
    ".odt": ("office", "read_odt_blocks"),
    ".pdf": ("pages", "read_pdf_blocks"),
}
UNITS: dict[str, PlaceUnit] = {".txt": "line", ".md": "line", ".html": "line", ".htm": "line", ".pdf": "page", ".epub": "chapter"}  # fmt: skip  # noqa: E501


def place_unit(name: str) -> PlaceUnit:
    """What places in a document of this name are counted in."""
    return UNITS.get(Path(name).suffix.lower(), "paragraph")


def read_text_blocks(path: str | os.PathLike[str], limits: DocumentLimits | None = None) -> list[TextBlock]:
    """The blocks of a document, in order."""
    limits = limits or DocumentLimits()
    name = os.fspath(path)
    suffix = document_type(name)
    data = read_document(Path(path), name, limits.file_bytes)
    with apply_limits(limits):
        if suffix not in READERS:
            return list(read_segments(data, name, suffix))
        module, function = READERS[suffix]
        reader: Callable[[bytes, str], Iterator[TextBlock]]
        reader = getattr(import_module(f"headway.documents.blocks.{module}"), function)
        return list(reader(data, name))


def read_segments(data: bytes, name: str, suffix: str) -> Iterator[TextBlock]:
    """What would be translated of a document of any other format."""
    collected: list[str] = []

    def keep(requests: Sequence[SegmentRequest]) -> list[SegmentResult]:
        collected.extend(request.text for request in requests)
        return [SegmentResult(request.text) for request in requests]

    import_module(FORMAT_MODULES[suffix]).translate_bytes(data, name, keep)
    for number, text in enumerate(map(join_words, collected), start=1):
        if text:
            yield TextBlock(text, number)
