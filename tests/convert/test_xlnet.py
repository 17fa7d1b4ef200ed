"""XLNet computes and writes what transformers does: each next token, from the tokens before it that see each other, or
from left to right."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from parity.xlnet import sinusoids_in_float64
from random_models import write_random_model
from safetensors.torch import load_file, save_file

from convert.language_models import (
    END,
    check_greedy,
    check_round_trip,
    import_directory,
    import_model,
    prompts,
    stir,
)
from headway.config.search import Search
from headway.convert.architecture import ConversionError
from headway.convert.export.formats import export_model
from headway.convert.export.stored_model import open_model
from headway.convert.huggingface.xlnet import read_xlnet
from headway.decode import decode
from headway.errors import HeadwayError
from headway.nn.transformer import Transformer
from headway.storage.model_dir import load_model
from headway.translate.language_model import LanguageModel

SIZES: dict[str, Any] = {
    "vocab_size": 257, "d_model": 16, "n_layer": 2, "n_head": 4, "d_inner": 20, "mem_len": None,
    "use_mems_eval": False, "bos_token_id": END, "eos_token_id": END, "pad_token_id": END,
}  # fmt: skip


def build(**changes: Any) -> Any:
    return stir(transformers.XLNetLMHeadModel(transformers.XLNetConfig(**{**SIZES, **changes})))


@torch.no_grad()
def next_logits(theirs: Any, ids: torch.Tensor) -> torch.Tensor:
    """Of the token after each prefix, as `generate` asks for them."""
    logits = []
    for length in range(1, ids.shape[1] + 1):
        inputs = theirs.prepare_inputs_for_generation(ids[:, :length])
        masks = {name: inputs[name][:1].to(theirs.dtype) for name in ("perm_mask", "target_mapping")}
        logits.append(torch.cat([theirs(row[None], **masks).logits for row in inputs["input_ids"]]))
    return torch.cat(logits, 1)


@torch.no_grad()
def check_next(theirs: Any, model: Transformer, atol: float) -> None:
    ids = torch.randint(0, END, (3, 11), generator=torch.Generator().manual_seed(2))
    wanted = next_logits(theirs, ids)
    assert wanted.std() > 0.1
    torch.testing.assert_close(model.logits(model.decode(ids)), wanted, rtol=1e-5, atol=atol)
    state = model.new_state(3)
    steps = [model.decode(part, state=state) for part in ids.split([1, 3, 1, 6], 1)]
    torch.testing.assert_close(model.logits(torch.cat(steps, 1)), wanted, rtol=1e-5, atol=atol)


@pytest.mark.parametrize("attn_type", ["bi", "uni"])
def test_logits_and_ids(attn_type: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = build(attn_type=attn_type, ff_activation="gelu" if attn_type == "bi" else "relu")
    ours = import_model(theirs, tmp_path)
    check_next(theirs, ours.model, 1e-5)
    check_greedy(theirs, ours, 4, new_tokens=8)
    if attn_type == "bi":  # theirs fails on more than one row of the other
        check_beam(theirs, ours, 2)
    check_round_trip(tmp_path / "theirs")
    monkeypatch.setattr(transformers.XLNetModel, "positional_embedding", staticmethod(sinusoids_in_float64))
    check_next(theirs.double(), ours.model.double(), 1e-9)


@pytest.mark.slow
def test_two_hundred_prompts(tmp_path: Path) -> None:
    theirs = build()
    ours = import_model(theirs, tmp_path)
    check_greedy(theirs, ours, 200)
    check_beam(theirs, ours, 200)


def check_beam(theirs: Any, ours: LanguageModel, count: int) -> None:
    for prompt in prompts(count):
        search = Search(beam_size=3, penalty="power", alpha=1.0, stopping="score", max_length=len(prompt) + 7)
        best = decode(ours.stepper, None, special_tokens=ours.special_tokens, search=search, prefixes=[prompt[1:]])
        settings = {"do_sample": False, "num_beams": 3, "max_new_tokens": 8, "pad_token_id": END, "eos_token_id": END}
        wanted = theirs.generate(torch.tensor([prompt]), **settings)[0].tolist()
        assert best[0][0].ids == [token for token in wanted[1:] if token != END], prompt


def test_it_comes_back(tmp_path: Path) -> None:
    theirs = build()
    for name, tensor in theirs.named_parameters():
        if "seg_embed" in name or "r_s_bias" in name:  # what tells two texts apart is lost
            tensor.data.zero_()
    import_model(theirs, tmp_path)
    report = export_model(open_model(tmp_path / "ours"), "huggingface", tmp_path / "out")
    assert report.format == "Hugging Face (XLNet)"
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "out"))
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    ids = torch.tensor(prompts(3)[2:])
    torch.testing.assert_close(next_logits(loaded, ids), next_logits(theirs, ids), rtol=0, atol=1e-6)
    for format_name in ("onnx", "ctranslate2", "gguf", "torch-export"):
        with pytest.raises(ConversionError, match="streams|permutation"):
            export_model(open_model(tmp_path / "ours"), format_name, tmp_path / "other")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"architectures": ["XLNetForSequenceClassification"]}, "not with another head"),
        ({"bi_data": True}, "bi_data = True"),
        ({"same_length": True}, "same_length = True"),
        ({"clamp_len": 40}, "clamp_len = 40"),
        ({"clamp_len": "x"}, "clamp_len = 'x'"),
        ({"architectures": 3}, "not with another head"),
        ({"attn_type": "cross"}, "attn_type = 'cross'"),
        ({"d_head": 5}, "d_head = 5"),
        ({"ff_activation": "tanh"}, "ff_activation = 'tanh'"),
    ],
)
def test_what_differs_is_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ConversionError, match=message):
        read_xlnet({**SIZES, **setting})


def test_what_is_lost_is_said() -> None:
    assert [line.split()[0] for line in read_xlnet(SIZES).lost] == ["segment"]
    assert "mem_len = 40" in read_xlnet({**SIZES, "mem_len": 40}).lost[1]
    assert "use_mems = False" in read_xlnet({**SIZES, "use_mems_eval": True}).lost[1]


def test_a_layer_without_its_tensors_is_named(tmp_path: Path) -> None:
    build().save_pretrained(tmp_path / "theirs")
    path = tmp_path / "theirs" / "model.safetensors"
    tensors = load_file(path)
    del tensors["transformer.layer.1.rel_attn.r_w_bias"]
    save_file(tensors, path)
    with pytest.raises(HeadwayError, match=r"transformer\.layer\.\*\.rel_attn\.r_w_bias is missing"):
        import_directory(tmp_path / "theirs", tmp_path / "ours")


@torch.no_grad()
def test_a_model_of_our_own_is_one_of_theirs(tmp_path: Path) -> None:
    decoder = {
        "layers": 2, "mixer": "attention(4, bias=false)", "feedforward": "gelu(20)", "streams": 2,
        "position": "transformer_xl(tied=false)", "residual": "post",
    }  # fmt: skip
    model = {
        "d_model": 16, "norm": "layernorm(1e-12)", "encoder": {"layers": 0}, "decoder": decoder,
        "embedding": {"scale": False}, "head": "logits(bias=true)",
    }  # fmt: skip
    write_random_model(tmp_path / "ours", model, "permutation")
    report = export_model(open_model(tmp_path / "ours"), "huggingface", tmp_path / "out")
    assert report.lost == ("batches: transformers can compute attn_type = uni for one text at a time only",)
    ours = LanguageModel(load_model(tmp_path / "ours"))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = tokenizer("The dog sees", return_tensors="pt", return_token_type_ids=False).input_ids
    torch.testing.assert_close(ours.model.logits(ours.model.decode(ids)), next_logits(theirs, ids), rtol=0, atol=1e-5)
    found = theirs.generate(ids, do_sample=False, max_length=None, max_new_tokens=6)[0]
    assert tokenizer.decode(found).removeprefix("\n") == ours("The dog sees", beam_size=1, length=6)
