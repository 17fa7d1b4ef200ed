"""A trace: computed in the open, equal to the fast path, and complete enough that its numbers can be checked."""

import base64
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from translate.test_translator import random_translator

import headway
from headway.decode import decode
from headway.decode.reference.model import ModelStepper
from headway.errors import ConfigError, HeadwayError
from headway.inspect.events import pack_weights
from headway.inspect.trace import Trace
from headway.inspect.tracer import trace_forward
from headway.nn.cache.kv import DecoderState
from headway.nn.context import ForwardReport
from headway.nn.masks.masks import CAUSAL, FULL, dense_mask
from headway.nn.ops.attention import attend
from headway.translate.language_model import LanguageModel
from headway.translate.options import TranslateOptions
from headway.translate.search import Fault, SentenceSearch
from headway.translate.translator import Translator, load_translator

TEXT = "The dog sees a red house."


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    return load_translator(translator_dir, engine="torch")


@pytest.fixture(scope="module")
def lm(lm_dir: Path) -> LanguageModel:
    found = headway.load(lm_dir)
    assert isinstance(found, LanguageModel)
    return found


@pytest.fixture(scope="module")
def trace(translator: Translator) -> Trace:
    return translator.trace(TEXT)


class OpenStepper(ModelStepper):
    """The search on the explicit path: every step is traced."""

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> DecoderState:
        memory = None if source is None else self.model.encode(source, valid, report=ForwardReport(trace={}))
        return self.model.new_state(rows, memory)

    def step(self, state: DecoderState, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        hidden = self.model.decode(ids, valid, state=state, report=ForwardReport(trace={}))
        return self.model.logits(hidden[:, -1]).float().log_softmax(-1)


@pytest.mark.parametrize("beam", [1, 4])
def test_the_explicit_path_finds_what_the_fast_one_finds(
    translator: Translator, toy: Path, beam: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (toy / "test.en").read_text().splitlines()[:6]
    fast = translator.translate(
        lines, TranslateOptions(search=translator.search(beam_size=beam), split_sentences=False, retry=False)
    )
    monkeypatch.setattr(translator, "stepper", OpenStepper(translator.steppers[0].model))
    slow = translator.translate(
        lines, TranslateOptions(search=translator.search(beam_size=beam), split_sentences=False, retry=False)
    )
    for one, other in zip(fast, slow):
        assert one.guesses[0].tokens == other.guesses[0].tokens
        assert one.guesses[0].token_logps == pytest.approx(other.guesses[0].token_logps, abs=1e-4)


def test_the_output_is_that_of_a_call(translator: Translator, toy: Path) -> None:
    for line in [*(toy / "train.en").read_text().splitlines()[:3], *(toy / "test.en").read_text().splitlines()[:3]]:
        found = translator.trace(line)
        assert found.output == translator(line)
        made = translator.translate([line])[0].guesses[0]
        assert (found.found[0].ids, found.found[0].token_logps) == (made.tokens, made.token_logps)
        assert (found.kind, found.text, found.forced) == ("translation", line, 0)


def test_the_logits_are_those_of_the_fast_kernel(translator: Translator, trace: Trace) -> None:
    model = translator.steppers[0].model
    with torch.no_grad():
        memory = model.encode(torch.tensor([trace.source.ids]))
        hidden = model.decode(torch.tensor([trace.target.ids]), memory=memory)
        expected = model.logits(hidden).log_softmax(-1)[0]
    torch.testing.assert_close(trace.tensors["output.logps"], expected, rtol=0, atol=1e-4)
    torch.testing.assert_close(trace.tensors["output.hidden"], hidden[0], rtol=0, atol=1e-4)


def test_every_step_says_what_the_search_reported(trace: Trace) -> None:
    logps = trace.tensors["output.logps"]  # (T, V)
    chosen = [logps[place, token].item() for place, token in enumerate(trace.written.ids)]
    assert chosen == pytest.approx(trace.found[0].token_logps, abs=1e-4)
    torch.testing.assert_close(logps.exp().sum(-1), torch.ones(len(logps)))


def test_tokens_of_both_sides(translator: Translator, trace: Trace) -> None:
    reader, writer = translator.tokenizers.source, translator.tokenizers.target
    assert trace.source.ids == [*reader.encode(TEXT), reader.end]
    assert "".join(trace.source.pieces) == f" {TEXT}⟨/s⟩"
    assert trace.target.ids == [writer.start, *trace.found[0].ids]
    assert trace.written.ids == [*trace.found[0].ids, writer.end]
    assert writer.decode(trace.written.ids).strip() == trace.output


def attentions(trace: Trace) -> list[str]:
    return [name.removesuffix(".weights") for name in trace.tensors if name.endswith(".weights")]


def test_weights_follow_from_queries_and_keys(trace: Trace) -> None:
    """softmax(q·k/√d) is what was saved, and the weighted sum of v is what the heads say."""
    assert attentions(trace) == ["encoder.0.self", "decoder.0.self", "decoder.0.cross"]
    for place in attentions(trace):
        q, k, v, scores, weights = (trace.tensors[f"{place}.{name}"] for name in ("q", "k", "v", "scores", "weights"))
        torch.testing.assert_close(scores, q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), rtol=0, atol=1e-5)
        allowed = dense_mask(CAUSAL if place == "decoder.0.self" else FULL, *scores.shape[1:])
        recomputed = scores.masked_fill(~allowed, -math.inf).softmax(-1)
        torch.testing.assert_close(weights, recomputed, rtol=0, atol=1e-6)
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]), rtol=0, atol=1e-5)
        heads = attend(q[None], k[None], v[None], mask=allowed, kernel="sdpa")[0]
        torch.testing.assert_close(weights @ v, heads, rtol=0, atol=1e-5)


def test_norms_are_those_of_the_stream(translator: Translator, trace: Trace) -> None:
    """The preset's residual is pre-norm: each sub-layer adds what it says, so the stream can be added up again."""
    for side in ("encoder", "decoder"):
        stream = trace.tensors[f"{side}.embedded"]
        assert trace.tensors[f"{side}.embedded.norm"].tolist() == pytest.approx(stream.norm(dim=-1).tolist())
        for sub in ("self", "cross", "feedforward") if side == "decoder" else ("self", "feedforward"):
            stream = stream + trace.tensors[f"{side}.0.{sub}.output"]
            torch.testing.assert_close(trace.tensors[f"{side}.0.{sub}.stream"], stream, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(trace.tensors[f"{side}.0.{sub}.norm"], stream.norm(dim=-1), rtol=1e-5, atol=1e-5)
    last = translator.steppers[0].model.stacks["decoder"].ends.finish(stream)
    torch.testing.assert_close(trace.tensors["output.hidden"], last, rtol=1e-5, atol=1e-5)


def test_the_whole_beam_with_what_was_pruned(translator: Translator) -> None:
    found = translator.trace(TEXT, beam_size=3, n_best=3)
    nodes = found.tree()
    assert {node.fate for node in nodes} >= {"runs", "ends", "pruned"}
    for hypothesis in found.found:
        ids = [*hypothesis.ids, translator.special_tokens.end]
        (node,) = [node for node in nodes if node.ids == ids and node.fate == "ends"]
        assert node.logp == hypothesis.logp
        for length in range(len(ids), 0, -1):  # back to the root
            assert node.ids == ids[:length]
            assert (node.parent is None) == (length == 1)
            node = nodes[node.parent] if node.parent is not None else node
    for step in range(max(node.step for node in nodes)):
        assert sum(node.fate == "runs" for node in nodes if node.step == step) <= 3
    assert all(found.pieces[token] for node in nodes for token in node.ids)
    assert found.search["beam_size"] == 3


def test_a_prefix_is_marked_as_given(translator: Translator) -> None:
    free = translator.trace(TEXT)
    prefix = translator.tokenizers.target.decode(free.found[0].ids[:2])
    found = translator.trace(TEXT, prefix=prefix)
    assert found.forced == len(translator.tokenizers.target.encode(prefix)) > 0
    assert found.written.ids[: found.forced] == translator.tokenizers.target.encode(prefix)
    produced = found.written.ids[found.forced :]
    assert any(node.ids == produced for node in found.tree())
    assert len(found.found[0].token_logps) == len(produced)


def test_an_output_that_was_cut_does_not_end(translator: Translator) -> None:
    found = translator.trace(TEXT, max_length=2)
    assert not found.found[0].finished
    assert found.written.ids == found.found[0].ids
    assert len(found.target.ids) == len(found.written.ids) + 1
    assert found.warnings == ["the output was cut at 2 tokens"]
    assert any(node.fate == "cut" and node.ids == found.written.ids for node in found.tree())
    assert translator.trace(TEXT, max_length=0).beam == []


def test_a_mended_translation_shows_the_search_that_found_it(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first search is told to be at fault; the second, wider one is what the trace shows."""
    calls: list[str] = []
    monkeypatch.setattr(
        SentenceSearch,
        "_find_fault",
        lambda self, sentence, found: (calls.append(""), Fault("a loop") if len(calls) <= 1 else None)[1],
    )
    found = translator.trace(TEXT)
    assert any("another was found" in warning for warning in found.warnings)
    assert [choice.step for choice in found.beam] == list(range(len(found.beam)))
    assert len(found.beam[0].ids) == 16, "the second search has a beam of 8, and so 16 candidates"
    assert any(node.ids == found.written.ids for node in found.tree())


def test_several_sentences_are_one(translator: Translator) -> None:
    found = translator.trace(f"{TEXT} {TEXT}")
    assert found.warnings[0] == "2 sentences were translated as one; without a trace they are translated one by one"
    assert "".join(found.source.pieces) == f" {TEXT} {TEXT}⟨/s⟩"


# ---- language models, and models that guess words


def test_a_language_model(lm: LanguageModel) -> None:
    found = lm.trace("The dog", beam_size=2, length=6)
    assert found.output == lm("The dog", beam_size=2, length=6)
    assert (found.kind, found.source.ids) == ("causal", [])
    assert found.forced == len(lm.make_prompt("The dog").prefix)
    assert not any(name.startswith("encoder") for name in found.tensors)
    logps = found.tensors["output.logps"]
    chosen = [logps[place, token].item() for place, token in enumerate(found.written.ids)][found.forced :]
    assert chosen == pytest.approx(found.found[0].token_logps, abs=1e-4)
    again = decode(
        lm.stepper,
        None,
        special_tokens=lm.special_tokens,
        search=lm.search(lm.make_prompt("The dog").prefix, beam_size=2, length=6),
        prefixes=[lm.make_prompt("The dog").prefix],
    )
    assert again[0] == found.found


def test_a_language_model_that_draws(lm: LanguageModel) -> None:
    found = lm.trace("The dog", seed=3, length=5)
    assert found.output == lm("The dog", seed=3, length=5)
    assert found.written.ids[found.forced :] == [choice.ids[0] for choice in found.beam]


def test_a_language_model_that_only_reads(lm: LanguageModel) -> None:
    found = lm.trace("The dog sees", length=0)
    assert (found.output, found.beam, found.search) == ("The dog sees", [], {})
    assert found.target.ids == [lm.special_tokens.start, *found.written.ids]
    assert found.tensors["decoder.0.self.weights"].shape[1:] == (len(found.target.ids),) * 2


def test_a_model_that_guesses_words(masked_dir: Path) -> None:
    model = headway.load(masked_dir)
    found = model.trace("The dog sees a house.")
    assert (found.kind, found.output, found.target.ids, found.found) == ("masked", "", [], [])
    assert found.source.pieces[0] == "\n"  # as in the text that it learned from
    assert "".join(found.source.pieces) == "\nThe dog sees a house."
    assert found.tensors["output.logps"].shape == (len(found.source.ids), model.tokenizer.size)
    torch.testing.assert_close(found.tensors["encoder.0.self.weights"].sum(-1), torch.ones(2, len(found.source.ids)))
    with torch.no_grad():
        fast = model.model.logits(model.model.encode(torch.tensor([found.source.ids])).values).log_softmax(-1)[0]
    torch.testing.assert_close(found.tensors["output.logps"], fast, rtol=0, atol=1e-4)
    with pytest.raises(
        ConfigError, match="this is a masked language model, which generates nothing: it takes no search settings"
    ):
        model.trace("The dog", beam_size=2)
    with pytest.raises(HeadwayError, match="there is nothing to trace"):
        model.trace(" ")


# ---- what is refused


def test_what_cannot_be_traced(
    translator: Translator, lm: LanguageModel, translator_dir: Path, other_translator_dir: Path
) -> None:
    both = load_translator(translator_dir, other_translator_dir)
    with pytest.raises(HeadwayError, match=r"a trace needs a single model, not an ensemble of 2: load one of them."):
        both.trace(TEXT)
    wrong: Any
    for wrong in ("", "  ", None, ["a"]):
        with pytest.raises(HeadwayError, match="there is nothing to trace: give a sentence"):
            translator.trace(wrong)
    with pytest.raises(HeadwayError, match=r"this text has \d+ tokens, and this model reads at most 64"):
        translator.trace("dog " * 100)
    with pytest.raises(ConfigError, match='there is no search setting "beam"'):
        translator.trace(TEXT, beam=3)
    wrong = 3
    with pytest.raises(HeadwayError, match="the text must be a string, not 3"):
        lm.trace(wrong)
    with pytest.raises(HeadwayError, match=r"this text has \d+ tokens, and a trace, .*, at most 1023. Trace a shorter"):
        lm.trace("dog " * 2000, length=0)


def test_any_position_and_separate_tokenizers_of_any_model() -> None:
    for position in ("rope", "alibi", "learned"):
        translator = random_translator(position=position)
        found = translator.trace("ab cd")
        model = translator.steppers[0].model
        with torch.no_grad():
            memory = model.encode(torch.tensor([found.source.ids]))
            fast = model.logits(model.decode(torch.tensor([found.target.ids]), memory=memory)).log_softmax(-1)[0]
        torch.testing.assert_close(found.tensors["output.logps"], fast, rtol=0, atol=1e-4)


def test_nothing_is_shared_or_half_precise(translator: Translator, trace: Trace) -> None:
    """Each tensor is its own memory, in float32, so that it can be saved."""
    assert {tensor.dtype for tensor in trace.tensors.values()} == {torch.float32}
    assert len({tensor.data_ptr() for tensor in trace.tensors.values()}) == len(trace.tensors)
    model = random_translator().steppers[0].model.to(torch.bfloat16)
    assert {tensor.dtype for tensor in trace_forward(model, [5, 2], [1]).values()} == {torch.float32}


def test_packed_weights_are_zero_only_behind_a_mask() -> None:
    """A page tells what may not be looked at from what is hardly looked at."""
    packed = pack_weights(torch.tensor([[[0.0, 1e-9, 0.5, 1.0]]]))
    assert packed["shape"] == [1, 1, 4]
    assert np.frombuffer(base64.b64decode(packed["data"]), "<u2").tolist() == [0, 1, 32768, 65535]
