"""What an encoder alone reads of a text: hidden words as mask tokens, and two texts on two lines as a pair.

    The [MASK] barks.     masked words, as `headway fill` reads them
    one text ⏎ another    a pair, for models that were trained on pairs: BERT with next sentences, the task `match`

and what it says of it: labels, tags, a score, whether the second text follows the first."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from headway.errors import HeadwayError
from headway.text.task_text import encode_pair, encode_texts, encode_words, make_windows
from headway.translate.masked_words import encode_with_masks

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel

MAX_COMPARED_TEXTS = 16  # lines of a text whose vectors are compared with each other


class EncoderInput(NamedTuple):
    ids: list[int]
    expected: list[int]  # the same, with the token that stood where one was hidden
    second: int  # where the second text of a pair begins; 0: there is one text
    first_tokens: list[int]  # of each word, where words are tagged


def reads_two_texts(model: "LanguageModel") -> bool:
    return model.reads_pairs or model.config.train.objective.kind == "match"


def read_encoder_text(model: "LanguageModel", text: str, hidden: Sequence[int] = ()) -> EncoderInput:
    """hidden: which of the tokens are replaced by the mask token."""
    task = model.config.train.objective.kind
    tokenizer, limit = model.tokenizer, model.config.train.max_tokens
    lines = [line.strip() for line in text.strip().split("\n") if line.strip()]
    second = 0
    first_tokens: list[int] = []
    if task == "match":
        if len(lines) != 2:
            raise HeadwayError(f"this model compares two texts: write them on two lines. There are {len(lines)}.")
        ids, second = encode_pair(lines[0], lines[1], tokenizer, limit)
    elif task == "tag":
        windows = make_windows(encode_words(text.split(), tokenizer), tokenizer, limit)
        ids, first_tokens = windows[0].ids, windows[0].first_tokens
        if len(windows) > 1:
            raise _too_long(len(first_tokens), "words", text.split())
    elif task == "embed":
        ids = encode_texts(lines[:1], tokenizer, limit)[0]
    elif task == "classify":
        ids = encode_texts([text.strip()], tokenizer, limit)[0]
    else:
        parts = lines if len(lines) == 2 and reads_two_texts(model) else [text]
        ids = model.frame(_encode(model, parts[0]))
        if len(parts) == 2:
            second = len(ids)
            ids += [*_encode(model, parts[1]), tokenizer.end]
    expected = list(ids)
    if hidden:
        if model.config.model.head.kind != "masked" or tokenizer.mask < 0:
            raise HeadwayError("this model guesses no hidden words, so none can be hidden: leave hidden out.")
        outside = [place for place in hidden if not 0 <= place < len(ids)]
        if outside:
            raise HeadwayError(f"there is no token {outside[0]} to hide: the text has {len(ids)}, counted from 0.")
        for place in hidden:
            ids[place] = tokenizer.mask
    return EncoderInput(ids, expected, second, first_tokens)


def _encode(model: "LanguageModel", text: str) -> list[int]:
    guesses = model.config.model.head.kind == "masked" and model.tokenizer.mask >= 0
    return encode_with_masks(text, model) if guesses else model.encode(text)


def _too_long(count: int, what: str, given: Sequence[Any]) -> HeadwayError:
    return HeadwayError(f"a trace is of one row: {len(given)} {what} are too many, {count} fit. Trace fewer.")


@torch.no_grad()
def describe_encoder_output(
    model: "LanguageModel", text: str, read: EncoderInput, tensors: Mapping[str, Tensor]
) -> dict[str, Any]:
    """What the model says of a text, as JSON; {} where it only guesses words.

    labels      [[label, probability], …], best first
    words       [[word, tag, probability], …], and first_tokens
    score       a number from low to high
    follows     the probability that the second text follows the first
    texts       each line, and `similarity`, the cosines of their vectors"""
    objective, labels = model.config.train.objective, model.config.labels or ()
    scores = tensors.get("output.scores")
    if objective.kind in ("classify", "match") and scores is not None:
        if not labels:
            value = objective.low + float(scores[0]) * (objective.high - objective.low)
            return {"score": value, "low": objective.low, "high": objective.high}
        found = scores.softmax(-1).sort(descending=True)
        return {"labels": [[labels[n], p] for n, p in zip(found.indices.tolist(), found.values.tolist())]}
    if objective.kind == "tag" and scores is not None:
        best = scores[read.first_tokens].softmax(-1).max(-1)
        tagged = zip(text.split(), best.indices.tolist(), best.values.tolist())
        return {"words": [[word, labels[n], p] for word, n, p in tagged], "first_tokens": read.first_tokens}
    if objective.kind == "embed":
        lines = [line.strip() for line in text.split("\n") if line.strip()][:MAX_COMPARED_TEXTS]
        vectors = model.embed(lines)
        return {"texts": lines, "similarity": (vectors @ vectors.T).round(5).tolist()}
    if read.second and model.reads_pairs:
        head: Any = model.model.head
        hidden = tensors["output.hidden"][None].to(model.model.device)
        return {"follows": float(head.next_sentence(hidden).float().softmax(-1)[0, 0])}
    return {}
