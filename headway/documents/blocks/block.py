"""A block of a document: a heading, a paragraph, a cell or code."""

from typing import Literal, NamedTuple

PlaceUnit = Literal["line", "page", "paragraph", "chapter"]


class TextBlock(NamedTuple):
    """text: on one line; code keeps its lines. place: from 1, in units of the document's format."""

    text: str
    place: int
    level: int = 0  # of a heading, from 1
    last: int = 0  # where it ends; 0: where it begins
    code: bool = False


def join_words(text: str) -> str:
    """Without markup, whitespace says nothing."""
    return " ".join(text.replace("\u00ad", "").split())
