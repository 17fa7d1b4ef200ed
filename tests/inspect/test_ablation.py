"""A model without some of its parts: what is left is what remains when their weights are zeroed by hand."""

import copy
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from contracts.cases import CASES
from contracts.toys import in_catalogue
from random_models import language_model_table, translator_table, write_random_model

import headway
from headway.config.config import read_config
from headway.contracts.cases import Case
from headway.errors import HeadwayError
from headway.inspect.ablation import ablate, ablate_network, parse_part
from headway.inspect.tracer import trace_forward
from headway.nn.transformer import Transformer, has_hooks
from headway.translate.language_model import LanguageModel
from headway.translate.options import TranslateOptions
from headway.translate.translator import Translator

SOURCE, TARGET = [5, 9, 17, 4, 8, 3], [2, 11, 7, 20, 6]
TEXTS = ["The dog sees a red house.", "no one, two three", "a cat"]


def build(**changes: Any) -> Transformer:
    """An encoder-decoder with random weights, in float64."""
    table = {**translator_table(**changes), "vocabulary": 40}
    model = Transformer(read_config({"model": table}).model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.2)
    return model.double().eval()


def logps(model: Transformer) -> torch.Tensor:
    return trace_forward(model, SOURCE, TARGET)["output.logps"]


@torch.no_grad()
def zero_heads(projection: Any, heads: int, off: list[int]) -> None:
    """The columns that an output projection has for these heads."""
    projection.weight.unflatten(1, (heads, -1))[:, off] = 0


def test_a_head_is_off_as_if_its_columns_were_zero() -> None:
    model = build(residual="post")
    by_hand = copy.deepcopy(model)
    zero_heads(by_hand.stacks["decoder"].blocks[1].sublayers["cross"].output, 4, [0, 3])  # type: ignore[index, union-attr]
    zero_heads(by_hand.stacks["encoder"].blocks[0].sublayers["self"].output, 4, [2])  # type: ignore[index, union-attr]
    ablated = ablate_network(model, ["decoder.1.cross.head 3", "decoder.1.cross.head 0", "encoder.0.self.head 2"])
    torch.testing.assert_close(logps(ablated), logps(by_hand), rtol=0, atol=1e-6)
    assert (logps(ablated) - logps(model)).abs().max() > 1e-2
    assert not has_hooks(model)  # the model itself is as it was
    assert next(ablated.parameters()) is next(model.parameters())  # and has lent its weights


def test_a_sublayer_or_a_layer_adds_nothing_to_the_stream() -> None:
    found = trace_forward(
        ablate_network(build(), ["decoder.0.feedforward", "decoder.1", "encoder.1.self"]), SOURCE, TARGET
    )
    for name, before in (
        ("decoder.0.feedforward", "decoder.0.cross"),
        ("decoder.1.self", "decoder.0.cross"),
        ("decoder.1.cross", "decoder.0.cross"),
        ("decoder.1.feedforward", "decoder.0.cross"),
        ("encoder.1.self", "encoder.0.feedforward"),
    ):
        assert torch.equal(found[f"{name}.stream"], found[f"{before}.stream"]), name
        assert not found[f"{name}.output"].any()
    assert found["decoder.1.cross.weights"].any()  # it looks where it looked, and is not heard
    assert found["encoder.1.feedforward.output"].any()


def test_every_kind_can_be_switched_off() -> None:
    """Of each mixer with heads one head, and of each mixer and feed-forward the whole."""
    forms: dict[tuple[str, str], Case] = {}
    for case in CASES:
        if case.linear == "dense":
            forms.setdefault((case.mixer, case.feedforward), case._replace(residual="pre"))
    with_heads = 0
    for case in forms.values():
        with in_catalogue():
            model = case.model()
        layer = len(model.stacks["decoder"].blocks) - 1  # type: ignore[arg-type]
        mixer: Any = model.stacks["decoder"].blocks[layer].sublayers["self"]  # type: ignore[index, union-attr]
        whole = trace_forward(ablate_network(model, [f"decoder.{layer}.self"]), [], TARGET)
        assert not whole[f"decoder.{layer}.self.output"].any(), case
        before = [f"decoder.{layer - 1}.{name}.stream" for name in ("feedforward", "self")]  # some have no feed-forward
        stream = next(whole[name] for name in before if name in whole)
        assert torch.equal(whole[f"decoder.{layer}.self.stream"], stream), case
        mixer = getattr(mixer, "attention", mixer)  # LSRA's half with heads
        projection = getattr(mixer, "output", None)
        heads = getattr(getattr(mixer, "config", None), "heads", 0)
        if not heads or projection is None:
            with pytest.raises(HeadwayError, match="has no heads. Switch it off as a whole"):
                ablate_network(model, [f"decoder.{layer}.self.head 0"])
            continue
        with_heads += 1
        ablated = logps_of_text(ablate_network(model, [f"decoder.{layer}.self.head {heads - 1}"]))
        zero_heads(projection, heads, [heads - 1])
        torch.testing.assert_close(ablated, logps_of_text(model), rtol=0, atol=1e-6, msg=str(case))
    assert with_heads > 20


def logps_of_text(model: Transformer) -> torch.Tensor:
    return trace_forward(model, [], TARGET)["output.logps"]


def test_layers_that_share_weights_are_switched_off_one_by_one() -> None:
    model = build(distinct_layers=1)
    found = trace_forward(ablate_network(model, ["decoder.1.feedforward"]), SOURCE, TARGET)
    assert found["decoder.0.feedforward.output"].any()
    assert not found["decoder.1.feedforward.output"].any()
    assert torch.equal(logps(ablate_network(model, [])), logps(model))


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    write_random_model(folder, translator_table(), noise=0.4, search={"beam_size": 3})
    found = headway.load(folder, engine="torch")
    assert isinstance(found, Translator)
    return found


def test_a_translator_searches_without_the_part(translator: Translator) -> None:
    """The fast decoders read weights without calling layers: they must not be taken."""
    parts = ["decoder.0.cross", "decoder.1.self.head 2"]
    ablated = ablate(translator, parts)
    search = ablated.search(max_length=12)
    found = ablated.translate(TEXTS, TranslateOptions(search=search))
    by_hand = copy.deepcopy(translator)
    model: Any = by_hand.steppers[0].model
    layers = model.stacks["decoder"].blocks
    with torch.no_grad():
        layers[0].sublayers["cross"].output.weight.zero_()
        layers[0].sublayers["cross"].output.bias.zero_()
    zero_heads(layers[1].sublayers["self"].output, 4, [2])
    expected = by_hand.translate(TEXTS, TranslateOptions(search=search))
    assert [one.text for one in found] == [one.text for one in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-5)
    whole = translator.translate(TEXTS, TranslateOptions(search=search))
    assert [one.score for one in found] != pytest.approx([one.score for one in whole], abs=1e-2)
    traced = ablated.trace(TEXTS[0], max_length=12)
    assert traced.output == found[0].text
    assert not traced.tensors["decoder.0.cross.output"].any()


def test_both_are_used_side_by_side(translator: Translator) -> None:
    """While one thread searches without a part, another searches with it."""
    plain = [translator.trace(text, beam_size=1, max_length=8).found[0].logp for text in TEXTS]
    scores: dict[int, list[float]] = {0: [], 1: []}
    ablated = ablate(translator, ["encoder.1.feedforward"])

    def work(which: int) -> None:
        torch.set_num_threads(1)
        for text in TEXTS * 3:
            trace = (translator, ablated)[which].trace(text, beam_size=1, max_length=8)
            scores[which].append(trace.found[0].logp)

    threads = [threading.Thread(target=work, args=(which,)) for which in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert scores[0] == plain * 3
    assert scores[1] == scores[1][:3] * 3
    assert scores[1][:3] != plain


def test_a_language_model_continues_without_the_part(tmp_path: Path) -> None:
    write_random_model(tmp_path, language_model_table(), "causal", noise=0.4)
    model = headway.load(tmp_path)
    assert isinstance(model, LanguageModel)
    ablated = ablate(model, ["decoder.1"])
    trace = ablated.trace("a cat", length=3, beam_size=1)
    assert not trace.tensors["decoder.1.self.output"].any()
    assert ablated("a cat", length=3, beam_size=1) == trace.output
    assert not has_hooks(model.model)


def test_names_of_parts() -> None:
    for name in ("decoder.2.cross.head 3", "decoder.2.cross", "encoder.11"):
        assert str(parse_part(name)) == name
    for name in ("decoder", "decoder.x", "decoder.1.cross.3", "decoder.1.head 3", " decoder.1", "decoder.-1", ""):
        with pytest.raises(HeadwayError, match="names no part of a model. Write decoder.2 for a layer"):
            parse_part(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("decoder.2", "there is no decoder.2: the decoder has the layers 0 to 1"),
        ("encoder.0.cross", "there is no encoder.0.cross: this layer has self, feedforward"),
        ("decoder.0.self.head 4", "decoder.0.self has the heads 0 to 3"),
        ("decoder.0.feedforward.head 0", "decoder.0.feedforward has no heads. Switch it off as a whole"),
    ],
)
def test_a_part_that_is_not_there(name: str, message: str) -> None:
    with pytest.raises(HeadwayError, match=message):
        ablate_network(build(), [name])
    with pytest.raises(HeadwayError, match="this model has no encoder, only its decoder"):
        ablate_network(Case("attention(4)").model(), ["encoder.0"])


def test_an_ensemble_is_refused(translator: Translator) -> None:
    with pytest.raises(HeadwayError, match="not of an ensemble of 2: load one of them"):
        ablate(Translator([*translator.engines.loaded] * 2), ["decoder.0"])
