"""PDF files as blocks: the paragraphs of each page."""

from collections.abc import Iterator

from headway.documents.blocks.block import TextBlock, join_words
from headway.documents.pdf import join_lines, read_pages
from headway.errors import HeadwayError


def read_pdf_blocks(data: bytes, name: str) -> Iterator[TextBlock]:
    found = False
    for number, page in enumerate(read_pages(data, name), start=1):
        for line in join_lines(page).split("\n"):
            if words := join_words(line):
                found = True
                yield TextBlock(words, number)
    if not found:
        raise HeadwayError(f"{name} has no text: are its pages pictures? Recognise their text (OCR) first.")
