"""Translators in directories of CTranslate2: logits of transformers, ids that CTranslate2 itself writes, languages and
tokenizers, from the files beside them or from a directory that --tokenizer names."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from convert.ct2_models import convert, open_translator
from convert.multilingual import CODES, make_original
from convert.translators import lively_marian, lively_pegasus, make_lines, save_marian, save_t5, t5
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.storage.model_dir import load_model
from headway.translate.options import TranslateOptions
from headway.translate.translator import load_translator


def save_original(family: str, folder: Path) -> None:
    """With the settings that CTranslate2's converter looks for in old configs."""
    original = make_original(
        family, folder / "made", spare=0, encoder_attention_heads=2
    )  # it takes those of the encoder for both
    if family == "BART":  # nothing forces its first token here: without this it ends at once
        original.model.final_logits_bias[:, 2] -= 6.0
        original.model.save_pretrained(original.folder)
    shutil.copytree(original.folder, folder / "theirs")
    path = folder / "theirs" / "config.json"
    old = {"normalize_before": family.startswith("mBART"), "normalize_embedding": True}
    old["tokenizer_class"] = "MBart50Tokenizer" if family == "mBART-50" else "MBartTokenizer"
    path.write_text(json.dumps({**json.loads(path.read_text()), **(old if "BART" in family else {})}))


FAMILIES: dict[str, Any] = {
    **{f: lambda folder, f=f: save_original(f, folder) for f in ("NLLB", "M2M100", "mBART-50", "mBART", "BART")},
    "T5, tied": lambda folder: save_t5(folder / "theirs", t5()),
    "T5 1.1": lambda folder: save_t5(folder / "theirs"),
    "MADLAD": lambda folder: save_t5(folder / "theirs", tags=("de", "fr"), fast=True),
    "Pegasus": lambda folder: save_t5(folder / "theirs", lively_pegasus_of_old(), fast=True),
    "Marian with tags": lambda folder: save_tagged_marian(folder),
}
QUICK = ("NLLB", "T5 1.1")


def lively_pegasus_of_old() -> Any:
    model = lively_pegasus(vocab_size=42, encoder_attention_heads=2)
    model.config.normalize_before, model.config.normalize_embedding = True, False
    return model


def save_tagged_marian(folder: Path) -> None:
    """Of as many words as its vocabulary has."""
    save_marian(folder / "vocabulary", tags=TAGS)
    size = len(json.loads((folder / "vocabulary" / "vocab.json").read_text()))
    ids = {"pad_token_id": size - 1, "decoder_start_token_id": size - 1, "decoder_attention_heads": 4}
    save_marian(folder / "theirs", lively_marian(vocab_size=size, **ids), tags=TAGS)


TAGS = ("fra", "deu")


def make(family: str, folder: Path) -> tuple[Path, Path]:
    """A directory of transformers, and one of CTranslate2 with its tokenizer files."""
    FAMILIES[family](folder)
    return folder / "theirs", convert(folder / "theirs", folder / "ct2")


def import_model(converted: Path, out: Path, **options: Any) -> Path:
    target = "de" if "mBART/" in str(converted) else ""
    plan_import(str(converted), ImportOptions(**{"target_language": target, **options})).write(out)
    return out


@torch.no_grad()
def check_logits(theirs: Path, imported: Path) -> None:
    original, ours = AutoModelForSeq2SeqLM.from_pretrained(theirs).eval(), load_model(imported).model
    size = original.config.vocab_size
    source, target = torch.randint(3, size, (4, 13)), torch.randint(3, size, (4, 11))
    valid = torch.arange(13) < torch.tensor([[13], [1], [7], [12]])
    wanted = original(input_ids=source, attention_mask=valid.long(), decoder_input_ids=target).logits
    assert wanted.std() > 0.2
    torch.testing.assert_close(ours.logits(ours(source, target, valid).hidden), wanted, rtol=1e-5, atol=1e-5)


def check_ids(family: str, theirs: Path, converted: Path, imported: Path, count: int) -> None:
    """Those that CTranslate2 writes, greedily and with a beam: into German, where the model is told."""
    tokenizer = AutoTokenizer.from_pretrained(theirs)
    translator = load_translator(imported, device="cpu", engine="torch", compute="float32")
    names = json.loads((converted / "shared_vocabulary.json").read_text())
    languages, form, prefix = {}, "{}", None
    if family in CODES and family != "BART":
        tokenizer.src_lang, prefix = CODES[family]
        languages = {"source": "en", "target": "de"}
        prefix = "__de__" if family == "M2M100" else prefix
    elif family in ("MADLAD", "Marian with tags"):
        languages, form = ({"target": "de"}, "<2de> {}") if family == "MADLAD" else ({"target": "deu"}, ">>deu<< {}")
    lines = make_lines(count, seed=3)
    if "mBART" in family:  # which CTranslate2 does not run without a start token
        settings = json.loads((converted / "config.json").read_text())
        start, prefix = (prefix, None) if family == "mBART" else ("</s>", prefix)
        (converted / "config.json").write_text(
            json.dumps({**settings, "decoder_start_token": start, "bos_token": "<s>"})
        )
    runtime = open_translator(converted)
    for beam in (1, 3):
        search = translator.search(beam_size=beam, penalty="none", stopping="score", max_length=16)
        options = TranslateOptions(**languages, search=search, retry=False, protect=None, split_sentences=False)
        found = [made.guesses[0] for made in translator.translate(lines, options)]
        same = 0
        for line, guess in zip(lines, found):
            pieces = tokenizer.convert_ids_to_tokens(tokenizer(form.format(line)).input_ids)
            wanted = runtime.translate_batch(
                [pieces], target_prefix=prefix and [[prefix]], beam_size=beam, num_hypotheses=beam, length_penalty=0,
                max_decoding_length=16, min_decoding_length=0, return_scores=True,
            )[0]  # fmt: skip
            if [names[n] for n in guess.tokens] == wanted.hypotheses[0][bool(prefix) :]:
                same += 1
                assert guess.score == pytest.approx(wanted.scores[0], abs=1e-3)
            else:  # its beam passes over some ends that ours keeps
                assert beam > 1 and guess.score > wanted.scores[0], line
        assert same >= (0.5 * count if beam > 1 else count)
        outputs = {tuple(guess.tokens) for guess in found}
        assert beam > 1 or len(outputs) > (2 if count > 100 and family != "T5, tied" else 0)


@pytest.mark.parametrize("family", [pytest.param(f, marks=[] if f in QUICK else pytest.mark.slow) for f in FAMILIES])
def test_logits_and_ids(family: str, tmp_path: Path) -> None:
    theirs, converted = make(family, tmp_path / family)
    imported = import_model(converted, tmp_path / "ours")
    if "Marian" not in family:  # there the decoder starts with zeros, here with a row of the embedding
        check_logits(theirs, imported)
    check_ids(family, theirs, converted, imported, 6)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_ids_of_two_hundred(family: str, tmp_path: Path) -> None:
    theirs, converted = make(family, tmp_path / family)
    check_ids(family, theirs, converted, import_model(converted, tmp_path / "ours"), 200)
