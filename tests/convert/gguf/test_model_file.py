"""GGUF files: the logits of transformers on the same file; vocabularies of the original; damaged files refused."""

import io
import json
import re
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gguf
import numpy as np
import pytest
import sentencepiece
import torch
import transformers
from convert.mixed_text import make_lines, make_training_lines
from safetensors.torch import load_file
from tokenizers import ByteLevelBPETokenizer
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from headway.convert.architecture import ConversionError
from headway.convert.gguf.container import GgufFile
from headway.convert.gguf.model_file import llama3_factors, split_experts, translate_metadata
from headway.convert.gguf.vocabulary import read_vocabulary
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.errors import HeadwayError
from headway.storage.model_dir import load_model

LINES = make_lines(500)
SIZES: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "vocab_size": 800, "tie_word_embeddings": False,
    "initializer_range": 0.3, "rope_theta": 5000.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def spm() -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(make_training_lines()), model_writer=model, vocab_size=800, model_type="bpe",
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=9,
        character_coverage=0.98,
    )  # fmt: skip
    return model.getvalue()


def add_sentencepiece(writer: gguf.GGUFWriter, model: bytes) -> None:
    """As llama.cpp's converter does."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = range(processor.GetPieceSize())
    writer.add_tokenizer_model("llama")
    writer.add_token_list([processor.IdToPiece(n) for n in ids])
    writer.add_token_scores([processor.GetScore(n) for n in ids])
    writer.add_token_types(
        [2 if processor.IsUnknown(n) else 3 if processor.IsControl(n) else 6 if processor.IsByte(n) else 1 for n in ids]
    )
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_eot_token_id(5)


def write_gguf(path: Path, model: Any, spm: bytes, name: str = "llama", quantised: bool = False, **more: Any) -> None:
    config = model.config
    writer = gguf.GGUFWriter(path, name)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(5000.0)
    writer.add_vocab_size(config.vocab_size)
    if name == "qwen3":
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    for key, value in more.items():
        getattr(writer, key)(value)
    add_sentencepiece(writer, spm)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[name.upper()], 2)
    for theirs, tensor in model.state_dict().items():
        stem, _, end = theirs.rpartition(".")
        array = tensor.numpy()
        if name == "llama" and (".q_proj" in stem or ".k_proj" in stem):
            heads = config.num_attention_heads if ".q_proj" in stem else config.num_key_value_heads
            array = array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
        old = re.fullmatch(r"model.layers.(\d+).block_sparse_moe.experts.(\d+).(w\d)", stem)
        parts = {"w1": "ffn_gate", "w2": "ffn_down", "w3": "ffn_up"}
        new = f"{names.get_name(stem)}.{end}" if old is None else f"blk.{old[1]}.{parts[old[3]]}.{old[2]}.{end}"
        if quantised and array.ndim > 1:
            kind = gguf.GGMLQuantizationType.Q8_0 if ".layers" in stem else gguf.GGMLQuantizationType.F16
            writer.add_tensor(new, gguf.quants.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(new, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_model(name: str, **changes: Any) -> Any:
    torch.manual_seed(1)
    classes: dict[str, tuple[Any, Any]] = {
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
        "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    }
    config, model = classes[name]
    made = model(config(**{**SIZES, **changes})).eval()
    for parameter in made.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, 1.0, 0.2)
    return made


@pytest.mark.parametrize(
    ("name", "quantised", "tied"),
    [("llama", False, False), ("llama", True, True), ("qwen2", False, False), ("qwen3", True, False)],
)
@torch.no_grad()
def test_logits_are_those_of_transformers(name: str, quantised: bool, tied: bool, spm: bytes, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"head_dim": 16} if name == "qwen3" else {}
    model = make_model(name, tie_word_embeddings=tied, **changes)
    state = model.state_dict()
    if tied:
        del state["lm_head.weight"]
        model.state_dict = lambda: state
    write_gguf(tmp_path / "model.gguf", model, spm, name, quantised)
    report = plan_import(str(tmp_path / "model.gguf"), ImportOptions()).write(tmp_path / "out")
    assert (report.objective, report.vocabulary) == ("causal", 800)
    assert any("tensors in Q8_0 are float32" in what for what in report.lost) == quantised
    loaded = load_model(tmp_path / "out")
    assert loaded.tokenizers.target.other_ends == (5,)  # type: ignore[attr-defined]
    original = load_by_transformers(tmp_path / "model.gguf", **changes)
    ids = torch.randint(0, 800, (3, 40))
    logits = loaded.model.logits(loaded.model(None, ids).hidden)
    torch.testing.assert_close(logits, original(ids).logits, rtol=0, atol=2e-5)
    if not quantised:
        torch.testing.assert_close(logits, model(ids).logits, rtol=0, atol=2e-5)


@torch.no_grad()
@pytest.mark.parametrize("stacked", [True, False], ids=["stacked", "apart"])
def test_mixtral(stacked: bool, spm: bytes, tmp_path: Path) -> None:
    """All experts of a layer in one tensor, as files are written, or one each, as they were."""
    torch.manual_seed(1)
    config = transformers.MixtralConfig(**{**SIZES, "num_local_experts": 3, "num_experts_per_tok": 2})
    model = transformers.MixtralForCausalLM(config).eval()
    model.save_pretrained(tmp_path / "theirs")
    state = {}
    experts: dict[str, list[torch.Tensor]] = {}
    for name, tensor in load_file(tmp_path / "theirs" / "model.safetensors").items():
        if (match := re.fullmatch(r"(model.layers.\d+).block_sparse_moe.experts.(\d+).(w\d).weight", name)) is None:
            state[name] = tensor
        elif stacked:
            projection = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}[match[3]]
            experts.setdefault(f"{match[1]}.mlp.experts.{projection}.weight", []).append(tensor)
        else:
            state[name] = tensor
    state |= {name: torch.stack(parts) for name, parts in experts.items()}
    made = SimpleNamespace(config=config, state_dict=lambda: state)
    write_gguf(tmp_path / "model.gguf", made, spm, add_expert_count=3, add_expert_used_count=2)
    report = plan_import(str(tmp_path / "model.gguf"), ImportOptions()).write(tmp_path / "out")
    assert report.family == "Mixtral"
    ids = torch.randint(0, 800, (3, 40))
    ours = load_model(tmp_path / "out").model
    torch.testing.assert_close(ours.logits(ours(None, ids).hidden), model(ids).logits, rtol=0, atol=2e-5)


def load_by_transformers(path: Path, **changes: Any) -> Any:
    """As from_pretrained(…, gguf_file=…) does, which wants accelerate. It does not read the width of heads."""
    config = transformers.AutoConfig.for_model(**{**load_gguf_checkpoint(path)["config"], **changes})
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    found = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)["tensors"]
    missing = model.load_state_dict({name: tensor.float() for name, tensor in found.items()}, strict=False)
    assert set(missing.missing_keys) <= {"lm_head.weight"} and not missing.unexpected_keys
    model.tie_weights()
    return model


def test_a_vocabulary_with_scores_is_the_sentencepiece_model(spm: bytes, tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", make_model("llama"), spm)
    metadata = GgufFile.open(tmp_path / "model.gguf").metadata
    found = read_vocabulary(metadata, tmp_path, 800)
    assert found.adds_start, "as llama.cpp, where the file does not say"
    assert not read_vocabulary({**metadata, "tokenizer.ggml.add_bos_token": False}, tmp_path, 800).adds_start
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    assert found.encode_batch(LINES) == processor.EncodeAsIds(LINES)
    assert (found.start, found.end, found.pad, found.unknown) == (1, 2, 2, 0)
    decoded = [found.decode(ids) for ids in found.encode_batch(LINES)]
    assert decoded == processor.DecodeIds(processor.EncodeAsIds(LINES))


def test_entries_that_are_called_unknown_and_are_unused(spm: bytes, tmp_path: Path) -> None:
    """As in the files of an old converter."""
    write_gguf(tmp_path / "model.gguf", make_model("llama"), spm)
    metadata = GgufFile.open(tmp_path / "model.gguf").metadata
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    metadata["tokenizer.ggml.tokens"] += ["[PAD800]", "[PAD801]"]
    metadata["tokenizer.ggml.token_type"] += [2, 2]
    metadata["tokenizer.ggml.scores"] += [0.0, 0.0]
    found = read_vocabulary(metadata, tmp_path, 802)
    assert found.encode_batch(LINES) == processor.EncodeAsIds(LINES)


@pytest.fixture(scope="module")
def merges(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("merges")
    trainer = ByteLevelBPETokenizer()
    trainer.train_from_iterator(make_training_lines(), vocab_size=700, show_progress=False)
    trainer.save_model(str(folder))
    vocabulary = json.loads((folder / "vocab.json").read_text())
    pairs = (folder / "merges.txt").read_text().splitlines()[1:]
    return {"vocab": {**vocabulary, "<|endoftext|>": len(vocabulary)}, "merges": [tuple(p.split(" ")) for p in pairs]}


def merge_metadata(merges: dict[str, Any], split: str) -> dict[str, Any]:
    tokens = sorted(merges["vocab"], key=merges["vocab"].get)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": split,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * (len(tokens) - 1) + [3],
        "tokenizer.ggml.merges": [" ".join(pair) for pair in merges["merges"]],
        "tokenizer.ggml.eos_token_id": len(tokens) - 1,
    }


@pytest.mark.parametrize(("split", "name"), [("gpt-2", "GPT2Tokenizer"), ("qwen2", "Qwen2Tokenizer")])
def test_merges_are_those_of_the_family(split: str, name: str, merges: dict[str, Any], tmp_path: Path) -> None:
    size = len(merges["vocab"])
    found = read_vocabulary(merge_metadata(merges, split), tmp_path, size + 7)
    assert not found.adds_start
    original = getattr(transformers, name)(**merges)
    assert found.encode_batch(LINES) == original(LINES, add_special_tokens=False)["input_ids"]
    assert (found.size, found.end, found.start) == (size + 7, size - 1, size - 1)


def test_llama_3_splits_text_as_its_converter_does(merges: dict[str, Any], tmp_path: Path) -> None:
    from transformers.convert_slow_tokenizer import TikTokenConverter

    found = read_vocabulary(merge_metadata(merges, "llama-bpe"), tmp_path, len(merges["vocab"]))
    assert found.adds_start
    pattern = TikTokenConverter(None).pattern
    splits = found.to_json()["model"]["pre_tokenizer"]["pretokenizers"]
    assert splits[0]["pattern"] == {"Regex": pattern}
    assert [found.decode(ids) for ids in found.encode_batch(LINES)] == LINES


def test_llama_3_scaling_is_recognised_by_its_factors(spm: bytes, tmp_path: Path) -> None:
    scaling = {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192, "rope_theta": 5000.0,
    }  # fmt: skip
    config = transformers.LlamaConfig(**{**SIZES, "rope_parameters": scaling, "head_dim": 64})
    rotary = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config)
    expected = 5000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64) / rotary.inv_freq.double()
    torch.testing.assert_close(llama3_factors(5000.0, scaling, 32), expected, rtol=1e-5, atol=0)


def read_file(path: Path, metadata: dict[str, Any], tensors: dict[str, np.ndarray] | None = None) -> GgufFile:
    writer = gguf.GGUFWriter(path, metadata.get("general.architecture", "llama"))
    for name, value in metadata.items():
        if name != "general.architecture":
            (writer.add_uint32 if isinstance(value, int) else writer.add_string)(name, value)
    for name, array in (tensors or {"x": np.zeros(4, np.float32)}).items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return GgufFile.open(path)


LLAMA = {"llama.embedding_length": 32, "llama.attention.head_count": 4}


def test_models_that_cannot_be_equal_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    cases: list[tuple[dict[str, Any], dict[str, np.ndarray] | None, str]] = [
        ({"general.architecture": "mamba"}, None, "is a model of the architecture 'mamba'"),
        ({"general.architecture": "qwen2", "qwen2.expert_count": 8}, None, "is a mixture of experts of .* qwen2, not"),
        ({**LLAMA, "llama.rope.dimension_count": 4}, None, "rotates only part of each head"),
        (LLAMA, {"rope_freqs.weight": np.arange(1, 5, dtype=np.float32)}, "are not those of Llama 3"),
    ]
    for metadata, tensors, message in cases:
        with pytest.raises(ConversionError, match=message):
            translate_metadata(read_file(path, metadata, tensors))
    with pytest.raises(ConversionError, match="ffn_up_exps.weight holds 2,000 experts, more than 1,024"):
        split_experts(read_file(path, LLAMA, {"blk.0.ffn_up_exps.weight": np.zeros((2000, 1, 1), np.float32)}))
    scaled = translate_metadata(read_file(path, {**LLAMA, "llama.rope.scaling.type": "yarn"}))
    assert scaled["rope_scaling"]["rope_type"] == "yarn"


def test_vocabularies_that_cannot_be_equal_are_refused(merges: dict[str, Any], tmp_path: Path) -> None:
    good = merge_metadata(merges, "gpt-2")
    size = len(merges["vocab"])
    cases: list[tuple[dict[str, Any], str]] = [
        ({"tokenizer.ggml.model": "rwkv"}, "has a tokenizer of the kind 'rwkv', which Headway cannot build"),
        ({"tokenizer.ggml.pre": "dodo"}, "splits text by 'dodo' before merging"),
        ({"tokenizer.ggml.tokens": ["a"]}, "its vocabulary is damaged: 1 tokens, "),
        ({"tokenizer.ggml.token_type": 3}, "its vocabulary is damaged"),
        ({"tokenizer.ggml.eos_token_id": None}, "its vocabulary is damaged: 'tokenizer.ggml.eos_token_id'"),
        ({"tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": [1.0]}, "its vocabulary is damaged: .* 1 scores"),
    ]
    for change, message in cases:
        with pytest.raises(HeadwayError, match=message):
            read_vocabulary({**good, **change}, tmp_path, size)
    with pytest.raises(HeadwayError, match="its vocabulary is damaged: .* 3 embeddings"):
        read_vocabulary(good, tmp_path, 3)


def test_damaged_files_are_refused(spm: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path, make_model("llama"), spm)
    whole = path.read_bytes()
    draw = np.random.default_rng(1)
    for cut in [4, 8, 20, 24, 30, 100, *draw.integers(24, len(whole) - 1, 20), len(whole) - 1]:
        path.write_bytes(whole[: int(cut)])
        with pytest.raises(HeadwayError, match="is damaged or incomplete"):
            GgufFile.open(path)
    for at, value in ((8, 2**40), (16, 2**40), (24, 2**62)):  # how many tensors, how much metadata, how long a name
        path.write_bytes(whole[:at] + struct.pack("<Q", value) + whole[at + 8 :])
        with pytest.raises(HeadwayError, match="is damaged or incomplete"):
            GgufFile.open(path)
    path.write_bytes(b"GGUF" + struct.pack("<I", 1) + whole[8:])
    with pytest.raises(ConversionError, match="has version 1 of GGUF, and Headway reads 2 and 3"):
        GgufFile.open(path)
    path.write_bytes(b"GGML" + whole[4:])
    with pytest.raises(HeadwayError, match="is not a GGUF file"):
        GgufFile.open(path)
    with pytest.raises(HeadwayError, match="cannot be read: No such file"):
        GgufFile.open(tmp_path / "gone.gguf")


def entry(name: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind) + value


@pytest.mark.parametrize(
    "metadata",
    [
        entry("a", 13, b""),
        entry("a", 9, struct.pack("<IQ", 9, 1)),
        entry("a", 9, struct.pack("<IQ", 4, 2**60)),
        entry("a", 9, struct.pack("<IQ", 8, 2**60)),
        entry("a", 8, struct.pack("<Q", 1) + b"\xff"),
        entry("general.alignment", 4, struct.pack("<I", 0)),
    ],
)
def test_hostile_metadata_is_refused(metadata: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + metadata)
    with pytest.raises(HeadwayError, match="is damaged or incomplete"):
        GgufFile.open(path)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (struct.pack("<IQIQ", 1, 4, 0, 2**50), "is damaged or incomplete"),
        (struct.pack("<IQIQ", 1, 2**62, 0, 0), "is damaged or incomplete"),
        (struct.pack("<IQIQ", 1, 33, 8, 0), "is damaged or incomplete"),
        (struct.pack("<IQIQ", 9, 4, 0, 0), "is damaged or incomplete"),
        (struct.pack("<IQIQ", 1, 32, 19, 0), "the tensor x is of the type 19 of GGUF. Headway reads F32, F16, Q4_0"),
    ],
)
def test_hostile_tensors_are_refused(tensor: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    name = struct.pack("<Q", 1) + b"x"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + name + tensor + bytes(200))
    with pytest.raises(HeadwayError, match=message):
        GgufFile.open(path)
