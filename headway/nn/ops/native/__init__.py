"""CPU kernels in C for int8 decoding, compiled on first use by the user's compiler for the user's processor.

Compiling takes a few seconds, once. Without a compiler PyTorch's kernels do the same, slower; HEADWAY_NATIVE=0 turns
these off.

    linear.c             int8 linear layers, norms        layers.c   the encoder, and a decoder step, in one call each
    attention.c          attention over an int8 KV cache  search.c   the whole search, greedy or a beam, in one call
    encoder_attention.c  self-attention in float32        common.h   vectors, and the structures that Python fills
"""

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
MIN_HUGE_PAGE_BYTES = 1 << 22  # from which huge pages pay
COMPILE_TIMEOUT_S = 120
SIGNATURES = {  # p: a tensor, an address or None; n: an integer; f: a float
    "hw_pack": "pnnnpp",
    "hw_linear": "pnnpppppnnn",
    "hw_self_attention": "pnppnppppnnnnnnnnnfp",
    "hw_store_kv": "ppnppnnnnnpp",
    "hw_cross_attention": "pnnpppppnnnnnfp",
    "hw_encoder_attention": "pppnppnnnnnfp",
    "hw_encode": "pppppn",
    "hw_decode": "pppnpp",
    "hw_search": "pppp",
    "hw_log_softmax": "pnn",
}


@functools.cache
def load_library() -> ctypes.CDLL | None:
    """The compiled kernels; None where they are not available."""
    if os.environ.get("HEADWAY_NATIVE") == "0" or not hasattr(os, "getuid"):
        return None
    compilers = [os.environ.get("CC"), *map(shutil.which, ("cc", "gcc", "clang"))]
    folders: list[Callable[[], Path]] = [cache_folder, _temporary_folder]
    for compiler, folder in itertools.product(filter(None, compilers), folders):
        try:
            return ctypes.CDLL(str(compile_library(compiler, folder())))
        except (OSError, RuntimeError, subprocess.SubprocessError):  # try another folder, or another compiler
            continue
    return None


def _temporary_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"headway-{os.getuid()}"


def compile_library(compiler: str, folder: Path) -> Path:
    """The shared library, compiled unless it exists. Its name is a hash of the sources, the flags and the processor."""
    sources = b"".join(path.read_bytes() for path in SOURCES + HEADERS)
    digest = hashlib.sha256(sources + " ".join([compiler, *FLAGS, processor_flags()]).encode()).hexdigest()
    path = folder / f"native-{digest[:16]}.so"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(f"{folder} is writable by other users")
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            output = Path(temporary) / path.name
            command = [*compiler.split(), *FLAGS, "-o", str(output), *map(str, SOURCES), "-lm"]
            subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_TIMEOUT_S)
            output.replace(path)  # atomic: several processes may do so at once
    return path


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headway"


def processor_flags() -> str:
    """What -march=native depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())


def call(name: str, *arguments: Tensor | int | float | None) -> None:
    """Call a function of the library. Tensors are passed by address: they must be on the CPU, in the expected
    layout."""
    if _load_functions()[name](*[part.data_ptr() if isinstance(part, Tensor) else part for part in arguments]):
        raise MemoryError("out of memory in a native kernel")


@functools.cache
def _load_functions() -> dict[str, Any]:
    kernels = load_library()
    assert kernels is not None
    kinds = {"p": ctypes.c_void_p, "n": ctypes.c_int64, "f": ctypes.c_float}
    functions = {name: getattr(kernels, name) for name in SIGNATURES}
    for name, function in functions.items():
        function.argtypes = [kinds[letter] for letter in SIGNATURES[name]]
    return functions


def zeros(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Zeros, in huge pages if there are many: fewer TLB misses."""
    count = math.prod(shape) * dtype.itemsize
    if count < MIN_HUGE_PAGE_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.zeros(*shape, dtype=dtype, device="cpu")
    pages = mmap.mmap(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # shared memory has no huge pages
    with contextlib.suppress(OSError):  # a system without them
        pages.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(pages, dtype=dtype).view(*shape)
