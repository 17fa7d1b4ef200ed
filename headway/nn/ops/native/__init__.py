"""Kernels in C for the CPU, compiled by the user's own compiler for his own processor when they are first needed: a few seconds,
once. Where there is no compiler, PyTorch's kernels do the same, slower. HEADWAY_NATIVE=0 does without."""

import contextlib
import ctypes
import functools
import hashlib
import itertools
import math
import mmap
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

SOURCES = sorted(Path(__file__).parent.glob("*.c"))
HEADERS = sorted(Path(__file__).parent.glob("*.h"))
FLAGS = [
    "-O3", "-march=native", "-std=gnu11", "-shared", "-fPIC", "-pthread", "-fvisibility=hidden",
    "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math",
]  # fmt: skip
LARGE = 1 << 22  # bytes, from which on large pages pay
PATIENCE = 120  # seconds for the compiler
SIGNATURES = {  # p: a tensor, an address or None, n: a whole number, f: a float
    "hw_pack": "pnnnpp",
    "hw_linear": "pnnpppppnnn",
    "hw_listen": "pnppnppppnnnnnnnnnfp",
    "hw_keep": "ppnppnnnnnpp",
    "hw_hear": "pnnpppppnnnnnfp",
    "hw_converse": "pppnppnnnnnfp",
    "hw_encode": "pppppn",
    "hw_decode": "pppnpp",
    "hw_search": "pppp",
    "hw_log_softmax": "pnn",
}


@functools.cache
def library() -> ctypes.CDLL | None:
    """None where they cannot be had."""
    if os.environ.get("HEADWAY_NATIVE") == "0" or not hasattr(os, "getuid"):
        return None
    compilers = [os.environ.get("CC"), *map(shutil.which, ("cc", "gcc", "clang"))]
    folders: list[Callable[[], Path]] = [cache_folder, _temporary_folder]
    for compiler, folder in itertools.product(filter(None, compilers), folders):
        try:
            return ctypes.CDLL(str(built(compiler, folder())))
        except (OSError, RuntimeError, subprocess.SubprocessError):  # another folder may do, or another compiler
            continue
    return None


def _temporary_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"headway-{os.getuid()}"


def built(compiler: str, folder: Path) -> Path:
    """The compiled file, made if it is not there yet. Its name says of what, and for which processor."""
    known = hashlib.sha256(
        b"".join(path.read_bytes() for path in SOURCES + HEADERS) + " ".join([compiler, *FLAGS, processor()]).encode()
    ).hexdigest()
    path = folder / f"lean-{known[:16]}.so"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} can be written to by somebody else")
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder) as own:
            made = Path(own) / path.name
            command = [*compiler.split(), *FLAGS, "-o", str(made), *map(str, SOURCES), "-lm"]
            subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
            made.replace(path)  # several processes may do so at once
    return path


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headway"


def processor() -> str:
    """What -march=native depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())


def call(name: str, *arguments: Tensor | int | float | None) -> None:
    """A function of the library. Tensors are passed by their address, and must lie as it expects them, on the CPU."""
    if _functions()[name](*[part.data_ptr() if isinstance(part, Tensor) else part for part in arguments]):
        raise MemoryError("there is no memory left for a search")


@functools.cache
def _functions() -> dict[str, Any]:
    kernels = library()
    assert kernels is not None
    kinds = {"p": ctypes.c_void_p, "n": ctypes.c_int64, "f": ctypes.c_float}
    functions = {name: getattr(kernels, name) for name in SIGNATURES}
    for name, function in functions.items():
        function.argtypes = [kinds[letter] for letter in SIGNATURES[name]]
    return functions


def zeros(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """In large pages where there is much of it: a processor knows only so many pages by heart."""
    count = math.prod(shape) * dtype.itemsize
    if count < LARGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.zeros(*shape, dtype=dtype, device="cpu")
    pages = mmap.mmap(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # shared memory has no large pages
    with contextlib.suppress(OSError):  # a system that has none
        pages.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(pages, dtype=dtype).view(*shape)
