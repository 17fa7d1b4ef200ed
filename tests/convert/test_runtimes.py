"""Marian's .npz and CTranslate2's directories: probabilities of CTranslate2 on the same files; damaged ones refused."""

import builtins
import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import sentencepiece
import torch
import yaml

import headway.convert.marian_npz as npz
from convert.ct2_models import change_model
from convert.mixed_text import make_training_lines
from headway.convert.architecture import ConversionError
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.errors import HeadwayError
from headway.storage.model_dir import load_model
from headway.translate.translator import load_translator

VOCABULARY, WIDTH, HIDDEN, LAYERS, HEADS = 300, 16, 32, 2, 2
OPTIONS = {
    "type": "transformer", "dim-emb": WIDTH, "enc-depth": LAYERS, "dec-depth": LAYERS, "transformer-heads": HEADS,
    "transformer-dim-ffn": HIDDEN, "transformer-ffn-activation": "swish", "transformer-ffn-depth": 2,
    "transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-emb": "d",
    "dim-vocabs": [VOCABULARY, VOCABULARY], "tied-embeddings-all": True,
    "transformer-no-projection": False, "transformer-decoder-autoreg": "self-attention",
    "transformer-guided-alignment-layer": "last",
}  # fmt: skip
LINES = make_training_lines(8, seed=5)


@pytest.fixture(scope="module")
def spm() -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(make_training_lines()), model_writer=model, vocab_size=VOCABULARY, bos_id=-1, eos_id=0,
        unk_id=1, character_coverage=0.98, minloglevel=9,
    )  # fmt: skip
    return model.getvalue()


PRE_NORM = {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"}


def make_arrays(tied: str = "all", pre_norm: bool = False) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray:
        return draw.normal(0, 0.3, shape).astype(np.float32)

    names = {"all": ["Wemb"], "target": ["encoder_Wemb", "decoder_Wemb"], "none": ["encoder_Wemb", "decoder_Wemb"]}
    arrays = {name: normal(VOCABULARY, WIDTH) for name in names[tied]}
    arrays["decoder_ff_logit_out_b"] = normal(1, VOCABULARY)
    if tied == "none":
        arrays["decoder_ff_logit_out_W"] = normal(WIDTH, VOCABULARY)
    for side, parts in (("encoder", ["self"]), ("decoder", ["self", "context"])):
        for layer in range(1, LAYERS + 1):
            name = f"{side}_l{layer}"
            for part in parts:
                for one in "qkvo":
                    arrays[f"{name}_{part}_W{one}"] = normal(WIDTH, WIDTH)
                    arrays[f"{name}_{part}_b{one}"] = normal(1, WIDTH)
                arrays[f"{name}_{part}_Wo_ln_scale"] = 1 + normal(1, WIDTH)
                arrays[f"{name}_{part}_Wo_ln_bias"] = normal(1, WIDTH)
            arrays |= {
                f"{name}_ffn_W1": normal(WIDTH, HIDDEN), f"{name}_ffn_b1": normal(1, HIDDEN),
                f"{name}_ffn_W2": normal(HIDDEN, WIDTH), f"{name}_ffn_b2": normal(1, WIDTH),
                f"{name}_ffn_ffn_ln_scale": 1 + normal(1, WIDTH), f"{name}_ffn_ffn_ln_bias": normal(1, WIDTH),
            }  # fmt: skip
    if pre_norm:
        arrays = {name + "_pre" * ("_ln_" in name): array for name, array in arrays.items()}
        for side in ("encoder", "decoder"):
            arrays |= {f"{side}_top_ln_scale": 1 + normal(1, WIDTH), f"{side}_top_ln_bias": normal(1, WIDTH)}
    return arrays


def write_opus(folder: Path, spm: bytes, arrays: dict[str, np.ndarray], **options: Any) -> Path:
    """As OPUS-MT packs its models."""
    folder.mkdir(exist_ok=True)
    text = yaml.safe_dump({**OPTIONS, **options}).encode() + b"\0"
    np.savez(folder / "opus.npz", **arrays, **{"special:model.yml": np.frombuffer(text, np.int8)})
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    pieces = [processor.IdToPiece(n) for n in range(VOCABULARY)]
    lines = [f"{json.dumps(piece, ensure_ascii=False)}: {n}\n" for n, piece in enumerate(pieces)]
    (folder / "opus.vocab.yml").write_text("".join(lines), encoding="utf-8")
    decoder = {"models": ["opus.npz"], "vocabs": ["opus.vocab.yml"] * 2, "beam-size": 6, "normalize": 1}
    (folder / "decoder.yml").write_text(yaml.safe_dump(decoder))
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(spm)
    (folder / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n")
    return folder


@torch.no_grad()
def check_probabilities(imported: Path, converted: Path, spm: bytes, atol: float = 2e-5) -> None:
    """Log-probabilities of given outputs, against CTranslate2 in float32."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm)
    pieces = [processor.EncodeAsPieces(line)[:40] for line in LINES]
    pairs = list(zip(pieces, pieces[1:] + pieces[:1]))
    runtime = ctranslate2.Translator(str(converted), compute_type="float32", intra_threads=1)
    expected = runtime.score_batch([one for one, _ in pairs], [other for _, other in pairs])
    loaded = load_model(imported)
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    for (one, other), scores in zip(pairs, expected):
        ids = [[side._spellings.index(piece) if piece in side._spellings else side.unknown for piece in text]
               for side, text in ((source, one), (target, other))]  # fmt: skip
        output = torch.tensor([[*ids[1], target.end]])
        hidden = loaded.model(torch.tensor([[*ids[0], source.end]]), torch.tensor([[target.start, *ids[1]]])).hidden
        logp = loaded.model.logits(hidden).log_softmax(-1).gather(-1, output[..., None])[0, :, 0]
        torch.testing.assert_close(logp, torch.tensor(scores.log_probs), rtol=0, atol=atol)


@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_marians_own_files(tied: str, spm: bytes, tmp_path: Path) -> None:
    folder = write_opus(tmp_path / "opus", spm, make_arrays(tied))
    report = plan_import(str(folder), ImportOptions(source_language="en", target_language="de")).write(tmp_path / "out")
    assert (report.family, report.source_languages, report.vocabulary) == ("Marian", ("en",), VOCABULARY + 1)
    ctranslate2.converters.OpusMTConverter(str(folder)).convert(str(tmp_path / "ct2"))
    check_probabilities(tmp_path / "out", tmp_path / "ct2", spm)
    translator = load_translator(tmp_path / "out", device="cpu")
    assert translator.config.search.beam_size == 6 and translator.config.search.penalty == "power"
    assert "cc-by-4.0" in (tmp_path / "out" / "README.md").read_text()
    assert len(translator.translate(LINES[:2])) == 2


def test_a_student_whose_vocabulary_is_a_sentencepiece_model(spm: bytes, tmp_path: Path) -> None:
    folder = write_opus(tmp_path / "student", spm, make_arrays())
    whole = plan_import(str(folder), ImportOptions())
    for name in ("decoder.yml", "opus.vocab.yml", "source.spm", "target.spm"):
        (folder / name).unlink()
    (folder / "vocab.deen.spm").write_bytes(spm)
    (folder / "config.yml").write_text("beam-size: 1\nword-penalty: 0.5\n")
    plan = plan_import(str(folder / "opus.npz"), ImportOptions())
    assert plan.tokenizers.shared and plan.architecture.search == {"penalty": "none", "beam_size": 1}
    assert plan.architecture.lost[-1] == "word-penalty = 0.5 of its decoder.yml"
    assert plan.tokenizers.target.encode_batch(LINES) == whole.tokenizers.target.encode_batch(LINES)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transformer-decoder-autoreg": "rnn"}, "dec-cell = None in its options is not supported, only ssru"),
        ({"transformer-postprocess": "da"}, "norms in these places are not supported"),
        ({"transformer-ffn-depth": 3}, "transformer-ffn-depth = 3"),
        ({"dim-vocabs": [VOCABULARY]}, "dim-vocabs = .*one source and one target"),
        ({"dim-vocabs": [VOCABULARY, 7]}, "the vocabulary has 300 entries, and the model 7"),
    ],
)
def test_other_models_of_marian_are_refused(options: dict[str, Any], message: str, spm: bytes, tmp_path: Path) -> None:
    folder = write_opus(tmp_path / "opus", spm, {"Wemb": np.zeros((2, 2), np.float32)}, **options)
    with pytest.raises(ConversionError, match=message):
        plan_import(str(folder), ImportOptions())


def test_damaged_files_of_marian_are_refused(spm: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_opus(tmp_path / "opus", spm, make_arrays())
    path = folder / "opus.npz"
    whole = path.read_bytes()
    for damaged in (b"", whole[:100], whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(HeadwayError, match="is damaged, or not an .npz file of arrays"):
            plan_import(str(folder), ImportOptions())
    huge = io.BytesIO()
    np.lib.format.write_array_header_1_0(huge, {"descr": "<f4", "fortran_order": False, "shape": (2**40,)})
    for content in (huge.getvalue(), b"no array"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("Wemb.npy", content)
        with pytest.raises(HeadwayError, match="is damaged, or not an .npz file of arrays"):
            npz.NpzSource(path)
    np.savez(path, Wemb=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(HeadwayError, match="is damaged, or not an .npz file of arrays"):
        npz.NpzSource(path)
    np.savez(path, Wemb=np.zeros(3, np.int8))
    with pytest.raises(HeadwayError, match="does not hold its options"):
        plan_import(str(folder), ImportOptions())
    with pytest.raises(ConversionError, match="is of the type int8. Headway imports Marian's models in float32"):
        npz.NpzSource(path).dtype("Wemb")
    with pytest.raises(HeadwayError, match="Wout cannot be read"):
        npz.NpzSource(path).read("Wout")
    path.write_bytes(whole)
    with pytest.raises(ConversionError, match="its vocabulary has no </s>"):
        npz.make_tokenizer(folder / "source.spm", ["a"], 3)
    (folder / "opus.vocab.yml").write_text("a: 1\nb: 1\n")
    with pytest.raises(ConversionError, match="is not a vocabulary"):
        plan_import(str(folder), ImportOptions())
    (folder / "decoder.yml").write_text("vocabs: [../../etc/passwd]\n")
    with pytest.raises(ConversionError, match="must have one or two vocabularies"):
        plan_import(str(folder), ImportOptions())
    for text, message in (("vocabs: [", "is not YAML"), ("- vocabs:\nvocabs:", "is not YAML"), ("[1]", "one table")):
        with pytest.raises(HeadwayError, match=message):
            npz.parse_yaml(text.encode(), path)
    import_module = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return import_module(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(HeadwayError, match="need the package PyYAML"):
        npz.parse_yaml(b"", path)


@pytest.fixture(scope="module")
def marian_ct2(spm: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of CTranslate2 in float32, from Marian's files."""
    folder = write_opus(tmp_path_factory.mktemp("ct2") / "opus", spm, make_arrays())
    out = folder.parent / "ct2"
    ctranslate2.converters.OpusMTConverter(str(folder)).convert(str(out))
    for name in ("source.spm", "target.spm"):
        shutil.copy(folder / name, out)
    return out


@pytest.mark.parametrize(
    ("tied", "quantisation"), [("all", None), ("target", None), ("none", "int8"), ("all", "int8"), ("all", "int16"),
                               ("all", "float16"), ("all", "bfloat16")],
)  # fmt: skip
def test_directories_of_ctranslate2(tied: str, quantisation: str | None, spm: bytes, tmp_path: Path) -> None:
    arrays = make_arrays(tied)
    folder = write_opus(tmp_path / "opus", spm, arrays)
    converted = tmp_path / "ct2"
    ctranslate2.converters.OpusMTConverter(str(folder)).convert(str(converted), quantization=quantisation)
    for name in ("source.spm", "target.spm"):
        shutil.copy(folder / name, converted)
    report = plan_import(str(converted), ImportOptions()).write(tmp_path / "out")
    assert report.family == "CTranslate2"
    assert any("integers are float32 here" in what for what in report.lost) == (quantisation in ("int8", "int16"))
    if quantisation in ("float16", "bfloat16"):  # where CTranslate2 rounds the sinusoids, too: compare without
        half = getattr(torch, quantisation)
        rounded = {name: torch.from_numpy(array).to(half).float().numpy() for name, array in arrays.items()}
        converted = tmp_path / "rounded"
        write_opus(tmp_path / "opus", spm, rounded)
        ctranslate2.converters.OpusMTConverter(str(folder)).convert(str(converted))
        assert report.dtype == quantisation
    check_probabilities(tmp_path / "out", converted, spm)


def test_pre_norm_translators(spm: bytes, tmp_path: Path) -> None:
    folder = write_opus(tmp_path / "opus", spm, make_arrays(pre_norm=True), **PRE_NORM)
    converted = tmp_path / "ct2"
    ctranslate2.converters.OpusMTConverter(str(folder)).convert(str(converted))
    for name in ("source.spm", "target.spm"):
        shutil.copy(folder / name, converted)
    for source in (folder, converted):
        plan_import(str(source), ImportOptions()).write(tmp_path / f"from-{source.name}")
        check_probabilities(tmp_path / f"from-{source.name}", converted, spm)


def test_a_value_of_another_kind_is_named(spm: bytes, tmp_path: Path) -> None:
    folder = write_opus(tmp_path / "opus", spm, make_arrays(), **{"transformer-dropout": "x"})
    with pytest.raises(HeadwayError, match="cannot be read: ValueError: .*One of its files is damaged"):
        plan_import(str(folder), ImportOptions())


def test_sinusoids_that_ctranslate2_makes_itself(marian_ct2: Path, spm: bytes, tmp_path: Path) -> None:
    """As models of OpenNMT have them: no table in the file."""
    folder = shutil.copytree(marian_ct2, tmp_path / "ct2")
    change_model(folder, {}, tuple(f"{side}/position_encodings/encodings" for side in ("encoder", "decoder")))
    plan = plan_import(str(folder), ImportOptions())
    assert (
        plan.architecture.model["encoder"]["position"]
        != plan_import(str(marian_ct2), ImportOptions()).architecture.model["encoder"]["position"]
    )
    plan.write(tmp_path / "out")
    check_probabilities(tmp_path / "out", folder, spm)
