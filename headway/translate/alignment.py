"""Which source word says which word of a translation, read from a translator's attention while it reads both.

A model that was trained with a guided head (train.alignment) has one for this. Others have only attention that was
left to itself: what can be read from it is rough.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from headway.decode.padding import batches, padded
from headway.errors import HeadwayError
from headway.nn.context import Report
from headway.text.align.words import word_numbers, word_roles

if TYPE_CHECKING:
    from headway.config.config import Config
    from headway.translate.source import Sentence
    from headway.translate.translator import Translator

Links = list[tuple[int, int]]  # (source word, target word), counted from 0, as str.split counts

MOST = 4096  # tokens a side: the memory of attention grows with their square
SHARE = 0.3  # of a target word's attention: a source word with more is linked with it
LEAST = 0.05  # likewise, for a source word that would have no link


class Aligned(NamedTuple):
    links: Links
    warnings: list[str]


def align_pairs(translator: "Translator", pairs: Sequence[tuple[str, str]], to: str = "") -> list[Aligned]:
    """The links of each pair, in order. Each side is taken as one sentence, without the space around it."""
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(side, str) for side in pair):
            raise HeadwayError(f"a pair is (source, target), two strings, and this is {pair!r}.")
    reader, writer, lead = translator.tokenizers.source, translator.tokenizers.target, translator.tag(to)
    sources = [[*lead, *ids, reader.end] for ids in reader.encode_batch([source.strip() for source, _ in pairs])]
    targets = writer.encode_batch([target.strip() for _, target in pairs])
    limit = translator.positions or max(MOST, translator.config.train.longest)
    sizes = [max(len(source), len(target) + 1) for source, target in zip(sources, targets)]
    short = [row for row, size in enumerate(sizes) if size <= limit]
    found = align_ids(translator, [sources[row] for row in short], [targets[row] for row in short])
    links = dict(zip(short, found))
    return [
        Aligned(links[row], [])
        if row in links
        else Aligned([], [f"not aligned: it has {size} tokens, and this model reads at most {limit}"])
        for row, size in enumerate(sizes)
    ]


def align_ids(
    translator: "Translator",
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    link: Callable[[np.ndarray], np.ndarray] | None = None,
) -> list[Links]:
    """The same for ids: a source as the model reads it, a target without start and end. Several models vote.

    link: which shares of attention (target words, source words) are links; None: as `usual` has it"""
    roles = [word_roles(tokenizer) for tokenizer in (translator.tokenizers.source, translator.tokenizers.target)]
    links: list[Links] = [[] for _ in sources]
    sizes = [max(len(source), len(target) + 1) for source, target in zip(sources, targets)]
    for batch in batches(range(len(sources)), sizes.__getitem__, translator.batch_tokens):
        weights = attention_to_source(translator, [sources[row] for row in batch], [targets[row] for row in batch])
        for row, own in zip(batch, weights):
            read, said = word_numbers(sources[row], roles[0]), word_numbers(targets[row], roles[1])
            links[row] = linked(own[: len(said), : len(read)], said, read, link)
    return links


def align_sentences(translator: "Translator", sentences: "Sequence[Sentence]") -> None:
    """Links of every hypothesis, for the words as they are told: with protected spans and given terms."""
    reader, writer = translator.tokenizers.source, translator.tokenizers.target
    asked = []
    for s in sentences:
        if s.stays and s.said:  # it was left as it is, and may be longer than a model reads
            s.links = [[(word, word) for word in range(len(s.text.split()))] for _ in s.found]
        else:
            asked.append(s)
    found = []
    for s in asked:
        as_given = [*s.lead, *reader.encode(s.text), reader.end] if s.said or s.terms or any(s.frame) else s.ids
        for n, h in enumerate(s.found):
            said = s.said[n] if s.said else writer.decode(h.ids).strip() if any(s.frame) else ""
            found.append((as_given, writer.encode(f"{s.frame[0]}{said}{s.frame[1]}") if said else h.ids))
    links = iter(align_ids(translator, [ids for ids, _ in found], [ids for _, ids in found]))
    for sentence in asked:
        sentence.links = [next(links) for _ in sentence.found]


@torch.no_grad()
def attention_to_source(
    translator: "Translator", sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> np.ndarray:
    """(B, T, S) How much each target token's own place in the decoder looks at each source token."""
    writer = translator.tokenizers.target
    device = translator.stepper.device
    source, source_valid = padded(sources, translator.tokenizers.source.pad, device)
    read, read_valid = padded([[writer.start, *target] for target in targets], writer.pad, device)
    votes = []
    for stepper, config in zip(translator.steppers, translator.configs):
        place = place_of(config)
        report = Report(watch=frozenset([place]))
        stepper.model(source, read, source_valid, read_valid, report)
        heads = report.seen[place].float()  # (B, H, 1 + T, S)
        if is_guided(config):
            votes.append(heads[:, config.train.alignment.head - 1, 1:])  # what it says of a token that it has read
        else:
            votes.append(heads.mean(1)[:, :-1])  # where the heads look when they are about to write it
    return torch.stack(votes).mean(0).cpu().numpy()


def is_guided(config: "Config") -> bool:
    """Whether a model has a head that learned alignments."""
    return bool(config.train.alignment.kind == "guided")


def place_of(config: "Config") -> str:
    """Which attention is read: that of the guided head's layer, or of the last."""
    decoder = config.model.decoder
    if is_guided(config):
        return str(config.train.alignment.place(config.model))
    last = decoder.tiled("cross")[-1]
    if last.kind != "attention":
        raise HeadwayError(
            f'this model listens to the source by "{last.kind}", which has no weights to read an alignment from. Align '
            "with another model, or by counting: headway align without --model."
        )
    return f"decoder.{decoder.layers - 1}.cross.weights"


def linked(
    weights: np.ndarray,
    said: np.ndarray,
    read: np.ndarray,
    link: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Links:
    """Weights (T, S) of tokens, and the word of each token on both sides, as links between words.

    A target word shares out its tokens' attention among the source words."""
    tokens, words = np.flatnonzero(said >= 0), np.flatnonzero(read >= 0)
    if not len(tokens) or not len(words):
        return []
    shares = np.zeros((said.max() + 1, read.max() + 1))  # (target words, source words)
    np.add.at(shares, (said[tokens][:, None], read[words][None, :]), weights[np.ix_(tokens, words)])
    shares /= np.maximum(shares.sum(1, keepdims=True), 1e-9)
    return sorted((int(i), int(j)) for j, i in zip(*np.nonzero((link or usual)(shares))))


def usual(shares: np.ndarray) -> np.ndarray:
    """(target words, source words) Each that gets more than SHARE is linked. What is left over on the source side, such
    as an article, goes with the target word that looks at it most."""
    joined = shares > SHARE
    left_over = (shares == shares.max(0)) & (shares > LEAST) & ~joined.any(0)
    both: np.ndarray = joined | left_over
    return both


def likeliest(shares: np.ndarray) -> np.ndarray:
    """(target words, source words) Each target word with one source word alone, and a source word that would have none
    with the target word that looks at it most."""
    joined = (shares == shares.max(1, keepdims=True)) & (shares > LEAST)
    left_over = (shares == shares.max(0)) & (shares > LEAST) & ~joined.any(0)
    both: np.ndarray = joined | left_over
    return both
