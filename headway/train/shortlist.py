"""A model's shortlist, as the settings want it: made from parallel text, once."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from headway.config.schema import Part, number
from headway.data.corpora import Parallel
from headway.data.parallel_files import Pair
from headway.errors import ConfigError, HeadwayError
from headway.files.cache import cached, fingerprint
from headway.text import Tokenizers
from headway.text.align.lexicon import Lexicon, count_lexicon, make_shortlist
from headway.text.shortlist import Shortlist

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer

VERSION = "shortlist 1"  # another way to count finds other words: what is kept must not outlive it


class NoShortlist:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "none"

        def refuse(self, model: "Transformer.Config") -> None:
            """Nothing is asked of the model."""


class Lexical:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "lexical"
        best: int = number(50, low=1)  # target tokens for each source token
        frequent: int = number(100, low=0)  # target tokens that any sentence may need
        pairs: int = number(200_000, low=1)  # to count in at most, from all parts of the text

        def refuse(self, model: "Transformer.Config") -> None:
            refuse_one_side(model)


class Frequent:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "frequent"
        frequent: int = number(4000, low=1)  # target tokens that are left of the vocabulary
        pairs: int = number(200_000, low=1)  # as above
        best = 0

        def refuse(self, model: "Transformer.Config") -> None:
            refuse_one_side(model)


def refuse_one_side(model: "Transformer.Config") -> None:
    if not (model.encoder.layers and model.decoder.layers):
        raise ConfigError(
            'a shortlist says which words a source may need, and this model has no source. Set it to "none", or train a '
            "translator.",
            "train.shortlist",
        )


def shortlist_for(part: Any, corpora: Sequence[Parallel], tokenizers: Tokenizers, tags: Sequence[str]) -> Shortlist:
    """For a model with these tokenizers, and a tag for each target language where it has several."""
    settings = json.dumps(part.to_dict(), sort_keys=True)
    texts = [f"{corpus.identity} {corpus.target_language if tags else ''}" for corpus in corpora]

    return cached(
        "shortlist",
        fingerprint([VERSION, settings, *tokenizers.spelling, *tags, *texts]),
        lambda folder: made(part, corpora, tokenizers, tags).save(folder),
        Shortlist.load,
    )


def made(part: Any, corpora: Sequence[Parallel], tokenizers: Tokenizers, tags: Sequence[str]) -> Shortlist:
    return make_shortlist(lexicons_of(part, corpora, tokenizers, tags), part.best, part.frequent)


def lexicons_of(
    part: Any, corpora: Sequence[Parallel], tokenizers: Tokenizers, tags: Sequence[str]
) -> dict[str, Lexicon]:
    """One for each target language that has a tag, else one for all."""
    lexicons = {}
    for name in tags or ("",):
        own = [corpus for corpus in corpora if not tags or corpus.target_language == name]
        total = sum(corpus.counts.lines for corpus in own)
        if total:
            step = max(-(-total // part.pairs), 1)
            lexicons[name] = count_lexicon(
                lambda own=own, step=step: read(own, step),  # type: ignore[misc]
                -(-total // step),
                tokenizers,
                part.best,
            )
    if not lexicons:
        raise HeadwayError(f"no target of this text is {' or '.join(tags)}: name its language by --to.")
    return lexicons


def read(corpora: Sequence[Parallel], step: int) -> Iterator[Pair]:
    """Every so many pairs."""
    return islice(chain.from_iterable(corpus.read() for corpus in corpora), 0, None, step)
