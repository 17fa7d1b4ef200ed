"""Answers of language models: teacher forcing finds what greedy decoding finds, with any tokenizer."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from headway.compare import answers
from headway.compare.answers import AnswerScore, encode_answer, measure_answers, read_answers
from headway.config.config import Config, read_config
from headway.data.toy.tasks import write_task
from headway.errors import HeadwayError
from headway.files.text_files import read_lines
from headway.nn.transformer import Transformer
from headway.storage.model_dir import LoadedModel
from headway.text.lm_text import encode_text, line_end_id
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.language_model import LanguageModel

STEPS = 800
LINES = ["kd=kd", "the house=the red house", "ab ba=ba ab", "zü=üz"]


def make_config(tokenizer: Tokenizer, max_tokens: int = 32, **decoder: Any) -> Config:
    table: dict[str, Any] = {"layers": 2, "mixer": "attention(2)", "feedforward": "relu(64)", "residual": "pre"}
    table |= {"position": "rope", **decoder}
    model: dict[str, Any] = {"d_model": 32, "dropout": 0.0, "vocabulary": tokenizer.size, "encoder": {"layers": 0}}
    model |= {"embedding": {"scale": False}, "decoder": table}
    return read_config({"model": model, "train": {"objective": "causal", "max_tokens": max_tokens}})


class Learned(NamedTuple):
    model: LanguageModel
    folder: Path  # of the task


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """A tiny model that can copy three letters, most of the time."""
    folder = tmp_path_factory.mktemp("copy")
    text = write_task(folder, "copy", 3, lines=3000, test_lengths=(2, 3))[0].read_text()
    tokenizer = Tokenizer.train([text], "characters")
    config = make_config(tokenizer)
    torch.manual_seed(1)
    network = Transformer(config.model)
    ids = torch.tensor(encode_text(text, tokenizer))
    optimiser = torch.optim.Adam(network.parameters(), betas=(0.9, 0.98))
    for step in range(1, STEPS + 1):
        optimiser.param_groups[0]["lr"] = 0.015 * min(1.0, step / 50) * (1 - step / (STEPS + 1))
        batch = ids[torch.randint(len(ids) - 33, (16, 1)) + torch.arange(33)]
        logits = network.logits(network.decode(batch[:, :-1]))
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()).backward()
        optimiser.step()
    return Learned(LanguageModel(LoadedModel(config, network, Tokenizers(tokenizer, tokenizer))), folder)


@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe(size=328)", "unigram(size=328)"])
def test_an_answer_begins_at_the_first_token_that_has_a_part_of_it(kind: str) -> None:
    tokenizer = Tokenizer.train(LINES * 20, kind)
    for line in LINES:
        for cut in range(len(line) + 1):
            prompt, answer = line[:cut], line[cut:]
            ids, first = encode_answer(prompt, answer, tokenizer)
            assert ids[0] == line_end_id(tokenizer)
            assert tokenizer.decode(ids) == f"\n{line}\n"
            before, through = (tokenizer.decode(ids[:end]) for end in (first, first + 1))
            assert f"\n{prompt}".startswith(before)  # no part of the answer
            assert not f"\n{prompt}".startswith(through)
            assert kind.startswith("b") or before == f"\n{prompt}"  # only subwords and bytes span a boundary


def test_a_tiny_model_learns_to_copy(learned: Learned) -> None:
    score = measure_answers(learned.model.model, learned.model.tokenizer, learned.folder / "test-3.tsv")
    assert score.test == "test-3" and score.lines == 200
    assert score.exact > 0.8 and score.exact <= score.tokens


def test_one_pass_finds_what_greedy_decoding_finds(learned: Learned, tmp_path: Path) -> None:
    lines = [line for name in ("test-2", "test-3") for line in read_lines(learned.folder / f"{name}.tsv")][180:220]
    path = tmp_path / "some.tsv"
    path.write_text("".join(f"{line}\n" for line in [*lines, "ab=\tba", "ab=\t", "=\t=", "abcdefgh=\tabcdefgh"]))
    found = 0
    for prompt, answer in read_answers(path):
        text = learned.model(prompt, length=12, sample=False)
        found += f"{text}\n".startswith(f"{prompt}{answer}\n")
    score = measure_answers(learned.model.model, learned.model.tokenizer, path)
    assert 0 < found < 44 and score.exact == found / 44


def test_tokens_are_counted_one_by_one(learned: Learned, tmp_path: Path) -> None:
    """The model says "kd" and a line end; asked for something else it is right after what was given."""
    network, tokenizer = learned.model.model, learned.model.tokenizer
    path = tmp_path / "one.tsv"
    path.write_text("kd=\tkd\n")
    assert measure_answers(network, tokenizer, path) == AnswerScore("one", 1.0, 1.0, 1)
    path.write_text("kd=\txd\nkd=\tkd\n")
    score = measure_answers(network, tokenizer, path)
    assert score.exact == 0.5 and score.tokens in (3 / 6, 4 / 6, 5 / 6) and score.lines == 2
    assert measure_answers(network, tokenizer, path, max_lines=1).lines == 1


def test_batches_of_any_size_give_the_same(learned: Learned, monkeypatch: pytest.MonkeyPatch) -> None:
    network, tokenizer, path = learned.model.model, learned.model.tokenizer, learned.folder / "test-3.tsv"
    together = measure_answers(network, tokenizer, path, max_lines=60)
    monkeypatch.setattr(answers, "BATCH_TOKENS", 1)
    assert measure_answers(network.train(), tokenizer, path, max_lines=60) == together
    assert network.training  # as it was before
    network.eval()


def test_what_cannot_be_measured_is_refused(learned: Learned, tmp_path: Path) -> None:
    network, tokenizer = learned.model.model, learned.model.tokenizer
    path = tmp_path / "test-1.tsv"
    path.write_text("")
    with pytest.raises(HeadwayError, match="test-1.tsv has no lines to measure"):
        measure_answers(network, tokenizer, path)
    path.write_text("ab=\tab\nab=ab\n")
    with pytest.raises(HeadwayError, match="test-1.tsv, line 2: there is no tab"):
        measure_answers(network, tokenizer, path)
    with pytest.raises(HeadwayError, match="a causal language model, and this is another"):
        measure_answers(Transformer(Transformer.Config(d_model=8, vocabulary=8)), tokenizer, path)
    with pytest.raises(HeadwayError, match='a "wordpiece" tokenizer has no line ends'):
        measure_answers(network, Tokenizer.train(["ab=ab"] * 9, "wordpiece"), path)
    short = Transformer(make_config(tokenizer, 4, position="learned(4)").model)
    with pytest.raises(HeadwayError, match="4 positions"):
        measure_answers(short, tokenizer, learned.folder / "test-3.tsv")
