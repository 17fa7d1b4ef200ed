"""headway import: says what it found, checked and lost; refuses to overwrite."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel

from headway.cli.app import main
from headway.cli.verbs.import_model import format_report
from headway.convert.importer import ImportReport
from headway.text.tokenizer.vocabulary import byte_alphabet

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def gpt2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "gpt2"
    torch.manual_seed(1)
    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32, "vocab_size": 257}
    GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=256, eos_token_id=256)).save_pretrained(folder)
    library = Library(models.BPE(vocab={letter: n for n, letter in enumerate(byte_alphabet())}, merges=[]))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(["<|endoftext|>"])
    library.save(str(folder / "tokenizer.json"))
    return folder


def test_it_says_what_it_found_and_writes_a_model_that_generates(
    gpt2_folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "a model"
    assert main(["import", str(gpt2_folder), "--out", str(out)]) == 0
    told = capsys.readouterr().err.splitlines()
    parameters = sum(p.numel() for p in GPT2LMHeadModel.from_pretrained(gpt2_folder).parameters())
    assert told[0] == f"found: GPT-2 language model, {parameters:,} parameters in float32, a vocabulary of 257"
    assert told[1].startswith("checked: 36 tensors") and "logits are finite" in told[2]
    assert told[-1] == f"next: headway generate --model '{out}' \"…\""
    assert main(["generate", "--model", str(out), "--length", "4", "--seed", "1", "hello"]) == 0
    assert capsys.readouterr().out.startswith("hello")
    assert main(["import", str(gpt2_folder), "--out", str(out)]) == 1
    assert "is not empty. Choose another --out, or overwrite it with --overwrite." in capsys.readouterr().err
    assert main(["import", str(gpt2_folder), "--out", str(out), "--overwrite"]) == 0
    assert main(["import", str(out), "--out", str(out), "--overwrite"]) == 2
    assert "the model itself: choose another directory" in capsys.readouterr().err


def test_languages_and_losses_are_named() -> None:
    report = ImportReport(
        family="Marian", objective="translation", parameters=1000, dtype="float16", vocabulary=7,
        source_languages=("en",), target_languages=(), checked=("a",), lost=("b",),
    )  # fmt: skip
    assert format_report(report) == [
        "found: Marian translator, en → ?, 1,000 parameters in float16, a vocabulary of 7",
        "checked: a",
        "lost: b",
    ]
