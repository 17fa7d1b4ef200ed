"""Whether a language model answers right: lines of a prompt and its answer, as `headway toy --task` writes them.

A line is read as a line of training text is: after a line end. The answer includes its own line end, so that a model
has to know where to stop. All tokens are predicted in one forward pass with the right tokens before them (teacher
forcing): where every token of an answer is the most likely one, greedy decoding finds the same answer."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch

from headway.errors import HeadwayError
from headway.files.text_files import read_lines
from headway.nn.transformer import Transformer
from headway.text.lm_text import encode_after_line_end, line_end_id
from headway.text.tokenizer.special_tokens import special_tokens
from headway.text.tokenizer.tokenizer import Tokenizer

MAX_LINES = 1000  # of a file
BATCH_TOKENS = 4096  # of a forward pass, or one line that is longer


class AnswerScore(NamedTuple):
    """Of one file of prompts and answers."""

    test: str  # the name of the file, without its ending
    exact: float  # share of lines whose whole answer greedy decoding finds
    tokens: float  # share of answer tokens that are predicted right after the right ones
    lines: int


class EncodedAnswer(NamedTuple):
    """A line as ids, the line end before it first, and the index of the first id that has a part of the answer."""

    ids: list[int]
    first: int


def measure_answers(
    model: Transformer, tokenizer: Tokenizer, path: Path, *, max_lines: int | None = MAX_LINES
) -> AnswerScore:
    """Of a file with a prompt, a tab and its answer in each line. Raises HeadwayError if the model cannot read as much.

    max_lines: read no more than the first so many; None: all"""
    if model.config.sides != ["decoder"]:
        raise HeadwayError("answers are measured with a causal language model, and this is another model.")
    answers = [encode_answer(*pair, tokenizer) for pair in islice(read_answers(path), max_lines)]
    if not answers:
        raise HeadwayError(f"{path} has no lines to measure.")
    suppress = list(special_tokens(tokenizer).suppress)
    was_training = model.training
    model.eval()
    try:
        right = [row for batch in batch_answers(answers) for row in predict_answers(model, batch, suppress)]
    finally:
        model.train(was_training)
    count = sum(len(row) for row in right)
    return AnswerScore(
        path.stem, sum(map(all, right)) / len(right), sum(map(sum, right)) / count, len(right)
    )  # fmt: skip


def read_answers(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(read_lines(path), 1):
        prompt, tab, answer = line.partition("\t")
        if not tab:
            raise HeadwayError(f"{path}, line {number}: there is no tab between a prompt and its answer.")
        yield prompt, answer


def encode_answer(prompt: str, answer: str, tokenizer: Tokenizer) -> EncodedAnswer:
    """Prompt and answer are encoded as one line: a token may hold the end of the one and the start of the other."""
    if tokenizer.kind == "wordpiece":
        raise HeadwayError(
            'a "wordpiece" tokenizer has no line ends, and an answer ends with one. Use "characters", "bpe" or another.'
        )
    ids = [line_end_id(tokenizer), *encode_after_line_end(f"{prompt}{answer}\n", tokenizer)]
    text = tokenizer.stream_decoder()
    missing = len(prompt) + 1  # characters of the prompt and of the line end before it
    first = 0
    while missing > 0:
        missing -= len(text.push(ids[first]))
        first += 1
    return EncodedAnswer(ids, first if missing == 0 else first - 1)


def batch_answers(answers: Sequence[EncodedAnswer]) -> Iterator[list[EncodedAnswer]]:
    """Batches of answers that are as long as each other and begin at the same place: nothing is padding."""
    groups: dict[tuple[int, int], list[EncodedAnswer]] = defaultdict(list)
    for answer in answers:
        groups[len(answer.ids), answer.first].append(answer)
    for (length, _), group in sorted(groups.items(), reverse=True):  # the longest first: it needs the most memory
        rows = max(1, BATCH_TOKENS // length)
        for start in range(0, len(group), rows):
            yield group[start : start + rows]


@torch.no_grad()
def predict_answers(model: Transformer, batch: Sequence[EncodedAnswer], suppress: Sequence[int]) -> list[list[bool]]:
    """Which tokens of each answer are the most likely ones. `suppress`: ids that decoding never produces."""
    ids = torch.tensor([answer.ids for answer in batch], device=model.device)
    first = batch[0].first
    logits = model.logits(model.decode(ids[:, :-1])[:, first - 1 :])
    logits[..., list(suppress)] = -torch.inf
    found: list[list[bool]] = (logits.argmax(-1) == ids[:, first:]).tolist()
    return found
