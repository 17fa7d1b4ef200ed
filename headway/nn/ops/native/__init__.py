"""CPU kernels in C for int8 decoding, compiled on first use by the user's compiler for the user's processor.

Compiling takes a few seconds, once. Without a compiler other engines do the same, slower; HEADWAY_NATIVE=0 turns
these off. Nothing here imports torch.

    linear.c             int8 linear layers, norms        layers.c   the encoder, and a decoder step, in one call each
    attention.c          attention over an int8 KV cache  search.c   the whole search, greedy or a beam, in one call
    encoder_attention.c  self-attention in float32        common.h   vectors, and the structures that tables.py fills
"""

import contextlib
import ctypes
import functools
import hashlib
import itertools
import math
import mmap
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]  # numpy.typing takes long to import

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
        except (OSError, RuntimeError):  # try another folder, or another compiler
            continue
    return None


def _temporary_folder() -> Path:
    import tempfile

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
        with _lock_file(folder / "compile.lock"):
            if not path.exists():  # another process may have compiled it meanwhile
                _compile(compiler, path)
    return path


def _compile(compiler: str, path: Path) -> None:
    import subprocess
    import tempfile

    _announce()
    with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
        output = Path(temporary) / path.name
        command = [*compiler.split(), *FLAGS, "-o", str(output), *map(str, SOURCES), "-lm"]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_TIMEOUT_S)
        except subprocess.SubprocessError as error:
            raise RuntimeError(f"{compiler} failed") from error
        output.replace(path)  # atomic: where files cannot be locked, several processes may do so at once


@functools.cache
def _announce() -> None:
    """Once, however many compilers are tried."""
    if sys.stderr is not None:
        print("headway: compiling kernels for this processor, once; this takes a few seconds", file=sys.stderr)


@contextlib.contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    """Processes, and threads, that start together wait for the one that compiles."""
    import fcntl

    with open(path, "w") as file:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headway"


def processor_flags() -> str:
    """What -march=native depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    found = next((line for line in lines if line.startswith(("flags", "Features"))), None)
    if found is not None:
        return found
    import platform

    return f"{platform.machine()} {platform.processor()}"


def call(name: str, *arguments: Any) -> None:
    """Call a function of the library with numbers, None, and arrays or tensors. These are passed by address: they must
    be on the CPU, in the expected layout."""
    if _load_functions()[name](*map(address_of, arguments)):
        raise MemoryError("out of memory in a native kernel")


def address_of(part: Any) -> Any:
    """The address of an array's or a tensor's first number; anything else as it is."""
    if isinstance(part, np.ndarray):
        return part.__array_interface__["data"][0]
    return part.data_ptr() if hasattr(part, "data_ptr") else part


@functools.cache
def _load_functions() -> dict[str, Any]:
    kernels = load_library()
    assert kernels is not None
    kinds = {"p": ctypes.c_void_p, "n": ctypes.c_int64, "f": ctypes.c_float}
    functions = {name: getattr(kernels, name) for name in SIGNATURES}
    for name, function in functions.items():
        function.argtypes = [kinds[letter] for letter in SIGNATURES[name]]
    return functions


def zeros(shape: Sequence[int], dtype: Any) -> Array:
    """Zeros, in huge pages if there are many: fewer TLB misses."""
    count = math.prod(shape) * np.dtype(dtype).itemsize
    if count < MIN_HUGE_PAGE_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.zeros(shape, dtype)
    pages = mmap.mmap(-1, count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # shared memory has no huge pages
    with contextlib.suppress(OSError):  # a system without them
        pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype).reshape(shape)
