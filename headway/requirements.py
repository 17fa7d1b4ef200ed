"""What the package asks for, and what of it is installed."""

import importlib.metadata
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import headway


@dataclass(frozen=True)
class Requirement:
    name: str
    least: str  # version, or ""
    extra: str  # what it is needed for, or "" if always

    def __str__(self) -> str:
        return f"{self.name}>={self.least}" if self.least else self.name


def requirements() -> list[Requirement]:
    """What the package asks for: as its project file says where it is run from its source, else as installed."""
    project = Path(headway.__file__).parent.parent / "pyproject.toml"
    if project.exists():
        table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
        lines = list(table["dependencies"])
        lines += [f'{line}; extra == "{e}"' for e, part in table["optional-dependencies"].items() for line in part]
    else:
        lines = importlib.metadata.requires("headway") or []
    found = []
    for line in lines:
        name = re.match(r"[\w.-]+", line)
        least = re.search(r">=\s*([\w.]+)", line.partition(";")[0])
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", line)
        if name and name[0] != "headway":
            found.append(Requirement(name[0], least[1] if least else "", extra[1] if extra else ""))
    return found


def installed_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def older(version: str, least: str) -> bool:
    """2.9 is older than 2.11; what stands behind the numbers does not count."""

    def numbers(text: str) -> list[int]:
        return [int(part) for part in re.match(r"[\d.]*", text)[0].split(".") if part]  # type: ignore[index]

    return numbers(version) < numbers(least)
