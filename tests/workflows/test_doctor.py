"""The doctor: what is missing is named with what to type, and nothing that is broken breaks it."""

import importlib
import importlib.metadata
import re
import shutil
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from headway.nn.ops import native
from headway.workflows import doctor
from headway.workflows.doctor import DoctorFinding, Requirement, is_older, is_usable, read_requirements, run_checks


def about(findings: list[DoctorFinding], name: str) -> DoctorFinding:
    (found,) = [finding for finding in findings if finding.about == name]
    return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the installed package asks for, to be filled by a test."""
    lines: list[str] = []
    monkeypatch.setattr(doctor.headway, "__file__", "/nowhere/headway/__init__.py")
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: lines)
    return lines


def test_a_sound_installation_is_usable() -> None:
    findings = run_checks()
    assert is_usable(findings), [finding for finding in findings if finding.state == "broken"]
    names = [finding.about for finding in findings]
    assert names[:2] == ["headway", "Python"]
    for name in (
        "torch",
        "tokenizers",
        "CPU",
        "kernels",
        "memory",
        "this folder",
        "temporary files",
        "cache",
        "terminal",
        "trial",
    ):
        assert name in names, name
    assert importlib.metadata.version("torch") in about(findings, "torch").message
    assert about(findings, "trial").message == "a small model can be trained on cpu"
    assert all(bool(finding.advice) == (finding.state != "ok") for finding in findings)


def test_what_is_asked_for_is_what_the_project_says() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    found = read_requirements()
    needed = [re.match(r"[\w.-]+", line)[0] for line in project["dependencies"]]
    assert [requirement.name for requirement in found if not requirement.extra] == needed
    assert Requirement("torch", "2.11", "") in found
    assert {requirement.extra for requirement in found} - {""} == set(project["optional-dependencies"])
    assert Requirement("matplotlib", "", "plot") in found


def test_requirements_are_read(asked: list[str]) -> None:
    asked += [
        "torch>=2.11",
        "numpy",
        'matplotlib; extra == "plot"',
        'x-y >= 3 ; extra == "serve"',
        "headway[a]; extra=='b'",
    ]
    assert read_requirements() == [
        Requirement("torch", "2.11", ""),
        Requirement("numpy", "", ""),
        Requirement("matplotlib", "", "plot"),
        Requirement("x-y", "3", "serve"),
    ]


def test_what_is_missing_old_or_broken(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked += ["nonesuch>=2", "numpy>=99.1", "click>=8.2", "rich"]
    monkeypatch.setitem(sys.modules, "rich", None)  # installed, and cannot be imported
    findings = run_checks()
    assert not is_usable(findings)
    assert about(findings, "nonesuch") == DoctorFinding(
        "nonesuch", "is not installed", "broken", "pip install 'nonesuch>=2'"
    )
    old = about(findings, "numpy")
    assert (old.state, old.advice) == ("broken", "pip install --upgrade 'numpy>=99.1'")
    assert old.message.endswith("99.1 or newer is needed")
    assert about(findings, "click").state == "ok"
    broken = about(findings, "rich")
    assert "cannot be imported: ModuleNotFoundError: import of rich halted" in broken.message
    assert (broken.state, broken.advice) == ("broken", "pip install --force-reinstall 'rich'")


def test_extras(asked: list[str]) -> None:
    asked += [
        'matplotlib; extra == "plot"',
        'nonesuch>=2; extra == "serve"',
        'numpy>=99; extra == "serve"',
        'x; extra == "dev"',
    ]
    findings = run_checks()
    assert is_usable(findings)
    assert about(findings, "plot").state == "ok"
    expected = DoctorFinding(
        "serve", "nonesuch, numpy>=99 missing (for the server)", "note", "pip install 'headway[serve]'"
    )  # fmt: skip
    assert about(findings, "serve") == expected
    assert "dev" not in [finding.about for finding in findings]


@pytest.mark.parametrize(
    ("version", "least", "expected"),
    [
        ("2.9.0", "2.11", True),
        ("2.11", "2.11", False),
        ("2.11.0+cpu", "2.11", False),
        ("3", "2.11", False),
        ("2.11.0rc1", "2.11", False),
        ("1.0", "", False),
    ],
)
def test_versions(version: str, least: str, expected: bool) -> None:
    assert is_older(version, least) == expected


def test_headway_without_its_metadata(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    findings = run_checks()
    assert is_usable(findings)
    assert about(findings, "packages").advice == "pip install --force-reinstall headway"
    assert about(findings, "torch").state == "ok"


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a broken installation: every check says something, none ends the run."""
    load = importlib.import_module

    def broken(name: str, *rest: Any) -> Any:
        if name == "torch":
            raise OSError("libtorch_cpu.so: cannot open shared object file\nmore")
        return load(name, *rest)

    monkeypatch.setattr(importlib, "import_module", broken)
    monkeypatch.setitem(sys.modules, "torch", None)
    findings = run_checks()
    assert not is_usable(findings)
    torch_found = about(findings, "torch")
    assert "cannot be imported: OSError: libtorch_cpu.so: cannot open shared object file" in torch_found.message
    assert "more" not in torch_found.message
    assert about(findings, "processors").message.startswith("could not be checked: ModuleNotFoundError")
    assert about(findings, "trial").state == "broken"
    assert about(findings, "memory").state == "ok"


def test_every_check_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(doctor, "CHECKS", dict.fromkeys(doctor.CHECKS, fail))
    findings = run_checks()
    assert [finding.about for finding in findings] == list(doctor.CHECKS)
    assert {finding.message for finding in findings} == {"could not be checked: ZeroDivisionError: no reason given"}


def test_a_model_that_does_not_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.nn.functional, "cross_entropy", lambda a, b: (a * float("nan")).sum())
    found = about(run_checks(), "trial")
    assert found.message == "a small model cannot be trained on cpu: ArithmeticError: a gradient is not finite"
    assert (found.state, found.advice) == ("broken", "pip install --force-reinstall torch")


# ---- graphics cards, by what PyTorch would say


def cards(monkeypatch: pytest.MonkeyPatch, count: int, version: str | None) -> None:
    monkeypatch.setattr(torch.version, "cuda", version)
    fake = SimpleNamespace(
        is_available=lambda: count > 0,
        device_count=lambda: count,
        mem_get_info=lambda number: (3 * 2**30, 80 * 2**30),
        get_device_name=lambda number: "NVIDIA X",
        device=lambda number: torch.random.fork_rng(devices=[]),  # some context
        is_bf16_supported=lambda: True,
    )
    monkeypatch.setattr(torch, "cuda", fake)


def test_cards_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    cards(monkeypatch, 2, "13.0")
    found = list(doctor._processors())
    assert [finding.about for finding in found] == ["CPU", "cuda:0", "cuda:1"]
    assert found[1].message == "NVIDIA X, 3.0 GB of 80.0 GB free, with bf16"


def test_a_card_that_does_not_learn_leaves_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    cards(monkeypatch, 1, "13.0")
    learn = doctor._train_tiny_model
    monkeypatch.setattr(
        doctor,
        "_train_tiny_model",
        lambda device: learn(device) if device == "cpu" else exec("raise RuntimeError('no')"),
    )
    cpu, card = doctor._trial()
    assert cpu.state == "ok"
    assert (card.state, card.message) == ("note", "a small model cannot be trained on cuda:0: RuntimeError: no")


@pytest.mark.parametrize(
    ("version", "driver", "told", "state"),
    [
        (None, False, "none; everything runs on the CPU", "ok"),
        (None, True, "there is an NVIDIA driver, but this PyTorch was built without CUDA", "note"),
        ("13.0", True, "there is an NVIDIA driver, but PyTorch (CUDA 13.0) cannot use it", "note"),
    ],
)
def test_no_card(monkeypatch: pytest.MonkeyPatch, version: str | None, driver: bool, told: str, state: str) -> None:
    cards(monkeypatch, 0, version)
    monkeypatch.setattr(doctor.os.path, "exists", lambda path: False)
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/nvidia-smi" if driver else None)
    found = about(list(doctor._processors()), "GPU")
    assert (found.message, found.state) == (told, state)


# ---- memory, disks, terminal


def test_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "load_library", lambda: None)
    (found,) = doctor.CHECKS["kernels"]()
    assert found.message.startswith("not compiled: int8 models run in CTranslate2 or torch")
    assert (found.state, found.advice) == ("note", "install a C compiler, such as gcc")
    monkeypatch.setenv("HEADWAY_NATIVE", "0")
    (found,) = doctor.CHECKS["kernels"]()
    assert found.advice == "unset HEADWAY_NATIVE"


def test_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for free, state in ((2**29, "note"), (2**33, "ok")):
        monkeypatch.setattr(doctor, "_free_memory", lambda free=free: free)
        (found,) = doctor._memory()
        assert found.state == state
    assert found.message == "8.0 GB free"
    monkeypatch.setattr(doctor, "_free_memory", lambda: None)
    assert about(list(doctor._memory()), "memory").message == "free memory is unknown on this system"


def test_memory_is_what_a_container_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "/proc/meminfo": "MemTotal: 9 kB\nMemAvailable:    4000000 kB\n",
        "/sys/fs/cgroup/memory.max": "1000000000\n",
        "/sys/fs/cgroup/memory.current": "900000000\n",
        "/sys/fs/cgroup/memory.stat": "anon 3\ninactive_file 400000000\n",
    }
    monkeypatch.setattr(Path, "exists", lambda self: str(self) in files)
    monkeypatch.setattr(Path, "read_text", lambda self: files[str(self)])
    assert doctor._free_memory() == 500_000_000
    files["/sys/fs/cgroup/memory.max"] = "max\n"
    assert doctor._free_memory() == 4_096_000_000
    files.clear()
    assert doctor._free_memory() is None


def test_full_and_closed_disks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "not" / "yet" / "there"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5 * 2**20))
    here, temporary, cache = doctor._disks()
    assert here.message == f"5 MB free in {tmp_path}"
    assert {finding.state for finding in (here, temporary, cache)} == {"note"}
    assert temporary.advice == "export TMPDIR=/a/folder/with/space"
    assert cache.message == f"5 MB free in {tmp_path}/not/yet/there"
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2**40))
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)
    here, *_ = doctor._disks()
    assert (here.message, here.state) == (f"1024.0 GB free in {tmp_path}, which is not writable", "note")


def test_a_terminal_without_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, state in (("ascii", "note"), ("UTF-8", "ok"), (None, "note")):
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(encoding=stream))
        found = about(list(doctor._terminal()), "terminal")
        assert (found.state, found.advice) == (state, "export PYTHONUTF8=1" if state == "note" else "")
    monkeypatch.setattr(sys, "stdout", None)
    assert about(list(doctor._terminal()), "terminal").message.startswith("none, ")


def test_a_command_off_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    found = about(list(doctor._terminal()), "command")
    assert found.advice == f"export PATH={Path(sys.executable).parent}:$PATH"
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/headway")
    assert [finding.about for finding in doctor._terminal()] == ["terminal"]


def test_an_old_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    found = about(list(doctor._headway()), "Python")
    assert (found.state, found.advice) == ("broken", "install Python 3.11")
    assert found.message.startswith("3.9.1, ")
