"""What every front end of the catalogue keeps to: padding and neighbours change nothing, its cost is what it says, it
learns, and whatever reads only tokens refuses it by name."""

import re
from typing import Any

import pytest
import torch
from nn.frontends.inputs import POSITIONS, SMALL, front_end_config, random_media, single, small_model
from torch.utils.flop_counter import FlopCounterMode

from headway.cli.verbs.variants import DOCS, docs_page
from headway.config import catalogue
from headway.config.config import Config
from headway.config.schema import Part, config_class, from_dict
from headway.contracts.costs import check_parameters, use_naive_kernels
from headway.convert.export.ctranslate2.kinds import find_unsupported_kind
from headway.convert.export.differences import expand_table
from headway.convert.export.traced.support import unsupported as traced_unsupported
from headway.decode.cpu.decoder import unsupported as cpu_unsupported
from headway.decode.cuda.decoder import encoder_unsupported
from headway.decode.stored_config import UnsupportedModelError, check_fields
from headway.errors import ConfigError, HeadwayError
from headway.inspect.model_summary import summarise_blocks
from headway.nn.context import ForwardReport
from headway.nn.layers.int8 import quantise_model
from headway.nn.sequence import InsertedVectors
from headway.nn.transformer import Transformer

KINDS = [kind for kind in catalogue.kinds("frontend") if kind != "tokens"]
each_kind = pytest.mark.parametrize("kind", KINDS)


def written(kind: str, **changes: Any) -> dict[str, Any]:
    """A small front end of this kind as a table."""
    encoder = front_end_config(SMALL[kind]).resolved().encoder
    assert encoder.frontend is not None
    return {**encoder.frontend.to_dict(), **changes}


def test_every_kind_has_a_small_form() -> None:
    assert set(SMALL) == set(KINDS) == set(POSITIONS)


@pytest.mark.parametrize("entry", [e for e in catalogue.CATALOGUE if e.slot == "frontend"], ids=lambda e: e.kind)
def test_it_is_in_the_catalogue_and_on_a_page(entry: catalogue.Entry) -> None:
    cls = config_class("frontend", entry.kind)
    assert issubclass(cls, Part) and cls().kind == entry.kind
    page = (DOCS / docs_page(entry)).read_text(encoding="utf-8")
    row = re.search(rf"^\| `{entry.kind}(?:\([^`]*\))?` \|.*$", page, flags=re.MULTILINE)
    assert row, f"{docs_page(entry)} has no row of {entry.kind}"
    assert all(name in row[0] for name in re.findall(r"[A-Z]\w+ \d{4}", entry.reference))


@each_kind
def test_it_is_a_value_of_the_config(kind: str) -> None:
    config = front_end_config(SMALL[kind]).resolved()
    table = config.to_dict()
    assert table["encoder"]["frontend"]["kind"] == kind
    assert from_dict(Transformer.Config, table) == config
    assert "frontend" not in table["decoder"]


def test_tokens_are_what_is_read_without_one() -> None:
    config = front_end_config("tokens", head="logits").resolved()
    assert config.encoder.frontend is None and "frontend" not in config.to_dict()["encoder"]
    ids = torch.randint(29, (2, 5))
    assert Transformer(config).encode(ids).values.shape == (2, 5, 16)


@torch.no_grad()
@pytest.mark.parametrize("position", ["learned", "sinusoidal", "none"])
@each_kind
def test_padding_and_neighbours_change_nothing(kind: str, position: str) -> None:
    model = small_model(written(kind, position=position))
    batch = random_media(kind)
    together = model.encode(batch)
    for row in range(len(batch.values)):
        alone = model.encode(single(batch, row))
        valid = together.positions.valid
        assert valid is not None
        torch.testing.assert_close(together.values[row][valid[row]], alone.values[0], rtol=0, atol=1e-12)
    scores = model.head(together.values, None, together.positions.valid)
    assert scores.isfinite().all()


@torch.no_grad()
@each_kind
def test_a_batch_padded_to_a_shape_gives_the_same(kind: str) -> None:
    model = small_model(SMALL[kind])
    batch = random_media(kind)
    padded = batch.pad_to(5, 16)
    assert padded.values.shape[:2] == (5, 16)
    expected, found = model.encode(batch), model.encode(padded)
    length = expected.values.shape[1]
    valid = expected.positions.valid
    assert valid is not None and found.positions.valid is not None
    assert torch.equal(found.positions.valid[:3, :length], valid)
    torch.testing.assert_close(found.values[:3, :length][valid], expected.values[valid], rtol=0, atol=1e-12)


@each_kind
def test_every_parameter_learns(kind: str) -> None:
    model = small_model({**written(kind), "position": "learned"}).train()
    memory = model.encode(random_media(kind))
    model.head(memory.values, None, memory.positions.valid).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


@each_kind
def test_it_costs_what_its_config_says(kind: str) -> None:
    for position in POSITIONS[kind]:
        check_parameters(front_end_config(written(kind, position=position)))
    config = use_naive_kernels(front_end_config(SMALL[kind]))
    model = Transformer(config).eval()
    batch = random_media(kind, [[3, 2]] if kind == "patches" else [6])
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        memory = model.encode(type(batch)(batch.values.float(), batch[1]))
        model.head(memory.values, None, memory.positions.valid)
    assert counter.get_total_flops() == config.forward_flops(memory.values.shape[1], 0)
    blocks = summarise_blocks(config, 7, 0)
    assert blocks[0].kind == kind and sum(b.parameters for b in blocks) == config.parameter_count()


@torch.no_grad()
@each_kind
def test_it_runs_before_a_decoder_and_with_every_linear_kind(kind: str) -> None:
    for linear in catalogue.kinds("linear"):
        config = front_end_config(SMALL[kind], decoder={"position": "rope"}, linear=linear)
        check_parameters(config)
        model = Transformer(config).double().eval()
        hidden = model(random_media(kind), torch.randint(29, (3, 4))).hidden
        assert model.logits(hidden).isfinite().all() and hidden.shape == (3, 4, 16)
        assert list(model.embeddings["decoder"].state_dict()) == ["words.weight"]


@torch.no_grad()
@each_kind
def test_it_runs_with_memory_tokens_and_in_eight_bits(kind: str) -> None:
    model = small_model(SMALL[kind], encoder={"memory_tokens": "prefix(2)", "position": "rope"})
    memory = model.encode(random_media(kind))
    assert memory.positions.valid is not None and memory.values[memory.positions.valid].isfinite().all()
    model = small_model(SMALL[kind]).float()
    batch = random_media(kind)
    batch = type(batch)(batch.values.float(), batch[1])
    ours, theirs = (part.encode(batch) for part in (quantise_model(model), model))
    valid = theirs.positions.valid
    assert valid is not None
    error = (ours.values - theirs.values)[valid].norm() / theirs.values[valid].norm()
    assert 0 < error < 0.1


@torch.no_grad()
@each_kind
def test_what_it_makes_is_in_a_trace(kind: str) -> None:
    report = ForwardReport(trace={})
    memory = small_model(SMALL[kind]).encode(random_media(kind), report=report)
    assert report.trace is not None
    assert report.trace["encoder.embedded"].shape == memory.values.shape


@each_kind
def test_other_inputs_are_refused(kind: str) -> None:
    with pytest.raises(HeadwayError, match=r"this model reads (pictures|sound): give a \w+Batch .* not a Tensor"):
        small_model(SMALL[kind]).encode(torch.zeros(1, 3, dtype=torch.long))
    tokens = Transformer(front_end_config("tokens", head="logits"))
    with pytest.raises(HeadwayError, match=r"this model reads tokens: give ids \(B, S\), not a \w+Batch"):
        tokens.encode(random_media(kind))


@each_kind
def test_impossible_combinations_are_refused(kind: str) -> None:
    for changes, where, message in (
        ({"encoder": {"position": "learned(9)"}}, "encoder.frontend", "adds positions of its own, and learned ones"),
        ({"encoder": {"position": ["none", "sinusoidal"]}}, "encoder.frontend", 'Set position = "none" beside it'),
        ({"decoder": {"frontend": SMALL[kind]}}, "decoder.frontend", "a decoder reads the tokens that it writes"),
        ({"head": "logits"}, "head", 'the head "logits" scores tokens, and this model reads .* "pooled"'),
        ({"d_model": 18, "encoder": {"mixer": "attention(2)"}, "frontend": {"position": "sinusoidal"}}, "", ""),
    ):
        changes = dict(changes)
        frontend = written(kind, **changes.pop("frontend", {}))  # type: ignore[arg-type]
        if not where:  # of pictures alone: rows and columns have half of the channels each
            where, message = "encoder.frontend.position", "a d_model that is a multiple of 4"
            if kind == "mel":
                changes["d_model"], message = 17, "need pairs of channels, and d_model is 17"
                changes["encoder"] = {"mixer": "attention(1)"}
        with pytest.raises(ConfigError, match=message) as caught:
            front_end_config(frontend, **changes).resolved()  # type: ignore[arg-type]
        assert caught.value.where == where
    assert front_end_config(written(kind, position="none"), encoder={"position": "sinusoidal"}).resolved()


@each_kind
def test_engines_that_read_tokens_refuse_it(kind: str) -> None:
    model = Transformer(front_end_config(SMALL[kind], decoder={"position": "none"})).eval()
    for reason in (cpu_unsupported(model), encoder_unsupported(model, 2, 5)):
        assert reason == "its encoder reads no tokens"
    table = model.config.to_dict()["encoder"]
    with pytest.raises(UnsupportedModelError, match="reads pictures or sound, which only torch does"):
        check_fields("encoder", table)


@torch.no_grad()
def test_vectors_take_the_place_of_tokens_in_a_stream() -> None:
    """On both sides; the ids that they replace do not matter, and gradients reach them."""
    config = from_dict(
        Transformer.Config, {"d_model": 16, "vocabulary": 29, "encoder": {"layers": 1}, "decoder": {"layers": 1}}
    )
    torch.manual_seed(0)
    model = Transformer(config).double().eval()
    ids = torch.randint(29, (2, 5))
    places = torch.tensor([0, 1, 1]), torch.tensor([2, 0, 4])
    table = model.embeddings["decoder"].words.weight
    inserted = InsertedVectors(table[ids[places]] * 4.0, *places)  # √d: what the embedding itself would give
    memory = model.encode(ids, inserted=inserted)
    torch.testing.assert_close(memory.values, model.encode(ids).values)
    other = ids.index_put(places, torch.tensor([3, 4, 5]))
    expected = model.decode(ids, memory=memory)
    torch.testing.assert_close(model.decode(other, memory=memory, inserted=inserted), expected)
    state = model.new_state(2, memory)
    first = model.decode(other[:, :3], state=state, inserted=InsertedVectors(*(x[:2] for x in inserted)))
    last = InsertedVectors(inserted.values[2:], inserted.rows[2:], inserted.columns[2:] - 3)
    torch.testing.assert_close(torch.cat([first, model.decode(other[:, 3:], state=state, inserted=last)], 1), expected)


def test_gradients_reach_inserted_vectors() -> None:
    model = Transformer(from_dict(Transformer.Config, {"d_model": 16, "vocabulary": 29, "encoder": {"layers": 0}}))
    vectors = torch.randn(2, 16, requires_grad=True)
    inserted = InsertedVectors(vectors, torch.tensor([0, 0]), torch.tensor([0, 1]))
    model.decode(torch.zeros(1, 3, dtype=torch.long), inserted=inserted)[:, 2, 0].sum().backward()
    assert vectors.grad is not None and (vectors.grad.abs().sum(1) > 0).all()


@each_kind
def test_formats_that_read_tokens_refuse_it(kind: str) -> None:
    config = Config(model=front_end_config(SMALL[kind], head="tags(2)"))
    assert traced_unsupported(config) == f'encoder.frontend is "{kind}": a graph reads ids.'
    table = front_end_config(SMALL[kind], decoder={"position": "sinusoidal"}).resolved().to_dict()
    assert find_unsupported_kind(expand_table(table)) == "encoder has frontend"
