"""A language model: perplexity by hand, text that goes on from a prompt."""

import math
from pathlib import Path

import pytest
import torch

import headway
from headway.config.catalogue import kinds
from headway.config.config import read_config
from headway.errors import ConfigError, HeadwayError
from headway.nn.transformer import Transformer
from headway.storage.model_dir import LoadedModel, load_model
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate.language_model import LanguageModel
from headway.workflows.evaluation import Perplexity


@pytest.fixture(scope="module")
def model(lm_dir: Path) -> LanguageModel:
    found = headway.load(lm_dir)
    assert isinstance(found, LanguageModel)
    return found


@pytest.fixture(scope="module")
def masked(masked_dir: Path) -> LanguageModel:
    found = headway.load(masked_dir)
    assert isinstance(found, LanguageModel)
    return found


def test_perplexity_is_the_exponential_of_the_mean_loss(model: LanguageModel) -> None:
    """In pieces as long as those of the training, every token but the first counted once, the last piece too."""
    text = "The dog sees a red house. " * 13
    ids = [model.special_tokens.start, *model.encode(text)]
    length = model.config.train.max_tokens
    assert (len(ids) - 1) % length  # the last piece is shorter
    total = 0.0
    for start in range(0, len(ids) - 1, length):
        piece = torch.tensor([ids[start : start + length + 1]])
        with torch.no_grad():
            hidden = model.model.decode(piece[:, :-1])
            logps = model.model.logits(hidden)[0].double().log_softmax(-1)
        total -= float(logps.gather(1, piece[0, 1:, None]).sum())
    found = model.perplexity(text)
    assert found.tokens == len(ids) - 1
    assert found.loss == pytest.approx(total / (len(ids) - 1), rel=1e-5)
    assert found.perplexity == pytest.approx(math.exp(total / (len(ids) - 1)), rel=1e-5)
    assert found.bits_per_character == pytest.approx(total / math.log(2) / len(text), rel=1e-5)


def test_a_text_is_read_as_it_was_learned(model: LanguageModel, toy: Path) -> None:
    """Line by line it is as likely as in one piece: the first word of a line is encoded as in the middle of a text, and
    after the same token."""
    lines = (toy / "text.txt").read_text().splitlines(keepends=True)[:100]
    lines = [line for line in lines if len(model.tokenizer.encode(line)) < model.config.train.max_tokens]
    nats, text = 0.0, "".join(lines)
    for line in lines:
        trace = model.trace(line, length=0)
        nats -= sum(float(trace.tensors["output.logps"][place, n]) for place, n in enumerate(trace.target.ids[1:]))
    whole = model.perplexity(text)
    assert whole.characters == len(text)
    assert nats == pytest.approx(whole.loss * whole.tokens, rel=0.03)


@pytest.mark.parametrize("kind", [kind for kind in kinds("tokenizer") if kind != "imported"])
def test_what_is_read_can_be_said_again(kind: str) -> None:
    """And is what a longer text has behind the end of a line."""
    lines = ["The dog sees the house.", "", "  It is \t red, isn't it?", "«Ja», 12 Äpfel 東京"]
    text = "".join(f"{line}\n" for line in lines)
    tokenizer = Tokenizer.train([f"{line}\n" for line in lines] * 20, kind)
    table = {"model": {"d_model": 8, "vocabulary": tokenizer.size, "encoder": {"layers": 0}, "decoder": {"layers": 1}}}
    config = read_config({**table, "train": {"objective": "causal"}})
    model = LanguageModel(LoadedModel(config, Transformer(config.model), Tokenizers(tokenizer, tokenizer)))
    for line in [*lines, text, "\n\n x", " ", "\n", "́x"]:
        ids = model.make_prompt(line).prefix
        assert model.decode(ids) == tokenizer.decode(tokenizer.encode(line)), line
        assert tokenizer.start not in ids
    for line in (lines[0], lines[3]):
        behind = tokenizer.encode(f"Oh\n{line}")[len(tokenizer.encode("Oh")) :]
        assert behind == [
            *[model.special_tokens.start] * (kind != "wordpiece"),
            *model.make_prompt(line).prefix,
        ]  # which knows no line ends


def test_known_text_is_likelier_than_noise(model: LanguageModel, toy: Path) -> None:
    known = model.perplexity((toy / "text.txt").read_text()).perplexity
    assert known < 60
    assert model.perplexity("zq xv jj ww kk" * 5).perplexity > 10 * known


def test_numbers_stay_finite() -> None:
    assert math.isfinite(Perplexity(1e9, 1, 1).perplexity)


def test_a_masked_model_guesses_hidden_words(masked: LanguageModel, toy: Path) -> None:
    text = (toy / "text.txt").read_text()
    found = masked.perplexity(text)
    assert found == masked.perplexity(text)
    share = found.tokens / len(masked.tokenizer.encode(text))
    assert 0.12 < share < 0.19
    assert 1 < found.perplexity < masked.tokenizer.size
    assert found.bits_per_character == pytest.approx(
        found.loss / math.log(2) * len(masked.tokenizer.encode(text)) / len(text)
    )


def test_a_text_of_nothing_is_refused(model: LanguageModel) -> None:
    with pytest.raises(HeadwayError, match=r"this text is too short to measure: give at least a few words"):
        model.perplexity("")
    with pytest.raises(HeadwayError, match=r"this text is too short to measure"):
        model.perplexity("\n \n\n")


def test_going_on(model: LanguageModel) -> None:
    said = model("The dog", seed=1, length=12)
    assert said.startswith("The dog")
    assert said == model("The dog", seed=1, length=12)
    assert len({model("The dog", seed=seed, length=12) for seed in range(4)}) > 1
    assert len(model.tokenizer.encode(said)) <= len(model.tokenizer.encode("The dog")) + 14


def test_greedy_and_beam(model: LanguageModel) -> None:
    greedy = model("The dog", beam_size=1, length=10)
    assert greedy == model("The dog", beam_size=1, length=10)
    assert model("The dog", beam_size=4, length=10).startswith("The dog")
    assert model("The dog", top_k=1, length=10, seed=3) == greedy


def test_no_prompt(model: LanguageModel) -> None:
    assert isinstance(model(length=8, seed=0), str)


def test_a_stream_is_the_same_text(model: LanguageModel) -> None:
    for settings in ({"seed": 4}, {"beam_size": 1}):
        pieces = list(model.stream("The dog", length=12, **settings))
        assert "The dog" + "".join(pieces) == model("The dog", length=12, **settings)
    odd = "é→😀 "
    pieces = list(model.stream(odd, length=6, seed=2))
    assert odd + "".join(pieces) == model(odd, length=6, seed=2)


def test_what_is_wrong_is_said_before_anything_is_written(model: LanguageModel, masked: LanguageModel) -> None:
    with pytest.raises(
        HeadwayError, match=r"this is a masked language model: it cannot continue a text. Try: headway fill"
    ):
        masked.stream("The")
    with pytest.raises(HeadwayError, match=r"this is a masked language model"):
        masked("The")
    with pytest.raises(HeadwayError, match=r"lone surrogate"):
        model.stream("\udcff")
    with pytest.raises(
        ConfigError, match=r'there is no setting "beem_size". Did you mean "beam_size"\? Known: length, beam_size'
    ):
        model("x", beem_size=2)
    with pytest.raises(ConfigError, match=r'there is no setting "max_length"'):
        model("x", max_length=2)
    with pytest.raises(ConfigError, match=r"temperature: 0.5 has no effect without sampling"):
        model("x", beam_size=1, temperature=0.5)


def test_learned_positions_end_the_text_and_not_the_program(lm_dir: Path) -> None:
    config, _, tokenizers = load_model(lm_dir)
    table = config.to_dict()
    table["model"]["decoder"]["position"] = "learned(32)"
    changed = read_config(table)
    model = LanguageModel(LoadedModel(changed, Transformer(changed.model), tokenizers))
    assert model("The dog", length=500, beam_size=1).startswith("The dog")
    assert model.search(model.tokenizer.encode("The dog"), length=500).max_length == 32
    with pytest.raises(HeadwayError, match=r"the prompt has .* tokens, and this model reads 32. Shorten it"):
        model("The dog sees the house. " * 20)
