"""Every kind learns: a tiny model in which it stands trains for some tens of steps on running text and on the toy
translation. Afterwards its loss is below what knowing how frequent each token is would give, none of its weights
stands where it stood, it attends to what it is given, and decoding finds in it what a whole pass finds."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from contracts.combining import READING, Combination, Value, every_value, forms_of, repaired, slot_of
from torch import Tensor, nn

from headway.config import catalogue
from headway.config.schema import from_dict
from headway.contracts.learning import LearningTask, check_context, check_learning, running_text, toy_translation
from headway.decode import Hypothesis, Search, SpecialTokens, decode
from headway.decode.reference.model import ModelStepper
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.nn.transformer import Transformer
from headway.train.objectives import Batch

WIDTH = 32
KINDS = [
    (slot, kind)
    for slot in ("position", "mask", "mixer", "feedforward", "linear", "residual", "norm")
    for kind in catalogue.kinds(slot)
]
PLAIN = Combination(
    ("both",), ("attention(4)",), ("sinusoidal",), ("full",), ("relu(48)",), ("pre",), ("dense",), ("layernorm",)
)


def decodes(slot: str, kind: str) -> bool:
    """Whether it can stand in a decoder: a mixer that hears the future refuses every mask that hides it, a position
    or a norm may need all of the text, and a mask more than one."""
    values = {"family": ("decoder",), "mask": ("causal",), slot: forms_of(slot, kind)[0]}
    refusal = PLAIN._replace(**values).refusal() if slot in ("mixer", "position", "mask", "norm") else None
    return refusal is None or slot_of(refusal) != ("mask" if slot == "mixer" else slot)


each_kind_beside_a_decoder = pytest.mark.parametrize(
    ("slot", "kind"),
    [  # what decodes has learned running text in the quick suite
        pytest.param(*one, marks=[pytest.mark.slow] * (one[0] not in ("mixer", "residual") and decodes(*one)))
        for one in KINDS
        if one[0] != "norm" or decodes(*one)
    ],
)
each_decoding_kind = pytest.mark.parametrize(("slot", "kind"), [one for one in KINDS if decodes(*one)])


def model_with(slot: str, kind: str, family: str, task: LearningTask) -> Transformer:
    """The plain model with this kind in it, and with whatever else the kind asks for."""
    form = forms_of(slot, kind)[0]
    values = every_value()
    for where in (family, "listening", READING):  # some stand in decoders only, some in encoders only
        fixed: dict[str, Value] = {"family": (where,), slot: form}
        combination, works = repaired(PLAIN._replace(**fixed), fixed, values, random.Random(1))
        if works:
            break
    table = combination.table()["model"] | {"d_model": WIDTH, "vocabulary": task.tokenizer.size, "dropout": 0.0}
    table["embedding"] = {"tied": "none"}  # or what `post` carries to the end first says again what was read
    torch.manual_seed(1)
    return Transformer(from_dict(Transformer.Config, table))


def agrees(model: Transformer, found: Hypothesis, special: SpecialTokens, source: Tensor | None = None) -> None:
    """What decoding says of its tokens, step by step through a state, is what one pass over all of them says."""
    with torch.no_grad():
        given = torch.tensor([[special.start, *found.ids]])
        logps = model.logits(model(source, given).hidden)[0].log_softmax(-1)
    output = [*found.ids, *([special.end] if found.finished else [])]
    expected = [float(logps[position, token]) for position, token in enumerate(output)][found.prefix :]
    assert found.token_logps == pytest.approx(expected, abs=1e-5)
    assert found.token_logps


@each_decoding_kind
def test_it_learns_running_text_and_writes_on(slot: str, kind: str) -> None:
    task = running_text()
    model = model_with(slot, kind, "decoder", task)
    check_learning(model, task)
    check_context(model)
    prompts = [task.tokenizer.encode(text) for text in ("First ", "We are")]
    search = Search(beam_size=1, max_length=12)
    for (found,) in decode(ModelStepper(model), None, special_tokens=task.special, search=search, prefixes=prompts):
        agrees(model, found, task.special)


@each_kind_beside_a_decoder
def test_it_learns_to_translate_and_searches(slot: str, kind: str) -> None:
    task = toy_translation()
    model = model_with(slot, kind, "both", task)
    check_learning(model, task)
    check_context(model)
    batch = task.batches[0]
    assert batch.source is not None and batch.source_valid is not None
    source, valid = batch.source[:2], batch.source_valid[:2]
    rows = decode(
        ModelStepper(model),
        source,
        valid,
        special_tokens=task.special,
        search=Search(beam_size=2, n_best=2, max_length=2),
    )
    for row, hypotheses in enumerate(rows):
        assert len(hypotheses) == 2
        for found in hypotheses:
            agrees(model, found, task.special, source[row : row + 1, valid[row]])


def cut(module: nn.Module, arguments: Any, output: Tensor) -> Tensor:
    return output.detach()


def silent(module: nn.Module, arguments: Any, output: Tensor) -> Tensor:
    return output * 0


@pytest.mark.parametrize("broken", [cut, silent])
@pytest.mark.parametrize("part", ["self", "cross", "feedforward"])
def test_what_is_broken_is_found(part: str, broken: Callable[..., Tensor]) -> None:
    """Or the tests above would show nothing: a sub-layer without gradients, and one that says nothing."""
    model = model_with("mixer", "attention", "both", toy_translation())
    model.stacks["decoder"].blocks[1].sublayers[part].register_forward_hook(broken)  # type: ignore[index, union-attr]
    with pytest.raises(AssertionError, match=rf"blocks\.1\.sublayers\.{part}.* did not move"):
        check_learning(model, toy_translation())


@pytest.mark.parametrize(("rate", "message"), [(0.0, "did not move"), (0.0005, "the loss fell from")])
def test_what_learns_too_little_is_found(rate: float, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_learning(model_with("mixer", "attention", "both", toy_translation()), toy_translation(), rate)


def test_what_learns_only_frequencies_is_found() -> None:
    """Labels that have nothing to do with what is read."""
    task = LearningTask(toy_translation().tokenizer, [shuffled(batch) for batch in toy_translation().batches])
    with pytest.raises(AssertionError, match="a loss below that of token frequencies"):
        check_learning(model_with("mixer", "attention", "both", task), task)


def shuffled(batch: Batch) -> Batch:
    labels, counts = batch.labels.clone(), batch.labels != IGNORE_INDEX
    labels[counts] = labels[counts][torch.randperm(int(counts.sum()))]
    return batch._replace(labels=labels)


def test_a_model_that_ignores_its_context_is_found() -> None:
    for part, message in (("self", "an effect of earlier tokens"), ("cross", "an effect of the source")):
        model = model_with("mixer", "attention", "both", toy_translation())
        for block in model.stacks["decoder"].blocks:  # type: ignore[union-attr]
            block.sublayers[part].register_forward_hook(silent)  # type: ignore[index, union-attr]
        with pytest.raises(AssertionError, match=message):
            check_context(model)
