"""Kernels in C: the same by every processor's instructions, and equal to what PyTorch makes of the same numbers."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from headway.decode.cpu.cache import Int8CrossKV, Int8KVCache, attend_within_sentences, pack_sentences
from headway.nn.layers.int8 import Int8Linear, quantise_weight
from headway.nn.ops import native

if native.load_library() is None:
    pytest.skip("a C compiler is missing: apt-get install gcc", allow_module_level=True)

MACHINES = ["native", "x86-64-v3", "x86-64"] if "flags" in native.processor_flags() else ["native"]


@pytest.fixture(params=MACHINES)
def machine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The kernels as they are for other processors: with VNNI, with AVX2, with neither."""
    flags = [flag.replace("-march=native", f"-march={request.param}") for flag in native.FLAGS]
    monkeypatch.setattr(native, "FLAGS", flags)
    kernels = ctypes.CDLL(
        str(native.compile_library("cc", tmp_path_factory.getbasetemp() / "kernels"))
    )  # compiled once
    native._load_functions.cache_clear()
    monkeypatch.setattr(native, "load_library", lambda: kernels)
    yield request.param
    native._load_functions.cache_clear()


@pytest.mark.parametrize("rows", [1, 3, 6, 29])
@pytest.mark.parametrize("size", [(1, 1), (7, 5), (64, 64), (130, 70), (512, 130)])
@pytest.mark.parametrize("positive", [False, True])
def test_products(machine: str, rows: int, size: tuple[int, int], positive: bool) -> None:
    generator = torch.Generator().manual_seed(rows)
    inputs, outputs = size
    x = torch.randn(rows, inputs, generator=generator) * torch.rand(rows, 1, generator=generator) * 9
    x[rows // 2] = 0
    x = x.relu() if positive else x
    weight, bias = (torch.randn(*shape, generator=generator) for shape in ((outputs, inputs), (outputs,)))
    whole, scale = quantise_weight(weight)
    layer = Int8Linear(whole, scale, bias, positive=positive)
    assert layer.uses_native
    beside = native.load_library().hw_max_signed_input()
    assert (
        layer.forward_rows(x) - by_hand(x, whole, scale, bias, 2 * beside + 1 if positive else beside)
    ).abs().max() < 1e-4
    alone = torch.cat([layer.forward_rows(x[row : row + 1]) for row in range(rows)])
    assert torch.equal(alone, layer.forward_rows(x))
    assert torch.equal(
        Int8Linear(whole, scale, bias, positive=positive, activation="relu").forward_rows(x),
        layer.forward_rows(x).relu(),
    )


def by_hand(x: Tensor, whole: Tensor, scale: Tensor, bias: Tensor, most: int) -> Tensor:
    largest = x.abs().amax(1, keepdim=True).clamp_min(1e-30)
    steps = (x * (most / largest)).round()
    product = (steps.double() @ whole.double().T) * scale * (largest / most) + bias
    return product.float()


def test_weights_are_within_half_a_step() -> None:
    weight = torch.randn(9, 33)
    weight[4] = 0
    whole, scale = quantise_weight(weight)
    assert whole.abs().max() == 127
    assert ((whole * scale[:, None] - weight).abs() <= scale[:, None] / 2 + 1e-7).all()
    assert torch.equal(quantise_weight(whole * scale[:, None])[0], whole)  # what was quantised stays as it is


def test_what_is_no_number_stays_none(machine: str) -> None:
    layer = Int8Linear(*quantise_weight(torch.randn(70, 40)), torch.zeros(70))
    x = torch.randn(3, 40)
    x[1, 7] = torch.nan
    assert layer.forward_rows(x).isnan().any(1).tolist() == [False, True, False]


@pytest.mark.parametrize(("heads", "groups", "size"), [(4, 4, 16), (4, 2, 64), (2, 1, 48), (3, 3, 10), (2, 2, 128)])
def test_attention(machine: str, heads: int, groups: int, size: int) -> None:
    torch.manual_seed(1)
    c = SimpleNamespace(heads=heads, groups=groups, d_k=size, scale=size**-0.5)
    words = pack_sentences(torch.tensor([5, 1, 17]))
    k, v = (torch.randn(words.total, groups * size) for _ in range(2))
    q = torch.randn(6, heads * size)
    kept = Int8CrossKV(words, c).store(words, k, v)
    heard = kept.attend(q, words, 2)
    assert torch.equal(heard[2:4], kept.attend(q[2:4], words, 2, torch.tensor([1])))
    k, v = (rounded(part, groups) for part in (k, v))
    q = rounded(q, heads).flatten(1)
    for row in range(6):
        sentence = slice(int(words.first[row // 2]), int(words.end[row // 2]))
        assert (heard[row] - looked(q[row], k[sentence], v[sentence], c)).abs().max() < 1e-5


@pytest.mark.parametrize(("heads", "groups", "size"), [(4, 4, 16), (4, 2, 64), (2, 1, 48), (3, 3, 10), (2, 2, 128)])
def test_words_listen_to_each_other(machine: str, heads: int, groups: int, size: int) -> None:
    torch.manual_seed(1)
    c = SimpleNamespace(heads=heads, groups=groups, d_k=size, scale=size**-0.5)
    words = pack_sentences(torch.tensor([5, 1, 0, 17]))
    x = torch.randn(words.total, (heads + 2 * groups) * size)
    q, k, v = x.split([heads * size, groups * size, groups * size], dim=1)
    heard = attend_within_sentences(words, q, k, v, c)
    for first, end in zip(words.first.tolist(), words.end.tolist()):
        keys, values = (part[first:end].view(-1, groups, size) for part in (k, v))
        for row in range(first, end):
            assert (heard[row] - looked(q[row], keys, values, c)).abs().max() < 1e-5


def rounded(x: Tensor, groups: int) -> Tensor:
    """(M, G · D), each head of each token in 8 bits"""
    whole, scale = quantise_weight(x.reshape(len(x) * groups, -1))
    return (whole * scale[:, None]).view(len(x), groups, -1)


def looked(q: Tensor, k: Tensor, v: Tensor, c: SimpleNamespace) -> Tensor:
    """q (H · D), k and v (S, G, D) -> (H · D)"""
    k, v = (part.repeat_interleave(c.heads // c.groups, dim=1).double() for part in (k, v))
    weights = (torch.einsum("hd,shd->hs", q.view(c.heads, -1).double(), k) * c.scale).softmax(-1)
    return torch.einsum("hs,shd->hd", weights, v).flatten().float()


def test_a_past_that_does_not_move(machine: str) -> None:
    """Beams change places, sentences leave, and tokens outgrow their room: each hypothesis hears its own past."""
    torch.manual_seed(2)
    c = SimpleNamespace(heads=2, groups=1, d_k=16, scale=0.25)
    past = Int8KVCache(pack_sentences(torch.tensor([2, 3, 4])), [])
    lives = [[[]] for _ in range(3)]  # of each sentence that is searched, of each hypothesis its keys and values
    for step in range(40):
        count = sum(map(len, lives))
        q, k, v = torch.randn(count, 32), torch.randn(count, 16), torch.randn(count, 16)
        past.begin_step()
        heard = past.self_attend(0, q, k, v, c)
        q = rounded(q, 2).flatten(1)
        row = 0
        for hypotheses in lives:
            for tokens in hypotheses:
                tokens.append((rounded(k[row : row + 1], 1), rounded(v[row : row + 1], 1)))
                keys, values = (torch.cat(list(part)) for part in zip(*tokens))
                assert (heard[row] - looked(q[row], keys, values, c)).abs().max() < 1e-5, (step, row)
                row += 1
        kept = torch.tensor([0, 2][: len(lives)] if step == 9 else range(len(lives)))
        parents = torch.randint(len(lives[0]), (len(kept), 3))
        past.reorder(kept, parents)
        lives = [[list(lives[old][i]) for i in line] for old, line in zip(kept.tolist(), parents.tolist())]


def test_logarithms(machine: str) -> None:
    x = torch.randn(5, 1003) * 20
    x[2, 7] = -torch.inf
    expected = x.log_softmax(-1)
    native.call("hw_log_softmax", x, 5, 1003)
    assert x[2, 7] == -torch.inf
    assert (x - expected).nan_to_num(0).abs().max() < 2e-5


HELD = """
import resource, threading, torch
from pathlib import Path
from headway.nn.layers.int8 import Int8Linear, quantise_weight

layer, x = Int8Linear(*quantise_weight(torch.randn(1, 2048))), torch.zeros(8192, 2048)

def in_a_thread():
    thread = threading.Thread(target=layer.forward_rows, args=(x,))
    thread.start()
    thread.join()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

first = in_a_thread()
assert [in_a_thread() for _ in range(8)][-1] < first + 4 * x.shape[0] * 2048  # of a byte each
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux how much memory is held")
def test_memory_of_a_thread_goes_with_it() -> None:
    """In a process of its own: others that ran before in this one give their memory back, or not, when they like."""
    ran = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="asks Linux what kind of memory it is")
def test_large_memory_is_not_shared_with_children() -> None:
    memory = native.zeros((native.MIN_HUGE_PAGE_BYTES,), np.uint8)
    for line in Path("/proc/self/maps").read_text().splitlines():
        ends, rights = line.split()[:2]
        first, last = (int(end, 16) for end in ends.split("-"))
        if first <= native.address_of(memory) < last:
            assert rights == "rw-p"
            return
    pytest.fail("it is not in the memory of this process")


# ---- how they are had


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    native.load_library.cache_clear()
    native._announce.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield tmp_path / "headway"
    native.load_library.cache_clear()


def test_they_are_compiled_once(anew: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert native.load_library() is not None
    (made,) = anew.glob("*.so")
    native.load_library.cache_clear()
    monkeypatch.setattr(subprocess, "run", None)
    assert native.load_library() is not None
    assert [made] == list(anew.glob("*.so"))


COUNTED = """#!/bin/sh
echo called >> "$COUNT"
exec cc "$@"
"""


def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    compiler = tmp_path / "counted-cc"
    compiler.write_text(COUNTED)
    compiler.chmod(0o755)
    environment = {**os.environ, "CC": str(compiler), "COUNT": str(tmp_path / "calls"), "XDG_CACHE_HOME": str(tmp_path)}
    program = "from headway.nn.ops import native; assert native.load_library() is not None"
    started = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    told = [process.communicate(timeout=300)[1] for process in started]
    assert [process.returncode for process in started] == [0] * 4, told
    assert (tmp_path / "calls").read_text().splitlines() == ["called"]
    line = "headway: compiling kernels for this processor, once; this takes a few seconds\n"
    assert sorted(told) == ["", "", "", line]


@pytest.mark.parametrize("bad", ["false", "/nowhere/cc", "cc --no-such-option"])
def test_a_bad_compiler_is_passed_over(
    anew: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bad: str
) -> None:
    monkeypatch.setenv("CC", bad)
    assert native.load_library() is not None
    assert capsys.readouterr().err.count("compiling kernels") == 1


def test_a_folder_without_room_is_passed_over(anew: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the compiler itself fails, as it does where it is broken."""
    compiler = anew.parent / "cc-without-room"
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *{anew}*) exit 1;; esac\nexec cc "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    other = anew.parent / "elsewhere"
    monkeypatch.setattr(native, "_temporary_folder", lambda: other)
    assert native.load_library() is not None
    assert not list(anew.glob("*.so")) and list(other.glob("*.so"))


def test_without_a_compiler_there_are_none(anew: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(anew))
    assert native.load_library() is None
    native.load_library.cache_clear()
    monkeypatch.setenv("CC", "false")
    assert native.load_library() is None


def test_they_can_be_done_without(anew: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_NATIVE", "0")
    assert native.load_library() is None
    assert not anew.exists()


def test_a_folder_of_somebody_else_is_not_trusted(anew: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.os, "getuid", lambda: 4711)
    with pytest.raises(PermissionError):
        native.compile_library("cc", anew)
