"""The layout of the package, held: which way imports point, what loads without torch, names that are defined once.

The order of packages is the order of the picture in headway/__init__.py: each may import those after it."""

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEADWAY = ROOT / "headway"
ARROW = [
    "cli", "serve", "compare", "contracts", "workflows", "answering", "documents", "train", "inspect", "convert",
    "translate", "decode", "storage", "nn", "retrieval", "data", "text", "config", "files", "device", "errors",
]  # fmt: skip
# Method sugar: `translator.trace(…)`, `language_model.trace(…)` and `language_model.perplexity(…)` reach up when
# called.
LATE_EXCEPTIONS = {("translate", "inspect"), ("translate", "workflows")}
TORCH_FREE = [
    "headway.answering", "headway.cli", "headway.config", "headway.data", "headway.decode.ctranslate2",
    "headway.decode.native", "headway.decode.lattice", "headway.decode.probe", "headway.device",
    "headway.documents", "headway.errors", "headway.files", "headway.retrieval", "headway.text",
    "headway.translate.options", "headway.translate.translator", "headway.workflows",
]  # fmt: skip
ROOT_MODULES = {"__init__.py", "__main__.py", "device.py", "errors.py"}
MAX_LINES = 400
# Every part owns a nested Config; nothing else may share a name.
DEFINED_TWICE = {"Config"}

FILES = sorted(HEADWAY.rglob("*.py"))
PARSED = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def type_only_nodes(tree: ast.Module) -> set[int]:
    """What stands under `if TYPE_CHECKING:`, which never runs."""
    guards = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    return {id(node) for guard in guards for node in ast.walk(guard)}


def imports_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Modules of headway that a file imports when it runs, and whether late: inside a function."""
    tree = PARSED[path]
    unused = type_only_nodes(tree)
    for node in ast.walk(tree):
        if id(node) in unused:
            continue
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.split(".")[0] == "headway":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if is_module(inner) else node.module, node.col_offset > 0
        elif isinstance(node, ast.Import):
            yield from ((a.name, node.col_offset > 0) for a in node.names if a.name.split(".")[0] == "headway")


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def package_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_imports_point_one_way() -> None:
    wrong = []
    for path in FILES:
        own = package_of(module_name(path))
        if own not in ARROW:
            continue
        for module, late in imports_of(path):
            other = package_of(module)
            if other not in ARROW or ARROW.index(other) >= ARROW.index(own):
                continue
            if not (late and (own, other) in LATE_EXCEPTIONS):
                wrong.append(f"{path.relative_to(ROOT)} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_every_package_is_in_the_arrow() -> None:
    folders = {path.parent.name for path in HEADWAY.glob("*/__init__.py")}
    assert folders <= set(ARROW)


def test_exceptions_are_still_needed() -> None:
    edges = {(package_of(module_name(path)), package_of(module)) for path in FILES for module, _ in imports_of(path)}
    assert edges >= LATE_EXCEPTIONS


def test_no_module_imports_itself_in_a_circle() -> None:
    """Counted are imports at the top of a module; a package stands for its __init__."""
    graph = {
        module_name(path): {module for module, late in imports_of(path) if not late and module != module_name(path)}
        for path in FILES
    }
    state: dict[str, int] = {}
    circle: list[str] = []

    def visit(module: str, way: list[str]) -> None:
        state[module] = 1
        for other in sorted(graph.get(module, ())):
            if state.get(other) == 1 and not circle:
                circle.extend([*way[way.index(other) :], other] if other in way else [module, other])
            elif other not in state:
                visit(other, [*way, other])
        state[module] = 2

    for module in graph:
        if module not in state:
            visit(module, [module])
    assert not circle, " -> ".join(circle)


def test_no_class_is_defined_twice() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path, tree in PARSED.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name not in DEFINED_TWICE:
                homes[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    twice = {name: places for name, places in homes.items() if len(places) > 1}
    assert not twice, "\n".join(f"{name}: {', '.join(places)}" for name, places in twice.items())


def test_the_root_holds_four_modules() -> None:
    assert {path.name for path in HEADWAY.glob("*.py")} == ROOT_MODULES


@pytest.mark.parametrize("package", TORCH_FREE)
def test_torch_free_packages_load_without_torch(package: str) -> None:
    names = [module_name(path) for path in FILES]
    modules = [name for name in names if name == package or name.startswith(f"{package}.")]
    assert modules
    code = (
        "import importlib, sys\n"
        f"for name in {modules}:\n"
        "    importlib.import_module(name)\n"
        "    assert 'torch' not in sys.modules, name\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-400:]


def test_no_module_is_longer_than_one_sitting() -> None:
    """Lines of literal tables do not count."""
    long = []
    for path, tree in PARSED.items():
        tables = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and is_table(node.value)]
        count = len(path.read_text(encoding="utf-8").splitlines())
        count -= sum((node.end_lineno or node.lineno) - node.lineno for node in tables)
        if count > MAX_LINES:
            long.append(f"{path.relative_to(ROOT)}: {count} lines")
    assert not long, "\n".join(long)


def is_table(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Dict | ast.List | ast.Set | ast.Tuple)


def test_every_package_begins_with_what_is_inside() -> None:
    """The docstring of a package is its picture: more than a sentence."""
    short = [
        str(path.relative_to(ROOT))
        for path in FILES
        if path.name == "__init__.py" and len((ast.get_docstring(PARSED[path]) or "").splitlines()) < 2
    ]
    assert not short, "\n".join(short)
