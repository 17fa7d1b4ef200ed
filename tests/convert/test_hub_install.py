"""headway models install: OPUS-MT by direction, other models by name, against a stand-in of the hub."""

import json
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub.constants
import pytest
from installing_models import Shelf

from convert.hub_server import Hub, serve_hub
from convert.multilingual import make_original
from convert.translators import save_marian
from headway.cli.app import main
from headway.convert.hub_install import list_opus_names
from headway.storage.registry import list_installed

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """BART stands for models of OPUS-MT that do not say their languages."""
    folder = tmp_path_factory.mktemp("repositories")
    bart, nllb = (
        {file.name: file.read_bytes() for file in make_original(family, folder / family).folder.iterdir()}
        for family in ("BART", "NLLB")
    )
    return {
        "Helsinki-NLP/opus-mt-en-de": bart,
        "Helsinki-NLP/opus-mt-tc-big-fr-de": bart,
        "Helsinki-NLP/opus-mt-roa-en": bart,
        "Helsinki-NLP/opus-mt-pl-en": {name: bart[name] for name in bart if name != "model.safetensors"},
        "facebook/nllb-tiny": nllb,
    }


@pytest.fixture
def hub(
    repositories: dict[str, dict[str, bytes]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shelf: Shelf
) -> Iterator[Hub]:
    with serve_hub(repositories, monkeypatch, tmp_path) as server:
        yield server


def ran(capsys: Capture, *words: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert main(list(words)) == code, capsys.readouterr().err
    out, err = capsys.readouterr()
    return out, err


def test_where_a_translator_may_be() -> None:
    names = [name.removeprefix("Helsinki-NLP/opus-mt-") for name in list_opus_names("fr", "en")]
    assert names[:4] == ["fr-en", "tc-big-fr-en", "ROMANCE-en", "tc-big-ROMANCE-en"]
    assert "roa-en" in names and "mul-en" in names and len(names) < 30
    assert "en-zle" in " ".join(list_opus_names("en", "uk"))
    assert next(list_opus_names("fra_Latn", "zh-Hans")) == "Helsinki-NLP/opus-mt-fr-zh"
    assert any(name.endswith("/opus-mt-sla-sla") for name in list_opus_names("pl", "cs"))


def test_by_direction(capsys: Capture, hub: Hub) -> None:
    _, err = ran(capsys, "models", "install", "--from", "fr", "--to", "en")
    assert "found: BART translator" in err and "/opus-mt-roa-en\n" in err
    model = list_installed()["opus-mt-roa-en"]
    assert "fr" in model.sources and "es" in model.sources and model.targets == ("en",)
    out, err = ran(capsys, "-v", "translate", "--from", "fr", "--to", "en", "the dog sees")
    assert out.strip() and f"model {model.folder}" in err
    assert ran(capsys, "translate", "--from", "es", "--to", "en", "the dog")[0]  # of the same group
    _, err = ran(capsys, "models", "install", "--from", "fr", "--to", "en", code=1)
    assert 'a model named "opus-mt-roa-en" is installed already' in err
    ran(capsys, "models", "install", "--from", "fr", "--to", "de", "--name", "mine", "--default")
    assert list_installed()["mine"].sources == ("fr",)
    _, err = ran(capsys, "models", "install", "--from", "en", "--to", "xh", code=1)
    assert "Helsinki-NLP has no translator from en to xh on the hub. Tried: opus-mt-en-xh, opus-mt-tc-big-en-xh" in err


def test_by_name(capsys: Capture, hub: Hub) -> None:
    ran(capsys, "models", "install", "facebook/nllb-tiny", "--name", "nllb")
    out, _ = ran(capsys, "translate", "--from", "en", "--to", "deu_Latn", "--model", "nllb", "the dog sees a cat")
    assert out.strip() and "deu_Latn" not in out
    ran(capsys, "models", "install", "opus-mt-en-de", "--from", "en", "--to", "de")
    assert list_installed()["opus-mt-en-de"].directions == [("en", "de")]
    _, err = ran(capsys, "models", "install", "facebook/nllb-tiny", "--to", "xh", "--name", "other", code=2)
    assert "facebook/nllb-tiny translates ace-Arab, " in err and ", zh-Hant, not ? → xh" in err
    _, err = ran(capsys, "models", "install", "org/dodo", code=1)
    assert "no model of this name on the hub" in err
    _, err = ran(capsys, "models", "install", "opus-mt-pl-en", code=1)
    assert "allow the pickle: --allow-pickle" in err
    _, err = ran(capsys, "models", "install", "opus-mt-en-de", "--name", "a/b", code=2)
    assert "is not a valid model name" in err
    hub.requests.clear()
    _, err = ran(capsys, "models", "install", "opus-mt-en-de", "--name", "nllb", code=1)
    assert "installed already" in err and not hub.requests  # nothing is downloaded in vain


def test_without_a_network(capsys: Capture, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    by_hand = (
        "By hand: on a machine with a network, download all files of Helsinki-NLP/opus-mt-fr-en to a directory "
        "opus-mt-fr-en; here: headway import opus-mt-fr-en --out opus-mt-fr-en-headway --from fr --to en, then: "
        "headway models add opus-mt-fr-en-headway --name opus-mt-fr-en"
    )
    _, err = ran(capsys, "models", "install", "--from", "fr", "--to", "en", code=1)
    assert "is not in the cache, and the hub cannot be reached" in err and by_hand in err
    _, err = ran(capsys, "models", "install", "facebook/nllb-tiny", code=1)
    assert "headway import nllb-tiny --out nllb-tiny-headway, then: headway models add nllb-tiny-headway" in err


@pytest.mark.parametrize(
    "words", [["install"], ["install", "--from", "fr"], ["--from", "fr"], ["add", "x", "--to", "fr"]]
)
def test_options_that_say_too_little_or_too_much(capsys: Capture, words: list[str]) -> None:
    _, err = ran(capsys, "models", *words, code=2)
    assert "headway models install ORG/NAME or --from LANG --to LANG" in err


def test_translators_of_opus_mt(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shelf: Shelf) -> None:
    """Of two languages, of a group, and with tags for the target."""
    repositories = {}
    for name, tags, languages in (
        ("fr-en", (), ("fr", "en")),
        ("ROMANCE-en", (), ("ROMANCE", "en")),
        ("en-gem", ("deu", "nld"), ("eng", "gem")),
        ("mul-en", (), ("mul", "eng")),
    ):
        save_marian(tmp_path / name, tags=tags)
        files = {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()}
        settings = json.loads(files["tokenizer_config.json"])
        settings |= {"source_lang": languages[0], "target_lang": languages[1]}
        repositories[f"Helsinki-NLP/opus-mt-{name}"] = {**files, "tokenizer_config.json": json.dumps(settings).encode()}
    with serve_hub(repositories, monkeypatch, tmp_path):
        for source, target, name in (
            ("fr", "en", "opus-mt-fr-en"),
            ("es", "en", "opus-mt-ROMANCE-en"),
            ("en", "nl", "opus-mt-en-gem"),
            ("fi", "en", "opus-mt-mul-en"),
        ):
            ran(capsys, "models", "install", "--from", source, "--to", target)
            _, err = ran(capsys, "-v", "translate", "--from", source, "--to", target, "the dog sees a cat")
            assert f"model {shelf.own / name}\n" in err
    installed = list_installed()
    assert installed["opus-mt-fr-en"].directions == [("fr", "en")]
    assert "pt" in installed["opus-mt-ROMANCE-en"].sources
    assert installed["opus-mt-en-gem"].sources == ("en",) and installed["opus-mt-en-gem"].targets == ("deu", "nld")
    assert installed["opus-mt-mul-en"].directions == [("fi", "en")]
