"""PDF files (.pdf): their text, without layout. The translation is plain text, one paragraph a line.

pypdf finds the text; where lines of a page go on is guessed from their lengths."""

import io
import logging
import re
import time
from collections.abc import Iterator
from typing import Any

from headway.documents.limits import current_meter, format_bytes
from headway.documents.markup import collect_segments, write_translated
from headway.documents.segments import DocumentCounts, SegmentQueue, TranslateSegments
from headway.documents.txt import COLLAPSED_TEXT_FORMAT, parse_txt
from headway.errors import HeadwayError

MAX_PAGE_BYTES = 2 << 20  # of a page's drawing commands, unpacked
MIN_FILL = 0.7  # of the longest line of a page: how long a line is that goes on in the next one
MIN_WRAPPED_CHARACTERS = 30  # of a line that goes on
HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u00ad\u2010]$")  # after a letter, at the end of a line
LIST_ITEM = re.compile(r"\s*(?:[-*•·–]\s|\(?\d{1,3}[.)]\s)")


def translate_bytes(data: bytes, name: str, translate: TranslateSegments) -> tuple[bytes, DocumentCounts]:
    pages = [join_lines(page) for page in read_pages(data, name)]
    text = "\n\n".join(page for page in pages if page) + "\n"
    if not text.strip():
        raise HeadwayError(f"{name} has no text: are its pages pictures? Recognise their text (OCR) first.")
    current_meter().count_elements(text.count("\n"), name)
    queue = SegmentQueue()
    parts = collect_segments(parse_txt(text), queue, COLLAPSED_TEXT_FORMAT)
    queue.translate_all(translate)
    return write_translated(parts, queue, COLLAPSED_TEXT_FORMAT)[0].encode(), queue.counts()


def read_pages(data: bytes, name: str) -> Iterator[str]:
    """The text of each page."""
    try:
        import pypdf
    except ImportError:
        raise HeadwayError(f"{name}: .pdf files need pypdf. Install it: pip install 'headway[pdf]'") from None
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it tells of every flaw of a file
    limits = current_meter().limits
    deadline = time.monotonic() + limits.seconds
    reader = _guard(lambda: pypdf.PdfReader(io.BytesIO(data)), name)
    if reader.is_encrypted and not _guard(lambda: reader.decrypt(""), name):
        raise HeadwayError(f"{name} is encrypted. Save it without a password first.")
    count = _guard(lambda: len(reader.pages), name)
    if count > limits.pages:
        raise HeadwayError(f"{name} has {count:,} pages: at most {limits.pages:,} are allowed. Split it.")
    for number in range(count):
        yield str(_guard(lambda number=number: read_page(reader.pages[number], name, number + 1, deadline), name))


def read_page(page: Any, name: str, number: int, deadline: float) -> str:
    meter = current_meter()
    contents = page.get_contents()
    size = len(contents.get_data()) if contents is not None else 0
    meter.count_unpacked(size, name)
    if size > MAX_PAGE_BYTES:
        raise HeadwayError(
            f"{name}: page {number} is larger than {format_bytes(MAX_PAGE_BYTES)}, the limit for a page."
        )

    def check_time(*_: object) -> None:
        if time.monotonic() > deadline:
            seconds = meter.limits.seconds
            raise HeadwayError(f"{name} takes longer than {seconds:g} s to read, the limit for a file. Split it.")

    check_time()
    text = page.extract_text(visitor_operand_before=check_time)
    meter.count_unpacked(len(text), name)
    return str(text.encode("utf-8", "ignore").decode())


def _guard(read: Any, name: str) -> Any:
    """pypdf raises whatever a damaged file makes its code raise."""
    try:
        return read()
    except (HeadwayError, MemoryError):
        raise
    except Exception as error:
        raise HeadwayError(f"{name} is damaged, or not a PDF file: {type(error).__name__}.") from None


def join_lines(page: str) -> str:
    """One line a paragraph. A line goes on in the next one if it is about as long as a line can be on this page."""
    lines = [" ".join(line.split()) for line in page.splitlines()]
    width = max(map(len, lines), default=0)
    paragraphs = [""]
    goes_on = False
    for line in lines:
        if not line or not goes_on or LIST_ITEM.match(line):
            paragraphs += [line] if line else []
        elif HYPHEN.search(paragraphs[-1]):
            kept = paragraphs[-1] if line[:1].isupper() else paragraphs[-1][:-1]
            paragraphs[-1] = kept + line
        else:
            paragraphs[-1] += f" {line}"
        goes_on = len(line) >= max(MIN_FILL * width, MIN_WRAPPED_CHARACTERS) or bool(HYPHEN.search(line))
    return "\n".join(paragraph for paragraph in paragraphs if paragraph)
