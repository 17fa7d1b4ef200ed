"""Students of bergamot and Firefox, with an SSRU in the decoder: logits and outputs of Marian's forward pass in NumPy;
files of browsers and other hostile ones refused; what an imported student can do."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from serve.conftest import running

from convert.marian_forward import MarianStudent
from convert.mixed_text import make_training_lines
from convert.test_runtimes import spm  # noqa: F401
from headway.cli.app import main
from headway.config.search import Search
from headway.convert.architecture import ConversionError
from headway.convert.export.formats import FORMATS, export_model
from headway.convert.export.stored_model import open_model
from headway.convert.marian_npz import find_vocabularies
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.errors import HeadwayError
from headway.storage.model_dir import load_model
from headway.storage.tensor_file import TensorFile
from headway.translate.options import TranslateOptions
from headway.translate.translator import load_translator

VOCABULARY, WIDTH, HIDDEN, HEADS, ENCODER, DECODER = 300, 16, 24, 4, 3, 2
Arrays = dict[str, np.ndarray]
LINES = [line for line in make_training_lines(30, seed=5) if line.strip()][:6]
# As Marian writes it into a student of the configuration "tiny", with what other architectures would need.
OPTIONS = {
    "type": "transformer", "version": "v1.9.56", "dim-emb": WIDTH, "dim-rnn": 1024, "enc-type": "bidirectional",
    "enc-depth": ENCODER, "enc-cell": "gru", "enc-cell-depth": 1, "dec-depth": DECODER, "dec-cell": "ssru",
    "dec-cell-base-depth": 2, "dec-cell-high-depth": 1, "skip": False, "layer-normalization": False,
    "input-types": [], "right-left": False, "tied-embeddings": False, "tied-embeddings-src": False,
    "tied-embeddings-all": True, "transformer-heads": HEADS, "transformer-no-projection": False,
    "transformer-rnn-projection": False, "transformer-pool": False, "transformer-dim-ffn": HIDDEN,
    "transformer-decoder-dim-ffn": 0, "transformer-ffn-depth": 2, "transformer-decoder-ffn-depth": 0,
    "transformer-ffn-activation": "relu", "transformer-dim-aan": 2048, "transformer-aan-depth": 2,
    "transformer-aan-activation": "swish", "transformer-aan-nogate": False, "transformer-decoder-autoreg": "rnn",
    "transformer-tied-layers": [], "transformer-guided-alignment-layer": "last", "transformer-preprocess": "",
    "transformer-postprocess-emb": "d", "transformer-postprocess": "dan", "transformer-postprocess-top": "",
    "transformer-train-position-embeddings": False, "transformer-depth-scaling": False, "lemma-dim-emb": 0,
    "output-omit-bias": False, "dim-vocabs": [VOCABULARY, VOCABULARY], "ulr": False,
}  # fmt: skip
PRE_NORM = {"transformer-preprocess": "n", "transformer-postprocess": "da", "transformer-postprocess-top": "n"}


def make_arrays(split: bool = False, pre_norm: bool = False, decoder_hidden: int = HIDDEN) -> Arrays:
    draw = np.random.default_rng(3)

    def normal(*shape: int) -> np.ndarray:
        return draw.normal(0, 0.3, shape).astype(np.float32)

    arrays = {name: normal(VOCABULARY, WIDTH) for name in (["encoder_Wemb", "decoder_Wemb"] if split else ["Wemb"])}
    arrays["decoder_ff_logit_out_b"] = normal(1, VOCABULARY)
    before, end = ("", "_pre") if pre_norm else ("ffn_", "")
    for side, depth, parts in (("encoder", ENCODER, ["self"]), ("decoder", DECODER, ["context"])):
        hidden = HIDDEN if side == "encoder" else decoder_hidden
        for layer in range(1, depth + 1):
            name = f"{side}_l{layer}"
            norms = [*(f"{name}_{part}_Wo" for part in parts), f"{name}_ffn_ffn"]
            for part in parts:
                for one in "qkvo":
                    arrays |= {f"{name}_{part}_W{one}": normal(WIDTH, WIDTH), f"{name}_{part}_b{one}": normal(1, WIDTH)}
            if side == "decoder":
                arrays |= {f"{name}_rnn_W": normal(WIDTH, WIDTH), f"{name}_rnn_Wf": normal(WIDTH, WIDTH)}
                arrays[f"{name}_rnn_bf"] = normal(1, WIDTH)
                norms.append(f"{name}_rnn_{before}".removesuffix("_"))
            arrays |= {
                f"{name}_ffn_W1": normal(WIDTH, hidden), f"{name}_ffn_b1": normal(1, hidden),
                f"{name}_ffn_W2": normal(hidden, WIDTH), f"{name}_ffn_b2": normal(1, WIDTH),
            }  # fmt: skip
            for norm in norms:
                arrays |= {f"{norm}_ln_scale{end}": 1 + normal(1, WIDTH), f"{norm}_ln_bias{end}": normal(1, WIDTH)}
        if pre_norm:
            arrays |= {f"{side}_top_ln_scale": 1 + normal(1, WIDTH), f"{side}_top_ln_bias": normal(1, WIDTH)}
    return arrays


def write_student(folder: Path, vocabulary: bytes, arrays: Arrays, **options: Any) -> Path:
    """model.npz as Marian writes it, and the vocabulary beside it."""
    folder.mkdir(exist_ok=True)
    text = yaml.safe_dump({**OPTIONS, **options}).encode() + b"\0"
    np.savez(folder / "model.npz", **arrays, **{"special:model.yml": np.frombuffer(text, np.int8)})
    (folder / "vocab.deen.spm").write_bytes(vocabulary)
    return folder


def import_student(folder: Path, out: Path) -> Path:
    plan_import(str(folder), ImportOptions(source_language="de", target_language="en")).write(out)
    return out


@pytest.fixture(scope="module")
def imported(spm: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    folder = tmp_path_factory.mktemp("student")
    return import_student(write_student(folder / "theirs", spm, make_arrays()), folder / "ours")


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[int]]] = {
    "tiny": ({}, {}, [1, 2]),
    "split": ({"split": True}, {"tied-embeddings-all": False, "tied-embeddings": True}, [1, 2]),
    "hidden": ({"decoder_hidden": 40}, {"transformer-decoder-dim-ffn": 40}, [1, 2]),
    "tied": ({}, {"transformer-tied-layers": [1, 1, 2, 1], "dec-depth": 4}, [1, 1, 2, 1]),
    "sizes": ({}, {"dim-vocabs": []}, [1, 2]),
    "pre_norm": ({"pre_norm": True}, PRE_NORM, [1, 2]),
}


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_a_student_computes_what_marian_does(case: str, spm: bytes, tmp_path: Path) -> None:  # noqa: F811
    more, options, layers = CASES[case]
    arrays = make_arrays(**more)
    folder = write_student(tmp_path / "student", spm, arrays, **options)
    report = plan_import(str(folder), ImportOptions(source_language="de", target_language="en")).write(tmp_path / "out")
    assert report.family == "Marian student" and not report.lost
    loaded = load_model(tmp_path / "out")
    assert [part.kind for part in loaded.config.model.decoder.mixer] == ["ssru"]
    theirs = MarianStudent(arrays, HEADS, layers, ENCODER, pre_norm="pre_norm" in more)
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    for text, other in zip(LINES, LINES[1:] + LINES[:1]):
        read, written = [*source.encode(text)[:40], source.end], target.encode(other)[:60]
        hidden = loaded.model(torch.tensor([read]), torch.tensor([[target.start, *written]])).hidden
        found = loaded.model.logits(hidden)[0]
        expected = torch.from_numpy(theirs.logits(read, written))
        torch.testing.assert_close(found[:, :VOCABULARY].double(), expected, rtol=1e-5, atol=1e-5)
        assert (found[:, VOCABULARY:] < -9000).all()  # the start is never an output


@torch.no_grad()
def test_greedy_outputs_are_those_of_marian(imported: Path) -> None:
    """Also where rows of other lengths stand beside a row, and where a step reads one word."""
    engine = load_translator(imported, device="cpu").engines.choose(Search(beam_size=1, max_length=30))
    theirs = MarianStudent(make_arrays(), HEADS, [1, 2], ENCODER)
    rows = [[*row, 0] for row in np.random.default_rng(5).integers(2, VOCABULARY, (8, 12)).tolist()]
    rows = [row[-2 - n :] for n, row in enumerate(rows)]
    found = [row[0].ids for row in engine.search(rows, Search(beam_size=1, max_length=30))]
    assert found == [theirs.translate(row, end=0, unknown=1, longest=30) for row in rows]
    assert engine.name == "torch" and len({tuple(ids) for ids in found}) > 2 and min(map(len, found)) > 1


def test_an_imported_student_is_a_translator(imported: Path, tmp_path: Path) -> None:
    translator = load_translator(imported, device="cpu")
    options = TranslateOptions(align=True)
    assert (translator.config.source_languages, translator.config.target_languages) == (("de",), ("en",))
    found = translator.translate(LINES, options)
    assert len(found) == len(LINES) and any(one.text for one in found)
    trace = translator.trace(LINES[0], max_length=10)
    assert "decoder.0.cross.weights" in trace.tensors and "decoder.0.self.weights" not in trace.tensors
    assert {"decoder.1.self.gate", "decoder.1.self.candidate", "decoder.1.self.states"} <= trace.tensors.keys()
    main(["pack", "--model", str(imported), "--out", str(tmp_path / "small"), "--int8"])
    kept, small = (file.stat().st_size for file in ((d / "model.safetensors") for d in (imported, tmp_path / "small")))
    assert small < 0.6 * kept
    weights = TensorFile(tmp_path / "small" / "model.safetensors")
    assert all(
        weights.entries[f"stacks.decoder.blocks.0.sublayers.self.{name}.weight"].dtype == "I8"
        for name in ("gate", "candidate")
    )
    packed = load_translator(tmp_path / "small", device="cpu")
    assert len(packed.translate(LINES, options)) == len(LINES)


def test_the_page_shows_a_student(imported: Path) -> None:
    with running(imported) as server:
        name = server.get("/api/models").json()[0]["name"]
        asked = {"model": name, "read": [5, 6, 7, 0], "written": [8, 9]}
        made = server.get(f"/api/models/{name}").json()
        assert made["parameters"] == sum(block["parameters"] for block in made["blocks"])
        recurrent = server.post("/api/inside", {**asked, "place": "decoder.0.self"}).json()
        assert "weights" not in recurrent and recurrent["output"]["shape"][-2:] == [3, WIDTH]
        assert "weights" in server.post("/api/inside", {**asked, "place": "decoder.1.cross"}).json()
        assert len(server.post("/api/places", asked).json()["places"]) == 3
        assert server.post("/api/vectors", asked).json().keys() == {"encoder", "decoder"}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_without_recurrent_layers_refuse_it_by_name(name: str, imported: Path, tmp_path: Path) -> None:
    says = "translation|language models" if name == "gguf" else "ssru"
    with pytest.raises(ConversionError, match=f"cannot be exported to {name}: .*({says})"):
        export_model(open_model(imported), name, tmp_path / "out")


def change(**options: Any) -> Callable[[Arrays, dict[str, Any]], None]:
    return lambda _, settings: settings.update({name.replace("_", "-"): value for name, value in options.items()})


def replace_array(name: str, array: np.ndarray | None) -> Callable[[Arrays, dict[str, Any]], None]:
    def apply(arrays: Arrays, _: dict[str, Any]) -> None:
        arrays.pop(name, None)
        if array is not None:
            arrays[name] = array

    return apply


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


HOSTILE: dict[str, tuple[Callable[[Arrays, dict[str, Any]], None], str]] = {
    "no W": (replace_array("decoder_l2_rnn_W", None), "decoder_l2_rnn_W is missing: .* promises an SSRU in layer 2"),
    "no Wf": (replace_array("decoder_l1_rnn_Wf", None), "decoder_l1_rnn_Wf is missing"),
    "no bf": (replace_array("decoder_l1_rnn_bf", None), "decoder_l1_rnn_bf is missing"),
    "no norm": (replace_array("decoder_l1_rnn_ffn_ln_bias", None), "self_attn_layer_norm.bias is missing"),
    "narrow": (replace_array("decoder_l1_rnn_W", zeros(WIDTH, 8)), r"rnn_W has the shape \(16, 8\), .* needs \(16,"),
    "scalar": (replace_array("decoder_l1_rnn_W", zeros()), r"rnn_W has the shape \(\), .* dim-emb = 16 needs"),
    "empty": (replace_array("decoder_l1_rnn_Wf", zeros(0, WIDTH)), r"rnn_Wf has the shape \(0, 16\)"),
    "bias": (replace_array("decoder_l2_rnn_bf", zeros(1, 5)), r"rnn_bf has the shape \(1, 5\), .* needs \(1, 16\)"),
    "norm": (replace_array("decoder_l1_rnn_ffn_ln_bias", zeros(1, 5)), "decoder_l1_rnn_ffn_ln_bias|does not fit"),
    "projection": (replace_array("decoder_l1_rnn_Wo", zeros(WIDTH, WIDTH)), "decoder_l1_rnn_Wo .*has no place for"),
    "gamma": (replace_array("decoder_l1_rnn_gamma", zeros(1, WIDTH)), "decoder_l1_rnn_gamma .*has no place for"),
    "third": (replace_array("decoder_l3_rnn_W", zeros(WIDTH, WIDTH)), "decoder_l3_rnn_W .*has no place for"),
    "attention": (replace_array("decoder_l1_self_Wq", zeros(WIDTH, WIDTH)), "decoder_l1_self_Wq, and .* no self-att"),
    "int8": (replace_array("decoder_l1_rnn_W", np.zeros((WIDTH, WIDTH), np.int8)), "type int8.* Import the float32"),
    "GRU": (change(dec_cell="gru"), "dec-cell = 'gru' in its options is not supported, only ssru"),
    "norms in the cell": (change(layer_normalization=True), "layer-normalization = True in its options"),
    "projection option": (change(transformer_rnn_projection=True), "transformer-rnn-projection = True"),
    "average": (change(transformer_decoder_autoreg="average-attention"), "= 'average-attention' .* self-attention,"),
    "list": (change(transformer_decoder_autoreg=["rnn"]), "transformer-decoder-autoreg = .*'rnn'.* is not supported"),
    "depth": (change(transformer_decoder_ffn_depth=3), "transformer-decoder-ffn-depth = 3"),
    "layers": (change(dec_depth=9_000), "dec-depth = 9000, and its file has only"),
    "tied text": (change(transformer_tied_layers="1"), "transformer-tied-layers = '1' must name one layer, from 1"),
    "tied few": (change(transformer_tied_layers=[1]), r"transformer-tied-layers = \[1\] must name"),
    "tied zero": (change(transformer_tied_layers=[0, 1]), r"transformer-tied-layers = \[0, 1\] must name"),
    "tied true": (change(transformer_tied_layers=[True, 1]), r"transformer-tied-layers = \[True, 1\] must name"),
    "tied unused": (change(transformer_tied_layers=[1, 1]), "decoder_l2_.* has no place for"),
    "vocabularies": (change(dim_vocabs=[5, 5, 5]), r"dim-vocabs = \[5, 5, 5\]: .* one source and one target"),
    "no sizes": (replace_array("Wemb", None), "missing in the weights|dim-vocabs"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_not_such_a_student_is_refused(case: str, spm: bytes, tmp_path: Path) -> None:  # noqa: F811
    arrays, options = make_arrays(), dict(OPTIONS)
    apply, message = HOSTILE[case]
    apply(arrays, options)
    folder = write_student(tmp_path / "student", spm, arrays, **options)
    with pytest.raises(HeadwayError, match=message):
        plan_import(str(folder), ImportOptions()).write(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.deen.intgemm.alphas.bin", b""),
        ("model.deen.intgemm8.bin.gz", b"\x1f\x8b"),
        ("model.bin", struct.pack("<QQ", 1, 195)),
        ("lex.50.50.deen.s2t.bin", struct.pack("<QQ", 0xF11A48D5013417F5, 7)),
    ],
)
def test_files_of_browsers_are_refused(name: str, content: bytes, spm: bytes, tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / name
    file.write_bytes(content)
    (tmp_path / "vocab.deen.spm").write_bytes(spm)
    for path in (file, tmp_path):
        with pytest.raises(ConversionError, match=r"of a student for browsers: .* in float32, .* model\.npz"):
            plan_import(str(path), ImportOptions())


def test_a_file_of_something_else_is_not_taken_for_a_students(tmp_path: Path) -> None:
    for content in (b"", b"\1", b"PK\3\4 a zip file", struct.pack("<IH", 6, 16)):
        (tmp_path / "some.bin").write_bytes(content)
        with pytest.raises(HeadwayError, match="is not a model that can be imported"):
            plan_import(str(tmp_path / "some.bin"), ImportOptions())


def test_scales_for_int8_are_left_out(spm: bytes, tmp_path: Path) -> None:  # noqa: F811
    """As in model.alphas.npz: they change nothing in float32."""
    scales = {"decoder_l1_rnn_W_QuantMultA": zeros(1, 1), "none_QuantMultA": zeros(1)}
    folder = write_student(tmp_path / "student", spm, make_arrays() | scales)
    report = plan_import(str(folder), ImportOptions()).write(tmp_path / "out")
    assert report.vocabulary == VOCABULARY + 1


def test_which_vocabulary_is_the_sources(spm: bytes, tmp_path: Path) -> None:  # noqa: F811
    folder = write_student(tmp_path / "student", spm, make_arrays(split=True))
    (folder / "vocab.deen.spm").rename(folder / "vocab.de.spm")
    (folder / "vocab.en.spm").write_bytes(spm)
    with pytest.raises(ConversionError, match="nothing says which is that of the source. Write a file decoder.yml"):
        plan_import(str(folder), ImportOptions())
    (folder / "decoder.yml").write_text("vocabs: [/home/trainer/vocab.en.spm, /home/trainer/vocab.de.spm]\n")
    assert [path.name for path in find_vocabularies(folder, {"vocabs": ["a/vocab.en.spm", "vocab.de.spm"]})] == [
        "vocab.en.spm",
        "vocab.de.spm",
    ]
    assert plan_import(str(folder), ImportOptions()).tokenizers.shared
    (folder / "decoder.yml").write_text("vocabs: [vocab.spm]\n")
    with pytest.raises(ConversionError, match="vocab.spm is not there"):
        plan_import(str(folder), ImportOptions())
    (folder / "decoder.yml").unlink()
    (folder / "vocab.de.spm").rename(folder / "vocab.src.spm")
    (folder / "vocab.en.spm").rename(folder / "vocab.trg.spm")
    assert [path.name for path in find_vocabularies(folder, {})] == ["vocab.src.spm", "vocab.trg.spm"]
    (folder / "vocab.third.spm").write_bytes(b"")
    with pytest.raises(ConversionError, match="must have one or two vocabularies .*, and has .*vocab.third.spm"):
        find_vocabularies(folder, {})


def test_one_of_several_models_must_be_named(spm: bytes, tmp_path: Path) -> None:  # noqa: F811
    folder = write_student(tmp_path / "student", spm, make_arrays())
    (folder / "model.best.npz").write_bytes((folder / "model.npz").read_bytes())
    with pytest.raises(HeadwayError, match=r"has 2 models \(model.best.npz, model.npz …\). Name the one to import"):
        plan_import(str(folder), ImportOptions())
    assert plan_import(str(folder / "model.npz"), ImportOptions()).architecture.family == "Marian student"
