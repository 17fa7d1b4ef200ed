"""Vocabulary shortlists (train.shortlist): counted in the training text, then cached."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from headway.config.schema import Part, number
from headway.data.corpora import ParallelCorpus
from headway.data.parallel_files import Pair
from headway.errors import ConfigError, HeadwayError
from headway.files.cache import fingerprint, load_or_build
from headway.text.align.lexicon import TokenLexicon, count_lexicon, make_shortlist
from headway.text.shortlist import Shortlist
from headway.text.tokenizer.pair import Tokenizers

if TYPE_CHECKING:
    from headway.nn.transformer import Transformer

COUNTING_VERSION = "shortlist 1"  # part of the cache key: change it with the way of counting


class NoShortlist:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "none"

        def check(self, model: "Transformer.Config") -> None:
            """Any model will do."""


class LexicalShortlist:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "lexical"
        best: int = number(50, low=1)  # target tokens for each source token
        frequent: int = number(100, low=0)  # target tokens that any sentence may need
        pairs: int = number(200_000, low=1)  # maximum to count in, evenly spread over the text

        def check(self, model: "Transformer.Config") -> None:
            refuse_one_sided(model)


class FrequentShortlist:
    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "frequent"
        frequent: int = number(4000, low=1)  # target tokens, for every sentence
        pairs: int = number(200_000, low=1)  # as above
        best = 0

        def check(self, model: "Transformer.Config") -> None:
            refuse_one_sided(model)


def refuse_one_sided(model: "Transformer.Config") -> None:
    if not (model.encoder.layers and model.decoder.layers):
        raise ConfigError(
            'a shortlist needs a source sentence, and this model reads none. Set it to "none", or train a translator.',
            "train.shortlist",
        )


def load_or_build_shortlist(
    part: Any, corpora: Sequence[ParallelCorpus], tokenizers: Tokenizers, tags: Sequence[str]
) -> Shortlist:
    """For a model with these tokenizers and target language tags, from the cache if it is there."""
    settings = json.dumps(part.to_dict(), sort_keys=True)
    texts = [f"{corpus.identity} {corpus.target_language if tags else ''}" for corpus in corpora]
    return load_or_build(
        "shortlist",
        fingerprint([COUNTING_VERSION, settings, *tokenizers.fingerprints, *tags, *texts]),
        lambda folder: build_shortlist(part, corpora, tokenizers, tags).save(folder),
        Shortlist.load,
    )


def build_shortlist(
    part: Any, corpora: Sequence[ParallelCorpus], tokenizers: Tokenizers, tags: Sequence[str]
) -> Shortlist:
    return make_shortlist(count_lexicons(part, corpora, tokenizers, tags), part.best, part.frequent)


def count_lexicons(
    part: Any, corpora: Sequence[ParallelCorpus], tokenizers: Tokenizers, tags: Sequence[str]
) -> dict[str, TokenLexicon]:
    """A lexicon for each target language tag; without tags, a single one under ""."""
    lexicons = {}
    for tag in tags or ("",):
        own = [corpus for corpus in corpora if not tags or corpus.target_language == tag]
        total = sum(corpus.counts.lines for corpus in own)
        if total:
            step = max(-(-total // part.pairs), 1)
            lexicons[tag] = count_lexicon(
                lambda own=own, step=step: read_every_nth(own, step),  # type: ignore[misc]
                -(-total // step),
                tokenizers,
                part.best,
            )
    if not lexicons:
        raise HeadwayError(f"no target of this text is in {' or '.join(tags)}: name its language with --to.")
    return lexicons


def read_every_nth(corpora: Sequence[ParallelCorpus], step: int) -> Iterator[Pair]:
    """Every `step`-th pair."""
    return islice(chain.from_iterable(corpus.read() for corpus in corpora), 0, None, step)
