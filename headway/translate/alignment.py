"""Word alignment from cross-attention: which source word each word of a translation comes from.

    (source, target) ── teacher forcing ── cross-attention weights (T, S) ── shares of words ── links (i, j)

A model that was trained with a guided head (train.alignment) has one attention head for this. In other models attention
was never trained to align, and the links are rough."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from headway.decode.batching import batch_by_size
from headway.decode.padding import pad_rows
from headway.errors import HeadwayError
from headway.nn.context import ForwardReport
from headway.text.align.words import token_roles, word_indices
from headway.text.tokenizer.direction_tokens import DirectionTokens
from headway.translate.scoring import check_pairs
from headway.translate.search_calls import AlignCall

if TYPE_CHECKING:
    from headway.config.config import Config
    from headway.translate.search_calls import Plan
    from headway.translate.source import Sentence
    from headway.translate.translator import Translator

Links = list[tuple[int, int]]  # (source word, target word), counted from 0, as str.split counts
LinkRule = Callable[[np.ndarray], np.ndarray]  # shares of attention (target words, source words) -> bool, same shape

MAX_ALIGNED_TOKENS = 4096  # a side: the memory of attention grows with their square
MIN_LINK_SHARE = 0.3  # of a target word's attention: a source word with more is linked to it
MIN_LEFTOVER_SHARE = 0.05  # likewise, for a source word that would have no link


class AlignedPair(NamedTuple):
    """The links of one pair."""

    links: Links
    warnings: list[str]


def align_pairs(
    translator: "Translator", pairs: Sequence[tuple[str, str]], target: str = "", source: str = ""
) -> list[AlignedPair]:
    """The links of each pair, in order. Each side is read as one sentence, without the space around it.

    target, source: languages, where the model has several"""
    check_pairs(pairs)
    reader = translator.tokenizers.source
    writer = translator.tokenizers.target
    direction = translator.direction_tokens(source, target)
    sources = [direction.wrap_source(ids) for ids in reader.encode_batch([one.strip() for one, _ in pairs])]
    targets = writer.encode_batch([other.strip() for _, other in pairs])
    limit = translator.max_positions or max(MAX_ALIGNED_TOKENS, translator.config.train.max_tokens)
    sizes = [
        max(len(source_ids), len(direction.target_lead) + len(target_ids) + 1)
        for source_ids, target_ids in zip(sources, targets)
    ]
    rows = [row for row, size in enumerate(sizes) if size <= limit]
    directions = [direction] * len(rows)
    found = align_ids(translator, [sources[row] for row in rows], [targets[row] for row in rows], directions)
    links = dict(zip(rows, found))
    return [
        AlignedPair(links[row], [])
        if row in links
        else AlignedPair([], [f"not aligned: it has {size} tokens, and this model reads at most {limit}"])
        for row, size in enumerate(sizes)
    ]


def align_ids(
    translator: "Translator",
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    directions: Sequence[DirectionTokens],
    link_rule: LinkRule | None = None,
) -> list[Links]:
    """The same for ids: a source as the model reads it, a target without the control tokens around it. An ensemble
    averages weights.

    link_rule: link_by_threshold by default"""
    source_roles = token_roles(translator.tokenizers.source)
    target_roles = token_roles(translator.tokenizers.target)
    links: list[Links] = [[] for _ in sources]
    inputs = [[*direction.target_lead, *target] for direction, target in zip(directions, targets)]
    sizes = [max(len(source), len(target) + 1) for source, target in zip(sources, inputs)]
    for batch in batch_by_size(range(len(sources)), sizes.__getitem__, translator.batch_tokens):
        weights = read_source_attention(translator, [sources[row] for row in batch], [inputs[row] for row in batch])
        for row, own in zip(batch, weights):
            first_source, first_target = len(directions[row].source_lead), len(directions[row].target_lead)
            source_words = word_indices(sources[row][first_source:], source_roles)
            target_words = word_indices(targets[row], target_roles)
            own = own[first_target:, first_source:][: len(target_words), : len(source_words)]
            links[row] = link_words(own, target_words, source_words, link_rule)
    return links


def align_sentences(translator: "Translator", sentences: "Sequence[Sentence]") -> "Plan[None]":
    """Set the links of every hypothesis, between words as they are given: with protected spans and glossary terms."""
    reader = translator.tokenizers.source
    writer = translator.tokenizers.target
    to_align = []
    for s in sentences:
        if s.is_untranslatable and s.outputs:  # left as it is, and maybe longer than the model reads
            s.links = [[(word, word) for word in range(len(s.text.split()))] for _ in s.hypotheses]
        else:
            to_align.append(s)
    pairs = []
    for s in to_align:
        first, last = s.outer_spans
        differs = s.outputs or s.terms or any(s.outer_spans)
        source_ids = s.direction.wrap_source(reader.encode(s.text)) if differs else s.ids
        for rank, hypothesis in enumerate(s.hypotheses):
            if s.outputs:
                output = s.outputs[rank]
            else:
                output = writer.decode(hypothesis.ids).strip() if any(s.outer_spans) else ""
            pairs.append((source_ids, writer.encode(f"{first}{output}{last}") if output else hypothesis.ids))
    if not pairs:
        return
    directions = [s.direction for s in to_align for _ in s.hypotheses]
    call = AlignCall([source for source, _ in pairs], [target for _, target in pairs], directions)
    yield call
    links = iter(call.links)
    for sentence in to_align:
        sentence.links = [next(links) for _ in sentence.hypotheses]


@torch.no_grad()
def read_source_attention(
    translator: "Translator", sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> np.ndarray:
    """(B, T, S) Cross-attention weights from each target token to each source token."""
    writer = translator.tokenizers.target
    device = translator.stepper.device
    source, source_valid = pad_rows(sources, translator.tokenizers.source.pad, device)
    # A decoder that writes all tokens at once reads no start token, and predicts each token where it stands.
    at_once = any(config.model.predicted_length is not None for config in translator.configs)
    lead = [] if at_once else [writer.start]
    inputs, inputs_valid = pad_rows([[*lead, *target] for target in targets], writer.pad, device)
    if at_once and inputs_valid is None:
        inputs_valid = torch.ones_like(inputs, dtype=torch.bool)
    per_model = []
    for stepper, config in zip(translator.steppers, translator.configs):
        name = find_alignment_weights(config)
        report = ForwardReport(capture=frozenset([name]))
        stepper.model(source, inputs, source_valid, inputs_valid, report)
        heads = report.captured[name].float()  # (B, H, 1 + T, S)
        if at_once:
            per_model.append(heads.mean(1))
        elif is_guided(config):
            per_model.append(heads[:, config.train.alignment.head - 1, 1:])  # at the position that reads the token
        else:
            per_model.append(heads.mean(1)[:, :-1])  # at the position that predicts it
    return torch.stack(per_model).mean(0).cpu().numpy()


def is_guided(config: "Config") -> bool:
    """Whether a model has an attention head that was trained to align."""
    return bool(config.train.alignment.kind == "guided")


def find_alignment_weights(config: "Config") -> str:
    """The trace name of the attention weights to read: of the guided head's layer, or of the last layer."""
    decoder = config.model.decoder
    if is_guided(config):
        return str(config.train.alignment.weights_name(config.model))
    last = decoder.tiled("cross")[-1]
    if last.kind != "attention":
        raise HeadwayError(
            f'this model reads the source by "{last.kind}", which has no attention weights to align by. Use another '
            "model, or a statistical aligner: headway align without --model."
        )
    return f"decoder.{decoder.layers - 1}.cross.weights"


def link_words(
    weights: np.ndarray, target_words: np.ndarray, source_words: np.ndarray, link_rule: LinkRule | None = None
) -> Links:
    """Links between words, from weights (T, S) between tokens and the word index of each token, -1 for none.

    Each target word's share is the attention of its tokens, summed by source word."""
    targets = np.flatnonzero(target_words >= 0)
    sources = np.flatnonzero(source_words >= 0)
    if not len(targets) or not len(sources):
        return []
    shares = np.zeros((target_words.max() + 1, source_words.max() + 1))  # (target words, source words)
    cells = (target_words[targets][:, None], source_words[sources][None, :])
    np.add.at(shares, cells, weights[np.ix_(targets, sources)])
    shares /= np.maximum(shares.sum(1, keepdims=True), 1e-9)
    return sorted((int(i), int(j)) for j, i in zip(*np.nonzero((link_rule or link_by_threshold)(shares))))


def link_by_threshold(shares: np.ndarray) -> np.ndarray:
    """(target words, source words) Link every pair with a share above MIN_LINK_SHARE, and leftover source words."""
    return _add_leftovers(shares > MIN_LINK_SHARE, shares)


def link_by_argmax(shares: np.ndarray) -> np.ndarray:
    """(target words, source words) Link every target word to one source word, and leftover source words."""
    return _add_leftovers((shares == shares.max(1, keepdims=True)) & (shares > MIN_LEFTOVER_SHARE), shares)


def _add_leftovers(links: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Link a source word that has no link, such as an article, to the target word that attends to it most."""
    leftovers = (shares == shares.max(0)) & (shares > MIN_LEFTOVER_SHARE) & ~links.any(0)
    both: np.ndarray = links | leftovers
    return both
