"""Tiny models with random weights, installed in folders of the tests."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import headway.storage.registry
from headway.config.config import read_config
from headway.nn.transformer import Transformer
from headway.storage.model_dir import save_model
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer


def obedient() -> list[str]:
    """In front of a command: root is stopped by permissions like anybody else, where that can be arranged."""
    words = ["setpriv", "--bounding-set=-dac_override"]
    can = os.getuid() == 0 and shutil.which(words[0]) and not subprocess.run([*words, "true"], check=False).returncode
    return words if can else []


OBEDIENT = obedient()
# A program: headway with the words behind it, which may ask for no network.
OFFLINE = """
import sys
def watch(event, arguments):
    if event.startswith("socket."):
        raise AssertionError(f"{event} was asked for")
sys.addaudithook(watch)
from headway.cli import main
sys.exit(main(sys.argv[1:]))
"""


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    files = [folder, *folder.rglob("*")]
    for file in files:
        file.chmod(0o555 if file.is_dir() else 0o444)
    try:
        yield
    finally:
        for file in files:
            file.chmod(0o755 if file.is_dir() else 0o644)


def make_model(folder: Path, sources: Sequence[str], targets: Sequence[str], card: str = "# A card\n") -> Path:
    """It writes six tokens of nonsense, with another score for each target language."""
    torch.manual_seed(1)
    tokenizer = Tokenizer.train([], "bytes", tags=targets if len(targets) > 1 else ())
    side = {"layers": 1, "mixer": "attention(2)", "feedforward": "relu(32)"}
    table = {
        "model": {"d_model": 16, "vocabulary": tokenizer.size, "encoder": side, "decoder": side},
        "source_languages": list(sources),
        "target_languages": list(targets),
        "search": {"max_length": 6, "beam_size": 1},
    }
    config = read_config(table)
    model = Transformer(config.model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.5)
    save_model(folder, config, model.state_dict(), Tokenizers(tokenizer, tokenizer), card)
    return folder


def rename_languages(model: Path, folder: Path, sources: Sequence[str], targets: Sequence[str]) -> Path:
    """A copy of a trained model that says that it is for other languages."""
    shutil.copytree(model, folder, ignore=shutil.ignore_patterns("checkpoints"))
    config = json.loads((folder / "config.json").read_text())
    config.update(source_languages=list(sources), target_languages=list(targets))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


class Shelf:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bundled, self.own = folder / "bundled", folder / "own"
        monkeypatch.setattr(headway.storage.registry, "BUNDLED_MODELS", self.bundled)
        monkeypatch.setenv("HEADWAY_MODELS", str(self.own))

    def add(self, name: str, sources: str, targets: str, bundled: bool = False, card: str = "# A card\n") -> Path:
        return make_model((self.bundled if bundled else self.own) / name, sources.split(), targets.split(), card)

    def add_copy(self, model: Path, name: str, sources: str, targets: str) -> Path:
        """Of a trained model, for other languages."""
        return rename_languages(model, self.own / name, sources.split(), targets.split())
