"""What the package asks for, and what of it is installed.

What is installed, what this machine has, and what to type where something is missing. Nothing here may crash."""

import importlib
import importlib.metadata
import os
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import headway
from headway.device import cores
from headway.files.cache import cache_folder


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


State = Literal["ok", "note", "broken"]

GOOD_FOR = {  # the extras of the package
    "plot": "pictures",
    "tensorboard": "curves of a training in TensorBoard",
    "serve": "the server",
    "convert": "models of other programs",
    "ray": "several machines",
}
LITTLE = 2**30  # bytes


@dataclass(frozen=True)
class Finding:
    """`broken`: Headway cannot be used so; `note`: something is missing or scarce. `advice`: what to type or do."""

    about: str
    told: str
    state: State = "ok"
    advice: str = ""


def examine() -> list[Finding]:
    """Every check in turn; one that fails is a finding like the others."""
    found: list[Finding] = []
    for about, check in CHECKS.items():
        try:
            found += check()
        except Exception as error:
            found.append(Finding(about, f"could not be examined: {_brief(error)}", "note"))
    return found


def usable(findings: list[Finding]) -> bool:
    return not any(finding.state == "broken" for finding in findings)


def _headway() -> Iterator[Finding]:
    yield Finding("headway", f"{headway.__version__}, in {Path(headway.__file__).parent}")
    version = ".".join(map(str, sys.version_info[:3]))
    old = sys.version_info < (3, 11)
    yield Finding("Python", f"{version}, {sys.executable}", "broken" if old else "ok", "install Python 3.11" * old)


def _packages() -> Iterator[Finding]:
    try:
        asked = requirements()
    except Exception as error:
        told = f"what headway needs is not known: {_brief(error)}"
        yield Finding("packages", told, "note", "pip install --force-reinstall headway")
        asked = [Requirement("torch", "", ""), Requirement("tokenizers", "", ""), Requirement("safetensors", "", "")]
    for requirement in asked:
        if not requirement.extra:
            yield _needed(requirement)
    extras = sorted({requirement.extra for requirement in asked} - {"", "dev"})
    for extra in extras:
        yield _wanted(extra, [requirement for requirement in asked if requirement.extra == extra])


def _needed(requirement: Requirement) -> Finding:
    version = installed_version(requirement.name)
    if version is None:
        return Finding(requirement.name, "is not installed", "broken", f"pip install '{requirement}'")
    told = f"{version}, {requirement.least} or newer is needed" if requirement.least else version
    if older(version, requirement.least):
        return Finding(requirement.name, told, "broken", f"pip install --upgrade '{requirement}'")
    try:
        importlib.import_module(requirement.name.replace("-", "_"))
    except Exception as error:
        repair = f"pip install --force-reinstall '{requirement}'"
        return Finding(requirement.name, f"{version} cannot be imported: {_brief(error)}", "broken", repair)
    return Finding(requirement.name, told)


def _wanted(extra: str, parts: list[Requirement]) -> Finding:
    versions = {str(part): installed_version(part.name) for part in parts}
    missing = [part.name for part in parts if versions[str(part)] is None]
    missing += [str(part) for part in parts if (v := versions[str(part)]) is not None and older(v, part.least)]
    purpose = f" (for {GOOD_FOR[extra]})" if extra in GOOD_FOR else ""
    if missing:
        return Finding(extra, f"{', '.join(missing)} missing{purpose}", "note", f"pip install 'headway[{extra}]'")
    return Finding(extra, ", ".join(f"{part.name} {versions[str(part)]}" for part in parts) + purpose)


def _processors() -> Iterator[Finding]:
    import torch

    yield Finding("CPU", f"{cores()} cores, {torch.get_num_threads()} threads")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for number in range(count):
        free, total = torch.cuda.mem_get_info(number)
        name = torch.cuda.get_device_name(number)
        with torch.cuda.device(number):
            kind = "with bf16" if torch.cuda.is_bf16_supported() else "without bf16"
        yield Finding(f"cuda:{number}", f"{name}, {_size(free)} of {_size(total)} free, {kind}")
    if count:
        return
    if not (os.path.exists("/proc/driver/nvidia/version") or shutil.which("nvidia-smi")):
        yield Finding("GPU", "none; everything runs on the CPU")
    elif torch.version.cuda is None:
        told = "there is an NVIDIA driver, but this PyTorch was built without CUDA"
        yield Finding("GPU", told, "note", "the command for CUDA at https://pytorch.org/get-started/locally")
    else:
        told = f"there is an NVIDIA driver, but PyTorch (CUDA {torch.version.cuda}) cannot use it"
        yield Finding("GPU", told, "note", "nvidia-smi, and a newer driver")


def _memory() -> Iterator[Finding]:
    free = _free_memory()
    if free is None:
        yield Finding("memory", "how much is free is not known here")
    else:
        few = free < LITTLE
        told = f"{_size(free)} free"
        yield Finding("memory", told, "note" if few else "ok", "close other programs, or --preset tiny" * few)


def _free_memory() -> int | None:
    """What the system can give, and no more than a container allows."""
    found = []
    meminfo, group = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
    if meminfo.exists() and (line := re.search(r"MemAvailable:\s+(\d+) kB", meminfo.read_text())):
        found.append(int(line[1]) * 1024)
    if (group / "memory.max").exists() and (limit := (group / "memory.max").read_text().strip()).isdigit():
        cached = re.search(r"^inactive_file (\d+)", (group / "memory.stat").read_text(), re.MULTILINE)
        used = int((group / "memory.current").read_text()) - (int(cached[1]) if cached else 0)
        found.append(int(limit) - used)
    return min(found, default=None)


def _disks() -> Iterator[Finding]:
    for about, folder, cure in (
        ("this folder", Path.cwd(), "cd to a folder with room, or give --out one"),
        ("temporary files", Path(tempfile.gettempdir()), "export TMPDIR=/a/folder/with/room"),
        ("cache", cache_folder(), "export HEADWAY_CACHE=/a/folder/with/room"),
    ):
        there = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free, closed = shutil.disk_usage(there).free, not os.access(there, os.W_OK)
        told = f"{_size(free)} free in {folder}" + ", where nothing may be written" * closed
        bad = closed or free < LITTLE
        yield Finding(about, told, "note" if bad else "ok", cure if bad else "")


def _terminal() -> Iterator[Finding]:
    encoding = (getattr(sys.stdout, "encoding", None) or "none").lower()
    utf8 = encoding.replace("-", "").replace("_", "") == "utf8"
    columns = shutil.get_terminal_size((80, 24)).columns
    told = f"{encoding}, {columns} columns"
    cure = "" if utf8 else "export PYTHONUTF8=1"
    yield Finding("terminal", told, "ok" if utf8 else "note", cure)
    if shutil.which("headway") is None:
        cure = f"export PATH={Path(sys.executable).parent}:$PATH"
        yield Finding("command", "headway is not on the PATH; python -m headway works too", "note", cure)


def _trial() -> Iterator[Finding]:
    """A model of a few thousand weights, forward and backward, on every device."""
    first = _learns("cpu", "broken", "pip install --force-reinstall torch")
    yield first
    if first.state == "broken":
        return
    import torch

    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        yield _learns(f"cuda:{number}", "note", "--device cpu, and a newer driver")


def _learns(device: str, otherwise: State, advice: str) -> Finding:
    try:
        _train_a_little(device)
    except Exception as error:
        return Finding("trial", f"a small model does not learn on {device}: {_brief(error)}", otherwise, advice)
    return Finding("trial", f"a small model learns on {device}")


def _train_a_little(device: str) -> None:
    import torch

    from headway.config.schema import from_dict
    from headway.nn.transformer import Transformer

    side = {"layers": 1, "mixer": "attention(2)", "feedforward": "relu(32)"}
    table = {"d_model": 16, "vocabulary": 64, "encoder": side, "decoder": side}
    model = Transformer(from_dict(Transformer.Config, table)).to(device)
    ids = torch.arange(8, device=device)[None]
    logits = model.logits(model(ids, ids).hidden)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
    for gradient in torch.autograd.grad(loss, list(model.parameters())):
        if not bool(gradient.isfinite().all()):
            raise ArithmeticError("a gradient is not a number")


CHECKS: dict[str, Callable[[], Iterator[Finding]]] = {
    "headway": _headway,
    "packages": _packages,
    "processors": _processors,
    "memory": _memory,
    "disks": _disks,
    "terminal": _terminal,
    "trial": _trial,
}


def _size(count: float) -> str:
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


def _brief(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"
