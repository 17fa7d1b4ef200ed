"""An imported translator is a model like ours: a Marian and a T5 of Hugging Face are imported, fine-tuned until they
know a part of the toy corpus, and then do everything that a translator of Headway does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from serve.conftest import running
from transformers import MarianConfig, MarianMTModel, T5Config, T5ForConditionalGeneration

from convert.translators import MARIAN_PIECES, sentencepiece_model
from headway.cli.app import main
from headway.decode.ctranslate2.backend import Ct2Engine
from headway.decode.native.engine import NativeEngine
from headway.nn.ops import native
from headway.storage.model_dir import load_model
from headway.translate.options import TranslateOptions
from headway.translate.translator import Translator, load_translator

KNOWN = 24  # pairs
Capture = pytest.CaptureFixture[str]
Run = Callable[..., str]
TUNING = {
    "model.dropout": "0", "train.batch_tokens": "512", "train.schedule": "inverse_sqrt(0.005, warmup=30)",
    "train.steps": "240", "train.validate_every": "240", "train.label_smoothing": "0", "train.decode_lines": "0",
}  # fmt: skip


def read_lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text().splitlines())


def save_toy_marian(folder: Path, toy: Path) -> None:
    """As transformers makes it, with random weights: words tied with the output, two sentencepiece models."""
    pieces: list[str] = []
    for name, file in (("source", "train.en"), ("target", "train.qtx")):
        content = sentencepiece_model(150, read_lines(toy / file), **MARIAN_PIECES)
        (folder / f"{name}.spm").write_bytes(content)
        processor = sentencepiece.SentencePieceProcessor(model_proto=content)
        pieces += [processor.IdToPiece(n) for n in range(2, processor.GetPieceSize())]
    entries = ["</s>", "<unk>", *dict.fromkeys(pieces), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({entry: n for n, entry in enumerate(entries)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "qtx"}))
    pad = len(entries) - 1
    config = MarianConfig(
        vocab_size=len(entries), d_model=48, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96, activation_function="relu",
        scale_embedding=True, pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=0,
        forced_eos_token_id=None, init_std=0.15,
    )  # fmt: skip
    model = MarianMTModel(config)
    model.generation_config.update(bad_words_ids=[[pad]], max_length=60, num_beams=4, early_stopping=True)
    model.save_pretrained(folder)


def save_toy_t5(folder: Path, toy: Path) -> None:
    lines = (*read_lines(toy / "train.en"), *read_lines(toy / "train.qtx"))
    (folder / "spiece.model").write_bytes(sentencepiece_model(300, lines))
    config = T5Config(
        vocab_size=320, d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu",
        relative_attention_num_buckets=16, relative_attention_max_distance=40, decoder_start_token_id=0,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config)
    model.generation_config.update(max_length=60, num_beams=4, early_stopping=True)
    model.save_pretrained(folder)


@pytest.fixture(scope="module", params=["Marian", "T5"])
def tuned(request: pytest.FixtureRequest, toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Imported, and trained on the toy corpus."""
    folder = tmp_path_factory.mktemp("imported")
    (folder / "theirs").mkdir()
    torch.manual_seed(1)
    (save_toy_marian if request.param == "Marian" else save_toy_t5)(folder / "theirs", toy)
    languages = [] if request.param == "Marian" else ["--from", "en", "--to", "qtx"]
    assert main(["import", str(folder / "theirs"), "--out", str(folder / "imported"), *languages]) == 0
    named = []
    for name in ("source", "target"):
        lines = read_lines(toy / ("train.en" if name == "source" else "train.qtx"))[:KNOWN]
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
        named += [f"--{name}", str(folder / name), f"--valid-{name}", str(folder / name)]
    values = [word for name, value in TUNING.items() for word in ("--set", f"{name}={value}")]
    tuned = folder / request.param
    assert main(["train", "--from-model", str(folder / "imported"), *named, *values, "--out", str(tuned)]) == 0
    return tuned


@pytest.fixture
def run(tuned: Path, capsys: Capture) -> Run:
    """Run a verb with the model; returns what it prints."""

    def run_verb(verb: str, *arguments: str) -> str:
        capsys.readouterr()
        assert main([verb, "--model", str(tuned), *arguments]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run_verb


@pytest.fixture(scope="module")
def pairs(toy: Path) -> list[tuple[str, str]]:
    """Those that it was trained on."""
    return list(zip(read_lines(toy / "train.en"), read_lines(toy / "train.qtx")))[:KNOWN]


def test_it_was_fine_tuned_as_what_it_is(tuned: Path, pairs: list[tuple[str, str]]) -> None:
    before, after = load_model(tuned.parent / "imported"), load_model(tuned)
    assert before.tokenizers.fingerprints == after.tokenizers.fingerprints
    assert before.config.model.to_dict() | {"dropout": 0} == after.config.model.to_dict() | {"dropout": 0}
    translator = load_translator(tuned, device="cpu")
    found = translator([source for source, _ in pairs])
    right = sum(one == target for one, (_, target) in zip(found, pairs))
    assert right > 0.9 * len(pairs), f"{right} of {len(pairs)}"


def test_lines_files_and_lists(run: Run, pairs: list[tuple[str, str]], tmp_path: Path) -> None:
    (source, target), (second, other) = pairs[:2]
    assert run("translate", source, "", second) == f"{target}\n\n{other}\n"
    (tmp_path / "in.txt").write_text(f"{source}\n\n{second}\n")
    assert run("translate", "--input", str(tmp_path / "in.txt")) == f"{target}\n\n{other}\n"
    listed = run("translate", "--n-best", "3", source).splitlines()
    assert len(listed) == 3 and listed[0].startswith(f"0 ||| {target} |||")
    details = json.loads(run("translate", "--json", source))
    assert details["text"] == target and "".join(details["tokens"]).strip() == target
    assert details["logp"] == pytest.approx(sum(details["token_logps"]), abs=1e-4)
    assert run("translate", "--sample", "--seed", "1", source).strip()
    assert run("translate", "--prefix", target.split()[0], source).strip() == target


def test_scores_alignments_and_measures(run: Run, pairs: list[tuple[str, str]], tmp_path: Path) -> None:
    for name, side in (("en", 0), ("qtx", 1)):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs[:5]))
    sides = ["--source", str(tmp_path / "en"), "--target", str(tmp_path / "qtx")]
    scores = [float(line) for line in run("score", *sides).splitlines()]
    assert len(scores) == 5 and all(-5 < score < 0 for score in scores), "it knows these"
    links = run("align", *sides).splitlines()
    assert len(links) == 5 and all(line.split() for line in links)
    assert "|||" in run("translate", "--align", pairs[0][0])
    assert "BLEU" in run("evaluate", *sides)


def test_documents_glossaries_and_protected_text(run: Run, tuned: Path, pairs: list[tuple[str, str]]) -> None:
    folder = tuned.parent
    source, target = pairs[0]
    first, rest = source.split(" ", 1)
    (folder / "in.html").write_text(f"<p>{first} <b>{rest}</b></p><p>{{name}}</p>")
    run("translate", "--document", str(folder / "in.html"), "--out", str(folder / "out.html"))
    found = (folder / "out.html").read_text()
    assert "<b>" in found and "{name}" in found
    assert "".join(found.replace("<b>", "").replace("</b>", "").split()).startswith(f"<p>{''.join(target.split())}</p>")
    (folder / "terms.tsv").write_text(f"{first}\t{target.split()[-1]}\n")
    glossed = run("translate", "--glossary", str(folder / "terms.tsv"), source)
    assert target.split()[-1].rstrip(".") in glossed
    kept = run("translate", f"{source.rstrip('.')} https://example.com/a?b=1 {{name}}.")
    assert "https://example.com/a?b=1" in kept and "{name}" in kept


def test_looking_inside(run: Run, tuned: Path, pairs: list[tuple[str, str]]) -> None:
    source = pairs[0][0]
    run("trace", source, "--out", str(tuned.parent / f"{tuned.name}-trace"))
    assert "</s>" in run("attend", source)


@pytest.mark.slow
def test_the_page_of_inspect(run: Run, tuned: Path, pairs: list[tuple[str, str]]) -> None:
    page = tuned.parent / f"{tuned.name}-page"
    run("inspect", pairs[0][0], "--out", str(page))
    assert pairs[0][1] in (page / "page.html").read_text()


def test_ensembles_and_other_precisions(tuned: Path, pairs: list[tuple[str, str]], capsys: Capture) -> None:
    lines, targets = [source for source, _ in pairs[:20]], [target for _, target in pairs[:20]]
    twice = load_translator(tuned, tuned, device="cpu")
    assert twice(lines) == load_translator(tuned, device="cpu")(lines)
    packed = tuned.parent / f"{tuned.name}-int8"
    assert main(["pack", "--model", str(tuned), "--out", str(packed), "--int8"]) == 0
    small = load_translator(packed, device="cpu")
    right = sum(one == target for one, target in zip(small(lines), targets))
    assert right >= 17, f"{right} of 20 in int8"
    if tuned.name == "Marian" and native.load_library() is not None:
        assert isinstance(small.engines.torch_free, NativeEngine)
    capsys.readouterr()


def test_ctranslate2_where_it_can(tuned: Path, pairs: list[tuple[str, str]], capsys: Capture) -> None:
    lines = [source for source, _ in pairs[:20]]
    if tuned.name == "T5":
        assert main(["translate", "--model", str(tuned), "--engine", "ctranslate2", "a"]) == 1
        assert "engine ctranslate2 cannot be used" in capsys.readouterr().err
        return
    engines = [load_translator(tuned, device="cpu", engine=engine) for engine in ("ctranslate2", "torch")]
    assert isinstance(engines[0].engines.torch_free, Ct2Engine)
    found = [[hypotheses(engine, line, beam_size=beam) for beam in (1, 4) for line in lines] for engine in engines]
    for one, other in zip(*found):
        assert [ids for ids, _ in one] == [ids for ids, _ in other]
        assert [score for _, score in one] == pytest.approx([score for _, score in other], abs=1e-4)


def hypotheses(translator: Translator, line: str, **settings: Any) -> list[tuple[list[int], float]]:
    search = translator.search(**settings)
    rows = [translator.direction_tokens().wrap_source(translator.tokenizers.source.encode(line))]
    found = translator.engines.choose(search).search(rows, search)[0]
    return [(hypothesis.ids, hypothesis.score) for hypothesis in found]


def test_the_server(tuned: Path, pairs: list[tuple[str, str]]) -> None:
    source, target = pairs[0]
    with running(tuned) as server:
        answer = server.post("/translate", {"q": source, "source": "en", "target": "qtx", "format": "text"}).json()
        assert answer["translatedText"] == target
        html = server.post("/translate", {"q": f"<b>{source}</b>", "source": "en", "target": "qtx", "format": "html"})
        assert html.json()["translatedText"] == f"<b>{target}</b>"
        answer = server.post("/api/translate", {"q": source, "source": "en", "target": "qtx"})
        assert target in answer.text, answer.text
        assert server.get("/").status_code == 200


def test_unknown_tokens_are_removed_as_the_original_does(tuned: Path, pairs: list[tuple[str, str]]) -> None:
    translator = load_translator(tuned, device="cpu", engine="torch")
    unknown = translator.tokenizers.target.unknown
    options = TranslateOptions(search=translator.search(beam_size=1))
    head = translator.engines.torch.steppers[0].model
    with torch.no_grad():
        words = head.embeddings["decoder"].table.weight
        end = words[translator.tokenizers.target.end].clone()
        words[unknown] = 1.5 * words[translator.tokenizers.target.encode(pairs[0][1])[0]]
        words[translator.tokenizers.target.end] = end
    found = translator.translate([pairs[0][0]], options)[0]
    assert "\ufffd" not in found.text
    assert any("unknown" in warning for warning in found.warnings)
