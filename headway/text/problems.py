"""Problems and answers as the ids that a decoder reads: the start, the problem, the answer, the end."""

from collections.abc import Sequence

from headway.text.lm_text import encode_after_line_end, line_end_id
from headway.text.tokenizer.tokenizer import Tokenizer

TEXTS_PER_CALL = 4096


def encode_problem(text: str, tokenizer: Tokenizer) -> list[int]:
    """What stands before the answer."""
    return [line_end_id(tokenizer), *encode_after_line_end(text, tokenizer)]


def encode_answers(answers: Sequence[str], tokenizer: Tokenizer) -> list[list[int]]:
    """Each as a text that follows a space."""
    spaced = [f" {answer}" for answer in answers] if tokenizer.kind == "imported" else list(answers)
    rows: list[list[int]] = []
    for start in range(0, len(spaced), TEXTS_PER_CALL):
        rows += tokenizer.encode_batch(spaced[start : start + TEXTS_PER_CALL])
    return rows


def encode_names(
    names: Sequence[str], tokenizer: Tokenizer, tokens: int, cache: dict[str, list[int]]
) -> list[list[int]]:
    """The first tokens of the name of each node, as they are in an answer. `cache`: of names that came before."""
    new = [name for name in dict.fromkeys(names) if name not in cache]
    cache |= {name: ids[:tokens] for name, ids in zip(new, encode_answers(new, tokenizer))}
    return [cache[name] for name in names]


def normalise_answer(text: str) -> str:
    """Answers are compared word by word: some tokenizers do not keep spacing."""
    return " ".join(text.split())
