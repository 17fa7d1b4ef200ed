"""Language models in directories of CTranslate2: logits of transformers, and the ids that CTranslate2 itself writes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from convert.ct2_models import MODELS, NEOX, PARTIAL, convert, open_generator, save, save_model
from convert.language_models import END, check_logits, prompts, stir
from convert.test_llama import SIZES

from headway.convert.architecture import ConversionError
from headway.convert.ctranslate2.model_file import ModelFile
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.decode import Search, decode
from headway.storage.model_dir import load_model
from headway.translate.language_model import LanguageModel

SLOW_TYPES = ("int8", "int8_bfloat16", "int16", "float16", "bfloat16")
QUICK = ("Llama", "GPT-2")
REPEATING = ("Llama, tied, with biases", "Qwen2", "Qwen3", "GPT-2", "GPT-NeoX")  # one token, whatever the prompt


@pytest.fixture(autouse=True)
def old_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The converter reads GPT-NeoX by names that transformers has no more."""
    monkeypatch.setattr(transformers.GPTNeoXForCausalLM, "embed_out", property(lambda m: m.lm_head), raising=False)
    part = property(lambda config: config.rope_parameters.get("partial_rotary_factor", 1.0))
    monkeypatch.setattr(transformers.GPTNeoXConfig, "rotary_pct", part, raising=False)


def import_model(folder: Path, out: Path) -> LanguageModel:
    plan_import(str(folder), ImportOptions()).write(out)
    return LanguageModel(load_model(out))


def check_ids(converted: Path, ours: LanguageModel, count: int, beam: int, repeats: bool) -> None:
    """Those that CTranslate2 writes after each prompt, greedily or with a beam; which differ from each other unless the
    model `repeats` itself."""
    new_tokens = 12
    generator = open_generator(converted)
    names = json.loads((converted / "vocabulary.json").read_text())
    found = set()
    for prompt in prompts(count):
        wanted = generator.generate_batch(
            [[names[n] for n in prompt]], beam_size=beam, num_hypotheses=beam, sampling_topk=1, max_length=new_tokens,
            include_prompt_in_result=False, length_penalty=0, suppress_sequences=[],
        )[0]  # fmt: skip
        search = Search(beam_size=beam, penalty="none", max_length=len(prompt) - 1 + new_tokens, stopping="score")
        best = decode(ours.stepper, None, special_tokens=ours.special_tokens, search=search, prefixes=[prompt[1:]])
        ids = best[0][0].ids[len(prompt) - 1 :]
        assert ids == wanted.sequences_ids[0], prompt
        found.add(tuple(ids))
    assert len(found) > (0 if repeats else 0.4 * count)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in MODELS])
def test_logits_and_ids(name: str, tmp_path: Path) -> None:
    theirs = save_model(tmp_path / "theirs", name)
    converted = convert(tmp_path / "theirs", tmp_path / "ct2")
    ours = import_model(converted, tmp_path / "ours")
    check_logits(theirs, ours)
    for beam in (1, 3):
        check_ids(converted, ours, 4, beam, name in REPEATING)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_two_hundred_prompts(name: str, tmp_path: Path) -> None:
    save_model(tmp_path / "theirs", name)
    converted = convert(tmp_path / "theirs", tmp_path / "ct2")
    ours = import_model(converted, tmp_path / "ours")
    for beam in (1, 3):
        check_ids(converted, ours, 200, beam, name in REPEATING)


@torch.no_grad()
@pytest.mark.parametrize(
    "quantisation", ["int8_float16", *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW_TYPES)]
)
def test_quantised_weights(quantisation: str, tmp_path: Path) -> None:
    """What CTranslate2 computes in float32 with them: its logits, and the very values of its words."""
    save_model(tmp_path / "theirs", "Llama")
    converted = convert(tmp_path / "theirs", tmp_path / "ct2", quantisation)
    plan = plan_import(str(converted), ImportOptions())
    assert bool(plan.architecture.lost) == quantisation.startswith("int")
    ours = import_model(converted, tmp_path / "ours")
    ids = torch.randint(0, END, (3, 24), generator=torch.Generator().manual_seed(2))
    wanted = np.array(open_generator(converted).forward_batch(ids.tolist()))
    np.testing.assert_allclose(ours.model.logits(ours.model.decode(ids)).numpy(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("quantisation", ["int8", "int16", "float16", "bfloat16"])
def test_values_are_those_of_ctranslate2_to_the_bit(quantisation: str, tmp_path: Path) -> None:
    """By a model without layers that do anything, whose output matrix is the identity: its logits are its words."""
    from ctranslate2.specs import TransformerDecoderModelSpec

    width = 16
    spec: Any = TransformerDecoderModelSpec.from_config(1, 1, no_final_norm=True, rotary_dim=0)
    decoder = spec.decoder
    decoder.scale_embeddings = False
    words = np.random.default_rng(0).normal(size=(width, width)).astype(np.float32)
    decoder.embeddings.weight, decoder.projection.weight = words, np.eye(width, dtype=np.float32)
    layer = decoder.layer[0]
    for norm in (layer.self_attention.layer_norm, layer.ffn.layer_norm):
        norm.gamma, norm.beta = np.ones(width, np.float32), np.zeros(width, np.float32)
    nothing = np.eye(2 * width, dtype=np.float32) * 1e-30  # adds nothing to numbers of one; int16 needs a maximum
    linears = [*layer.self_attention.linear, layer.ffn.linear_0, layer.ffn.linear_1]
    for linear, (rows, columns) in zip(linears, [(3, 1), (1, 1), (2, 1), (1, 2)]):
        linear.weight = np.tile(nothing, (2, 2))[: rows * width, : columns * width].copy()
    spec.register_vocabulary([f"t{n}" for n in range(width)])
    spec.validate()
    spec.optimize(quantization=quantisation)
    spec.save(str(tmp_path))
    logits = np.array(open_generator(tmp_path).forward_batch([[n] for n in range(width)]))[:, 0]
    found = ModelFile(tmp_path / "model.bin").read("decoder/embeddings/weight").float().numpy()
    np.testing.assert_array_equal(found, logits)
    assert not np.array_equal(found, words)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("GPTNeoX", {**NEOX, "use_parallel_residual": True}, "self_attention/layer_norm/gamma: its norms stand"),
        ("GPTNeoX", {**NEOX, "rope_parameters": PARTIAL}, "rotary_dim = 2 is not supported, only that of whole heads"),
        (
            "Llama",
            {**SIZES, "rope_parameters": {
                "rope_type": "llama3", "rope_theta": 50.0, "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
            }},
            r"rotary_scaling_type = 2 \(llama3\) is not supported",
        ),
        ("Llama", {**SIZES, "head_dim": 6}, "linear_0/weight has 48 rows, and its settings .* make 32"),
        ("Bloom", {"vocab_size": 257, "hidden_size": 16, "n_layer": 1, "n_head": 2}, "decoder/alibi = 1 is not"),
    ],
)  # fmt: skip
def test_what_is_not_computed_alike_is_refused(
    kind: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    model = getattr(transformers, f"{kind}ForCausalLM")
    save(stir(model(model.config_class(**changes))), tmp_path / "theirs")
    with pytest.raises(ConversionError, match=message):
        plan_import(str(convert(tmp_path / "theirs", tmp_path / "ct2")), ImportOptions())
