"""A real package with kinds of its own, as a user would install it: its module is the example of docs/own-kinds.md."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.config import own_kinds

PAGE = Path(__file__).parent.parent / "docs" / "own-kinds.md"
NAMES = {"running_mean": "RunningMean", "sinks": "Sinks", "logarithmic": "Logarithmic", "squared_relu": "SquaredReLU"}


def write_package(folder: Path, package: str, source: str, entry_points: dict[str, str] | None = None) -> None:
    """package/kinds.py, and with entry points (name -> class) the metadata of an installation beside it."""
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text("")
    (folder / package / "kinds.py").write_text(source, encoding="utf-8")
    if entry_points is not None:
        info = folder / f"{package}-1.0.dist-info"
        info.mkdir()
        name = package.replace("_", "-")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "top_level.txt").write_text(f"{package}\n")
        lines = [f"{kind} = {package}.kinds:{cls}" for kind, cls in entry_points.items()]
        (info / "entry_points.txt").write_text("[headway.kinds]\n" + "\n".join(lines) + "\n")


def example_source() -> str:
    [source] = re.findall(r"```python\n# my_package/kinds\.py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(source)


def forget() -> None:
    """As in a new process: nothing allowed, nothing imported, nothing found."""
    own_kinds._allowed.clear()
    own_kinds._find_declared.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] in ("my_package", "evil_package")]:
        del sys.modules[name]


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(own_kinds.ALLOW_VARIABLE, raising=False)
    forget()
    yield
    forget()


@pytest.fixture
def own_package(tmp_path: Path, new_process: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of my_package, on the path and not installed."""
    folder = tmp_path / "importable"
    write_package(folder, "my_package", example_source())
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def installed_package(tmp_path: Path, new_process: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, installed with its entry points."""
    folder = tmp_path / "installed"
    write_package(folder, "my_package", example_source(), NAMES)
    monkeypatch.syspath_prepend(folder)
    return folder
