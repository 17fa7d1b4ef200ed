"""Mask-predict: against a plain form of its definition, one row and one candidate at a time; and what it refuses."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from quick_training import PAIRS, SMALL

import headway
from headway import Search, TranslateOptions
from headway.config.config import read_config
from headway.config.schema import make_part
from headway.decode.dispatch import decode, stream
from headway.decode.reference.model import Ensemble, ModelStepper
from headway.decode.types import Hypothesis
from headway.errors import ConfigError, HeadwayError
from headway.inspect.trace import load_trace
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.transformer import Transformer
from headway.storage.model_dir import load_model
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.loss import batch_loss
from headway.train.masked_targets import draw_masked
from headway.train.objectives import Example
from headway.translate.search import make_requests, translate_requests
from headway.translate.translator import Translator

SPECIAL = SpecialTokens(pad=0, start=1, end=2, mask=3, suppress=(0, 1, 3), vocabulary=40)
CMLM = {**SMALL, "tokenizer": "bpe(512)"}
NEVER = (*SPECIAL.suppress, SPECIAL.end)
OBJECTIVE = "masked_target"


def make_model(**more: Any) -> Transformer:
    stack = {"layers": 2, "mixer": "attention(2)", "feedforward": "relu(32)", "residual": "pre"}
    model = {"d_model": 16, "vocabulary": 40, "encoder": stack, "decoder": stack, "dropout": 0.0}
    torch.manual_seed(1)
    config = read_config({"model": {**model, "predicted_length": 20, **more}, "train": {"objective": OBJECTIVE}})
    built = Transformer(config.model).eval()
    for parameter in built.parameters():  # so that tokens differ in what they say, and rows in their length
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, 0.0, 0.6)
    return built


@torch.no_grad()
def plain_search(model: Transformer, source: list[int], search: Search, iterations: int, beam: int) -> list[Hypothesis]:
    """As the paper says it."""
    memory = model.encode(torch.tensor([source]))
    assert model.length_predictor is not None
    scores = model.length_predictor.output(memory.values[0].mean(0)).tolist()
    limit = search.max_output_length(len(source)) - 1
    lengths = sorted((n for n in range(1, len(scores)) if n <= limit), key=lambda n: -scores[n])[:beam]
    found = []
    for length in lengths:
        ids = [SPECIAL.mask] * length
        logps = [0.0] * length
        for t in range(iterations):
            count = length * (iterations - t) // iterations
            masked = range(length) if t == 0 else sorted(range(length), key=lambda place: logps[place])[:count]
            read = [SPECIAL.mask if place in masked else token for place, token in enumerate(ids)]
            predicted = model.logits(model.decode(torch.tensor([read]), memory=memory))[0].log_softmax(-1)
            for place in masked:
                allowed = {
                    n: float(predicted[place, n]) for n in range(40) if n not in (*SPECIAL.suppress, SPECIAL.end)
                }
                ids[place] = max(allowed, key=allowed.__getitem__)
                logps[place] = allowed[ids[place]]
        found.append(Hypothesis(ids, sum(logps), sum(logps) / length, logps, True))
    return sorted(found, key=lambda one: -one.score)


SOURCES = [[5, 6, 7, 8, 2], [9, 2], [10, 11, 12, 13, 14, 15, 16, 17, 2], [20, 21, 2]]


def pad(sources: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, sources))
    ids = torch.tensor([[*source, *[0] * (longest - len(source))] for source in sources])
    return ids, torch.tensor([[n < len(source) for n in range(longest)] for source in sources])


@pytest.mark.parametrize(("iterations", "beam"), [(1, 1), (4, 3), (10, 2), (30, 1)])
def test_it_is_the_papers_algorithm_for_every_row(iterations: int, beam: int) -> None:
    model = make_model()
    search = Search(method=f"mask_predict({iterations}, {beam})", n_best=beam, beam_size=beam)
    ids, valid = pad(SOURCES)
    found = decode(ModelStepper(model), ids, valid, special_tokens=SPECIAL, search=search)
    alone = [decode(ModelStepper(model), torch.tensor([s]), special_tokens=SPECIAL, search=search)[0] for s in SOURCES]
    for source, own, single in zip(SOURCES, found, alone):
        plain = plain_search(model, source, search, iterations, beam)
        for got in (own, single):
            assert [one.ids for one in got] == [one.ids for one in plain]
            for one, other in zip(got, plain):
                assert one.token_logps == pytest.approx(other.token_logps, rel=1e-5, abs=1e-5)
                assert one.score == pytest.approx(other.score, rel=1e-5, abs=1e-5)
    assert len({len(own[0].ids) for own in found}) > 1, "lengths differ"


def test_lengths_and_texts_do_not_depend_on_neighbours_that_allow_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two source tokens only one length is allowed; the others still have three. And all of it in small parts."""
    stepper = ModelStepper(make_model())
    search = Search(method="mask_predict(3, 3)", max_ratio=1.0, max_extra=0, n_best=3, beam_size=3)
    ids, valid = pad(SOURCES)
    found = decode(stepper, ids, valid, special_tokens=SPECIAL, search=search)
    assert [len(own) for own in found] == [3, 1, 3, 2]
    for source, own in zip(SOURCES, found):
        plain = plain_search(stepper.model, source, search, 3, 3)
        assert [one.ids for one in own] == [one.ids for one in plain]
    monkeypatch.setattr("headway.decode.mask_predict.MAX_TOKENS", 9)
    monkeypatch.setattr("headway.decode.mask_predict.MAX_LOGITS", 90)
    parts = decode(stepper, ids, valid, special_tokens=SPECIAL, search=search)
    assert [[one.ids for one in own] for own in parts] == [[one.ids for one in own] for own in found]


def test_a_maximum_length_is_kept() -> None:
    ids, valid = pad(SOURCES)
    search = Search(max_length=4, beam_size=1)  # 3 tokens and an end token, in a beam search
    found = decode(ModelStepper(make_model()), ids, valid, special_tokens=SPECIAL, search=search)
    assert {len(row) for row in found} == {1} and max(len(row[0].ids) for row in found) <= 3


def test_how_many_tokens_are_masked_is_uniform() -> None:
    random = np.random.default_rng(0)
    masks = np.array([draw_masked(5, random) for _ in range(5000)])
    counts = Counter(masks.sum(1).tolist())
    assert sorted(counts) == [1, 2, 3, 4, 5] and all(abs(count - 1000) < 150 for count in counts.values())
    assert np.allclose(masks.mean(0), 0.6, atol=0.03), "every place is masked equally often"


def test_a_batch_hides_what_it_asks_for() -> None:
    examples = [Example(np.array([9, 8, 2]), np.arange(10, 20)), Example(np.array([7, 2]), np.array([30]))]
    batch = make_part("objective", OBJECTIVE).collate(examples, SPECIAL, np.random.default_rng(0))  # type: ignore[attr-defined]
    for row, example in enumerate(examples):
        length = len(example.target)
        read, said = batch.inputs[row, :length].numpy(), batch.labels[row, :length].numpy()
        hidden = read == SPECIAL.mask
        assert hidden.any() and (read[~hidden] == example.target[~hidden]).all()
        assert (said[hidden] == example.target[hidden]).all() and (said[~hidden] == IGNORE_INDEX).all()
        assert batch.inputs_valid[row].sum() == length
    assert batch.label_count == int((batch.labels != IGNORE_INDEX).sum())
    model = make_model()
    loss = batch_loss(model, batch, 0.0)
    memory = model.encode(batch.source, batch.source_valid)
    assert model.length_predictor is not None
    lengths = torch.nn.functional.cross_entropy(model.length_predictor(memory), torch.tensor([10, 1]))
    torch.testing.assert_close(loss.parts["length"], 0.1 * lengths.detach() * batch.label_count)
    wider = batch.pad_to(4, 8)._replace(label_count=batch.label_count)
    again = batch_loss(model, wider, 0.0)  # rows of padding have no length to be learned
    torch.testing.assert_close(again.parts, loss.parts)


def test_it_learns_what_each_source_token_becomes() -> None:
    """Targets are their sources, 16 ids further on: after some steps masked tokens are known, and so is the length."""
    model, random = make_model(d_model=32).train(), np.random.default_rng(0)
    torch.manual_seed(0)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.xavier_uniform_(parameter)
    optimiser = torch.optim.Adam(model.parameters(), 0.005)
    objective: Any = make_part("objective", OBJECTIVE)
    losses = []
    for _ in range(120):
        sources = [random.integers(4, 20, int(random.integers(2, 6))) for _ in range(24)]
        examples = [Example(np.append(source, SPECIAL.end), source + 16) for source in sources]
        batch = objective.collate(examples, SPECIAL, random)
        output = batch_loss(model, batch, 0.0)
        (output.loss / batch.label_count).backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(output.parts["cross_entropy"]) / batch.label_count)
    assert losses[0] > 3 and np.mean(losses[-10:]) < 2, "targets alone: 2.8"


def test_the_decoder_sees_all_of_its_target() -> None:
    model = make_model()
    assert model.config.decoder.mask is not None and model.config.decoder.mask[0].kind == "full"
    assert model.config.parameter_count() == sum(parameter.numel() for parameter in model.parameters())
    memory = model.encode(torch.tensor([[5, 6, 2]]))
    first, second = (model.decode(torch.tensor([[9, 9, last]]), memory=memory)[0, 0] for last in (9, 10))
    assert not torch.allclose(first, second)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": {"decoder": {"mask": "causal"}, "predicted_length": 9}}, "hides what follows"),
        ({"model": {"encoder": {"layers": 0}, "predicted_length": 9}}, "needs an encoder and a decoder"),
        ({"model": {"decoder": {"mask": "full"}}}, "must not see the future"),
        ({"train": {"objective": OBJECTIVE}}, "Set model.predicted_length"),
        ({"model": {"predicted_length": 9}}, "would teach it to copy"),
        ({"model": {"predicted_length": 9}, "train": {"objective": "denoising"}}, "would teach it to copy"),
        (
            {"model": {"predicted_length": 9}, "train": {"objective": OBJECTIVE, "alignment": "guided"}},
            "guided alignment",
        ),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_config(settings).resolved()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "beam"}, "predicts all tokens at once, and has no beam"),
        ({"sample": True, "beam_size": 1}, "it draws nothing"),
        ({"no_repeat_ngram": 3}, "left to right"),
        ({"min_length": 2}, "lengths are predicted"),
        ({"shortlist": True}, "no shortlists"),
    ],
)
def test_other_searches_are_refused(changes: dict[str, Any], message: str) -> None:
    stepper = ModelStepper(make_model())
    with pytest.raises(ConfigError, match=message):
        decode(stepper, torch.tensor([[5, 2]]), special_tokens=SPECIAL, search=Search(**changes))


def test_what_needs_an_order_of_tokens_is_refused() -> None:
    stepper, source = ModelStepper(make_model()), torch.tensor([[5, 2]])
    for more, message in (
        ({"prefixes": [[7]]}, "cannot be given its beginning"),
        ({"record": print}, "there is no beam to show"),
        ({"constraints": [None]}, "cannot be demanded"),
    ):
        with pytest.raises(HeadwayError, match=message):
            decode(stepper, source, special_tokens=SPECIAL, search=Search(), **more)  # type: ignore[arg-type]
    with pytest.raises(HeadwayError, match="not an ensemble"):
        decode(Ensemble([stepper, stepper]), source, special_tokens=SPECIAL, search=Search())
    with pytest.raises(HeadwayError, match="nothing to stream"):
        next(stream(stepper, source, special_tokens=SPECIAL, search=Search(beam_size=1)))


def test_a_model_of_next_tokens_refuses_it_by_name() -> None:
    stack = {"layers": 1, "mixer": "attention(2)", "feedforward": "relu(32)"}
    config = read_config({"model": {"d_model": 16, "vocabulary": 40, "encoder": stack, "decoder": stack}})
    stepper = ModelStepper(Transformer(config.model).eval())
    with pytest.raises(ConfigError, match="mask_predict needs a model that predicts masked tokens"):
        decode(stepper, torch.tensor([[5, 2]]), special_tokens=SPECIAL, search=Search(method="mask_predict"))


def test_it_trains_resumes_and_translates(tmp_path: Path) -> None:
    def train(name: str, steps: int) -> dict[str, torch.Tensor]:
        headway.train(
            PAIRS, tmp_path / name, preset="tiny", objective="masked_target", set=CMLM, steps=steps, device="cpu",
            languages=("en", "qtx"), progress=False,
        )  # fmt: skip
        return load_model(tmp_path / name).model.state_dict()

    whole = train("whole", 6)
    train("parts", 2)
    for name, tensor in train("parts", 6).items():
        assert torch.equal(tensor, whole[name]), name
    lines = [source for source, _ in PAIRS[:6]]
    model = headway.load(tmp_path / "whole", device="cpu")
    assert isinstance(model, Translator)
    together = model.translate(lines, TranslateOptions(align=True, retry=False))
    alone = [model.translate([line], TranslateOptions(align=True, retry=False))[0] for line in lines]
    assert [one.text for one in together] == [one.text for one in alone]
    assert [one.guesses[0].alignment for one in together] == [one.guesses[0].alignment for one in alone]
    assert all(0 < len(one.guesses[0].token_logps) == len(one.guesses[0].tokens) for one in together)
    assert model("A dog runs. See https://example.org/a now.").count("https://example.org/a") == 1, "protected"
    int8 = headway.load(tmp_path / "whole", device="cpu", compute="int8")
    assert len(int8.translate(lines, TranslateOptions(retry=False))) == 6  # type: ignore[union-attr]
    one, four = (
        model.translate(lines, TranslateOptions(retry=False, search=model.search(method=f"mask_predict({n}, 1)")))
        for n in (1, 4)
    )
    assert all(a.score <= b.score for a, b in zip(one, four)) or [a.text for a in one] != [b.text for b in four]
    for engine in ("native", "ctranslate2"):
        with pytest.raises(HeadwayError, match="mask_predict, which only torch does"):
            headway.load(tmp_path / "whole", device="cpu", engine=engine, compute="int8")  # type: ignore[arg-type]
    trace = model.trace("A dog runs.", iteration=0)
    assert trace.output == model.translate(["A dog runs."], TranslateOptions(protect=None))[0].text
    assert set(trace.target.ids) == {model.tokenizers.target.mask}
    trace.save(tmp_path / "trace")
    assert load_trace(tmp_path / "trace").iterations == trace.iterations
    recorded: list[Any] = []
    with pytest.raises(HeadwayError, match="no beam to show"):
        translate_requests(model, make_requests(["A dog runs."]), TranslateOptions(), recorded.append)
    with pytest.raises(HeadwayError, match="a probability for each masked token"):
        model.score([("a dog", "a dog")])
