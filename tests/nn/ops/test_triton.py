"""Kernels in Triton compile for a GPU, wherever Triton is installed: no GPU is needed for that. That they are right is
shown in tests/gpu."""

from typing import Any

import pytest

triton = pytest.importorskip("triton", reason="Triton is missing: pip install triton")


def compiles(function: Any, types: str, **constants: Any) -> bool:
    """`types`: of the arguments that are not constants, in their order, for Hopper."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    given, names = iter(types.split()), function.arg_names
    signature = {name: "constexpr" if name in constants else next(given) for name in names}
    constexprs = {(names.index(name),): value for name, value in constants.items()}
    source = ASTSource(fn=function, signature=signature, constexprs=constexprs)
    return bool(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"])


@pytest.mark.parametrize("kind", ["*bf16", "*fp32"])
@pytest.mark.parametrize("centred", [True, False])
def test_norms(kind: str, centred: bool) -> None:
    from headway.nn.ops.triton import norms

    sizes = {"CENTRED": centred, "D": 500, "WIDTH": 512, "ROWS": 4}
    assert compiles(norms.forward, f"{kind} *fp32 *fp32 {kind} *fp32 *fp32 i32 fp32", **sizes)
    assert compiles(norms.backward, f"{kind} *fp32 {kind} *fp32 *fp32 {kind} *fp32 *fp32 i32", **sizes)
    assert compiles(norms.column_sums, f"{kind} *fp32 i32 i32", ROWS=32, COLUMNS=128)


@pytest.mark.parametrize("kind", ["*bf16", "*fp32"])
def test_dropout(kind: str) -> None:
    from headway.nn.ops.triton import dropout

    assert compiles(dropout.add, f"{kind} {kind} {kind} *i32 i32 fp32", BLOCK=1024)
    assert compiles(dropout.add_backward, f"{kind} {kind} *i32 i32 fp32", BLOCK=1024)
    assert compiles(dropout.relu, f"{kind} {kind} *i32 i32 fp32", BLOCK=1024)
    assert compiles(dropout.relu_backward, f"{kind} {kind} {kind} i32 fp32", BLOCK=1024)


@pytest.mark.parametrize("kind", ["*bf16", "*fp32"])
def test_cross_entropy(kind: str) -> None:
    from headway.nn.ops.triton.cross_entropy import cross_entropy

    assert compiles(cross_entropy, f"{kind} *i64 *fp32 i32 i32 fp32", IGNORED=-100, BLOCK=4096)


@pytest.mark.parametrize("drops", [True, False])
@pytest.mark.parametrize("kind", ["*bf16", "*fp32"])
def test_spans(kind: str, drops: bool) -> None:
    from headway.nn.ops.triton import varlen_attention

    sizes = {"GROUP": 2, "D": 64, "WIDTH": 64, "E": 64, "VALUES": 64, "BLOCK_Q": 64, "BLOCK_K": 32, "DROPS": drops}
    sizes |= {"PRECISION": "tf32"}
    four, three = " ".join([kind] * 4), " ".join([kind] * 3)
    assert compiles(varlen_attention.forward, f"{four} *fp32 *i32 *i32 *i32 {'i32 ' * 6} fp32 fp32", **sizes)
    types = f"{four} {kind} *fp32 *fp32 {kind} *i32 *i32 *i32 {'i32 ' * 7} fp32 fp32"
    assert compiles(varlen_attention.backward_queries, types, **sizes)
    types = f"{three} {kind} *fp32 *fp32 {kind} {kind} {'*i32 ' * 5} {'i32 ' * 6} fp32 fp32"
    assert compiles(varlen_attention.backward_keys, types, **sizes)


@pytest.mark.parametrize("kind", ["*fp32", "*fp64"])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(kind: str, reverse: bool) -> None:
    from headway.nn.ops.triton.scan import scan

    assert compiles(scan, " ".join([kind] * 4) + " i32 i32", REVERSE=reverse, BLOCK=64)
