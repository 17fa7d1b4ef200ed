"""`headway doctor`: check the installation and the machine, and say how to fix problems. Nothing here may crash.

read_requirements   what pyproject.toml asks for
CHECKS              functions that yield DoctorFindings: packages, devices, kernels, memory, disks, terminal, a tiny
                    training"""

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
from headway.device import available_cores
from headway.files.cache import cache_folder

State = Literal["ok", "note", "broken"]

EXTRA_PURPOSES = {  # by the names of the optional dependencies in pyproject.toml
    "plot": "pictures",
    "tensorboard": "curves of a training in TensorBoard",
    "serve": "the server",
}
MODULE_NAMES = {"markdown-it-py": "markdown_it"}  # of packages whose module is named otherwise
LOW_BYTES = 2**30  # of memory or disk: less is worth a note


@dataclass(frozen=True)
class Requirement:
    """A package that Headway depends on."""

    name: str
    min_version: str  # or ""
    extra: str  # the optional dependency that it belongs to, or "" if it is always needed

    def __str__(self) -> str:
        return f"{self.name}>={self.min_version}" if self.min_version else self.name


@dataclass(frozen=True)
class DoctorFinding:
    """`broken`: Headway cannot be used; `note`: something is missing or scarce. `advice`: what to type or do."""

    about: str
    message: str
    state: State = "ok"
    advice: str = ""

    def to_dict(self) -> dict[str, str]:
        """As --json prints it."""
        return {"about": self.about, "told": self.message, "state": self.state, "advice": self.advice}


def read_requirements() -> list[Requirement]:
    """From pyproject.toml when Headway is run from its source tree, else from the installed metadata."""
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
        version = re.search(r">=\s*([\w.]+)", line.partition(";")[0])
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", line)
        if name and name[0] != "headway":
            found.append(Requirement(name[0], version[1] if version else "", extra[1] if extra else ""))
    return found


def installed_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def is_older(version: str, min_version: str) -> bool:
    """2.9 is older than 2.11. Suffixes like rc1 or +cu128 do not count."""

    def numbers(text: str) -> list[int]:
        return [int(part) for part in re.match(r"[\d.]*", text)[0].split(".") if part]  # type: ignore[index]

    return numbers(version) < numbers(min_version)


def run_checks() -> list[DoctorFinding]:
    """Every check in turn; one that raises gives a finding, too."""
    findings: list[DoctorFinding] = []
    for about, check in CHECKS.items():
        try:
            findings += check()
        except Exception as error:
            findings.append(DoctorFinding(about, f"could not be checked: {_summarise_error(error)}", "note"))
    return findings


def is_usable(findings: list[DoctorFinding]) -> bool:
    return not any(finding.state == "broken" for finding in findings)


def _headway() -> Iterator[DoctorFinding]:
    yield DoctorFinding("headway", f"{headway.__version__}, in {Path(headway.__file__).parent}")
    version = ".".join(map(str, sys.version_info[:3]))
    old = sys.version_info < (3, 11)
    yield DoctorFinding(
        "Python", f"{version}, {sys.executable}", "broken" if old else "ok", "install Python 3.11" * old
    )


def _packages() -> Iterator[DoctorFinding]:
    try:
        required = read_requirements()
    except Exception as error:
        message = f"the requirements of headway are unknown: {_summarise_error(error)}"
        yield DoctorFinding("packages", message, "note", "pip install --force-reinstall headway")
        required = [Requirement(name, "", "") for name in ("torch", "tokenizers", "safetensors")]
    for requirement in required:
        if not requirement.extra:
            yield _check_required(requirement)
    extras = sorted({requirement.extra for requirement in required} - {"", "dev"})
    for extra in extras:
        yield _check_extra(extra, [requirement for requirement in required if requirement.extra == extra])


def _check_required(requirement: Requirement) -> DoctorFinding:
    version = installed_version(requirement.name)
    if version is None:
        return DoctorFinding(requirement.name, "is not installed", "broken", f"pip install '{requirement}'")
    message = f"{version}, {requirement.min_version} or newer is needed" if requirement.min_version else version
    if is_older(version, requirement.min_version):
        return DoctorFinding(requirement.name, message, "broken", f"pip install --upgrade '{requirement}'")
    try:
        importlib.import_module(MODULE_NAMES.get(requirement.name, requirement.name.replace("-", "_")))
    except Exception as error:
        repair = f"pip install --force-reinstall '{requirement}'"
        return DoctorFinding(
            requirement.name, f"{version} cannot be imported: {_summarise_error(error)}", "broken", repair
        )
    return DoctorFinding(requirement.name, message)


def _check_extra(extra: str, parts: list[Requirement]) -> DoctorFinding:
    versions = {str(part): installed_version(part.name) for part in parts}
    missing = [part.name for part in parts if versions[str(part)] is None]
    missing += [str(part) for part in parts if (v := versions[str(part)]) is not None and is_older(v, part.min_version)]
    purpose = f" (for {EXTRA_PURPOSES[extra]})" if extra in EXTRA_PURPOSES else ""
    if missing:
        return DoctorFinding(extra, f"{', '.join(missing)} missing{purpose}", "note", f"pip install 'headway[{extra}]'")
    return DoctorFinding(extra, ", ".join(f"{part.name} {versions[str(part)]}" for part in parts) + purpose)


def _processors() -> Iterator[DoctorFinding]:
    import torch

    yield DoctorFinding("CPU", f"{available_cores()} cores, {torch.get_num_threads()} threads")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    for number in range(count):
        free, total = torch.cuda.mem_get_info(number)
        name = torch.cuda.get_device_name(number)
        with torch.cuda.device(number):
            kind = "with bf16" if torch.cuda.is_bf16_supported() else "without bf16"
        yield DoctorFinding(f"cuda:{number}", f"{name}, {_format_size(free)} of {_format_size(total)} free, {kind}")
    if count:
        return
    if not (os.path.exists("/proc/driver/nvidia/version") or shutil.which("nvidia-smi")):
        yield DoctorFinding("GPU", "none; everything runs on the CPU")
    elif torch.version.cuda is None:
        message = "there is an NVIDIA driver, but this PyTorch was built without CUDA"
        yield DoctorFinding("GPU", message, "note", "the command for CUDA at https://pytorch.org/get-started/locally")
    else:
        message = f"there is an NVIDIA driver, but PyTorch (CUDA {torch.version.cuda}) cannot use it"
        yield DoctorFinding("GPU", message, "note", "nvidia-smi, and a newer driver")


def _memory() -> Iterator[DoctorFinding]:
    free = _free_memory()
    if free is None:
        yield DoctorFinding("memory", "free memory is unknown on this system")
    else:
        low = free < LOW_BYTES
        message = f"{_format_size(free)} free"
        yield DoctorFinding(
            "memory", message, "note" if low else "ok", "close other programs, or use --preset tiny" * low
        )


def _free_memory() -> int | None:
    """What the system reports as available, and at most what the container's limit (cgroup) leaves."""
    limits = []
    meminfo = Path("/proc/meminfo")
    group = Path("/sys/fs/cgroup")
    if meminfo.exists() and (line := re.search(r"MemAvailable:\s+(\d+) kB", meminfo.read_text())):
        limits.append(int(line[1]) * 1024)
    if (group / "memory.max").exists() and (limit := (group / "memory.max").read_text().strip()).isdigit():
        cached = re.search(r"^inactive_file (\d+)", (group / "memory.stat").read_text(), re.MULTILINE)
        used = int((group / "memory.current").read_text()) - (int(cached[1]) if cached else 0)
        limits.append(int(limit) - used)
    return min(limits, default=None)


def _disks() -> Iterator[DoctorFinding]:
    for about, folder, advice in (
        ("this folder", Path.cwd(), "cd to a folder with free space, or give one to --out"),
        ("temporary files", Path(tempfile.gettempdir()), "export TMPDIR=/a/folder/with/space"),
        ("cache", cache_folder(), "export HEADWAY_CACHE=/a/folder/with/space"),
    ):
        existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
        free = shutil.disk_usage(existing).free
        read_only = not os.access(existing, os.W_OK)
        message = f"{_format_size(free)} free in {folder}" + ", which is not writable" * read_only
        bad = read_only or free < LOW_BYTES
        yield DoctorFinding(about, message, "note" if bad else "ok", advice if bad else "")


def _terminal() -> Iterator[DoctorFinding]:
    encoding = (getattr(sys.stdout, "encoding", None) or "none").lower()
    utf8 = encoding.replace("-", "").replace("_", "") == "utf8"
    columns = shutil.get_terminal_size((80, 24)).columns
    message = f"{encoding}, {columns} columns"
    yield DoctorFinding("terminal", message, "ok" if utf8 else "note", "" if utf8 else "export PYTHONUTF8=1")
    if shutil.which("headway") is None:
        advice = f"export PATH={Path(sys.executable).parent}:$PATH"
        yield DoctorFinding("command", "headway is not on the PATH; python -m headway works too", "note", advice)


def _kernels() -> Iterator[DoctorFinding]:
    """Of the native engine, which are compiled here."""
    from headway.nn.ops import native

    if native.load_library() is not None:
        yield DoctorFinding("kernels", "compiled for this processor: int8 models run in the native engine")
        return
    is_off = os.environ.get("HEADWAY_NATIVE") == "0"
    why = "turned off by HEADWAY_NATIVE=0" if is_off else "not compiled"
    message = f"{why}: int8 models run in CTranslate2 or torch, more slowly"
    yield DoctorFinding(
        "kernels", message, "note", "unset HEADWAY_NATIVE" if is_off else "install a C compiler, such as gcc"
    )


def _trial() -> Iterator[DoctorFinding]:
    """Forward and backward pass of a model with a few thousand weights, on every device."""
    first = _try_training("cpu", "broken", "pip install --force-reinstall torch")
    yield first
    if first.state == "broken":
        return
    import torch

    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        yield _try_training(f"cuda:{number}", "note", "--device cpu, and a newer driver")


def _try_training(device: str, state_on_error: State, advice: str) -> DoctorFinding:
    try:
        _train_tiny_model(device)
    except Exception as error:
        return DoctorFinding(
            "trial", f"a small model cannot be trained on {device}: {_summarise_error(error)}", state_on_error, advice
        )
    return DoctorFinding("trial", f"a small model can be trained on {device}")


def _train_tiny_model(device: str) -> None:
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
            raise ArithmeticError("a gradient is not finite")


CHECKS: dict[str, Callable[[], Iterator[DoctorFinding]]] = {
    "headway": _headway,
    "packages": _packages,
    "processors": _processors,
    "kernels": _kernels,
    "memory": _memory,
    "disks": _disks,
    "terminal": _terminal,
    "trial": _trial,
}


def _format_size(count: float) -> str:
    return f"{count / 2**30:.1f} GB" if count >= 2**30 else f"{count / 2**20:.0f} MB"


def _summarise_error(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"
