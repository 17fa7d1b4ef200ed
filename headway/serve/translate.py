"""From a request to translations: which model, in which way, together with whom."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from headway.config.search import Search
from headway.errors import HeadwayError
from headway.serve.errors import Gone, ApiError, too_long
from headway.serve.model_pool import Model, Shelf
from headway.text.segment.wrapped_lines import layout_of
from headway.translate.results import Guess, Translation
from headway.translate.translator import Translator

T = TypeVar("T")
PIECE = 1000  # characters: a longer text of many lines is taken in pieces, so that others need not wait for all of it


@dataclass(frozen=True)
class How:
    """In which way: what is wanted in the same way can be translated together."""

    to: str
    source: str = ""
    changes: tuple[tuple[str, Any], ...] = ()  # of the search
    align: bool = False
    more: tuple[tuple[str, Any], ...] = ()  # glossary, protect, min_score
    whole: bool = False  # what is asked about a text cannot be told of its pieces

    def search(self, translator: Translator) -> Search:
        return translator.search(**dict(self.changes))

    def translate(self, translator: Translator, texts: Sequence[str]) -> list[Translation]:
        more: dict[str, Any] = {name: dict(value) if name == "glossary" else value for name, value in self.more}
        return translator.translate(
            texts, self.search(translator), to=self.to, source=self.source, align=self.align, **more
        )

    @property
    def divisible(self) -> bool:
        """Whether a text in pieces is the same as the whole."""
        return not self.whole and not self.align and not self.more and "n_best" not in dict(self.changes)


@asynccontextmanager
async def using(shelf: Shelf, model: Model) -> AsyncIterator[Model]:
    """A model that is loaded, and stays so meanwhile."""
    if not shelf.try_take(model):
        loading = asyncio.ensure_future(asyncio.to_thread(shelf.take, model))
        try:
            await asyncio.shield(loading)
        except asyncio.CancelledError:  # it is being loaded all the same
            loading.add_done_callback(lambda done: None if done.exception() else shelf.give(model))
            raise
    try:
        yield model
    finally:
        shelf.give(model)


async def translated(shelf: Shelf, model: Model, texts: Sequence[str], how: How) -> list[Translation]:
    """Together with the texts of others. What is cancelled is left out, if it has not begun."""
    async with using(shelf, model):
        assert model.lane is not None
        cut = [pieces_of(text) if how.divisible else [text] for text in texts]
        pending = asyncio.wrap_future(model.lane.submit([piece for pieces in cut for piece in pieces], how))
        try:
            found = iter(await pending)
        except HeadwayError as error:
            raise ApiError(400, f"Invalid request: {model.hidden(str(error))}") from None
        return [together([next(found) for _ in pieces]) for pieces in cut]


def pieces_of(text: str) -> list[str]:
    """Paragraphs, several together where they are short. A sentence never goes on in another one."""
    if len(text) <= PIECE:
        return [text]
    layout, pieces = layout_of(text), [""]
    paragraphs = ["\n".join(one.lines) for one in layout.paragraphs] if layout else text.split("\n")
    for paragraph in paragraphs:
        if len(pieces[-1]) + len(paragraph) > PIECE and pieces[-1]:
            pieces.append("")
        pieces[-1] += paragraph + "\n"
    pieces[-1] = pieces[-1][:-1]
    return [piece for piece in pieces if piece]


def together(parts: Sequence[Translation]) -> Translation:
    if len(parts) == 1:
        return parts[0]
    best = [part.guesses[0] for part in parts]
    guess = Guess(
        "".join(one.text for one in best),
        sum(one.score for one in best),
        sum(one.logp for one in best),
        [token for one in best for token in one.tokens],
        [logp for one in best for logp in one.token_logps],
    )
    return Translation("".join(part.source for part in parts), [guess], [w for part in parts for w in part.warnings])


async def in_time(work: Awaitable[T], gone: Awaitable[Any], seconds: float) -> T:
    """The result, unless it takes too long, or nobody waits for it any more."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(gone)
    try:
        await asyncio.wait({working, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        if leaving.done():
            leaving.result()
            raise Gone
        raise too_long(seconds)
    finally:
        working.cancel()
        leaving.cancel()
