"""The language that a document is translated to, for formats that name the language of their text, such as .epub."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_TARGET_LANGUAGE: ContextVar[str] = ContextVar("target language", default="")


@contextmanager
def use_target_language(language: str) -> Iterator[None]:
    """Inside the block, documents are translated to this language; "": it is not known."""
    token = _TARGET_LANGUAGE.set(language)
    try:
        yield
    finally:
        _TARGET_LANGUAGE.reset(token)


def current_target_language() -> str:
    return _TARGET_LANGUAGE.get()
