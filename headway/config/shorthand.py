"""The shorthand of a part: "local(256)", "causal & local(256)", "my_package.module:MyMixer(heads=4)".

A part is written as Python would call it. What Python does not write, a class by its module, becomes a plain name while
the text is parsed."""

import ast
import dataclasses
import re
from typing import Any

from headway.config import catalogue
from headway.config.own_kinds import import_owner
from headway.config.renamed import Note, current_key, current_kind, ignore
from headway.errors import ConfigError, did_you_mean

# A string, which stays as it is, or a class by its module; a colon stands nowhere else.
# The lookbehind lets a word be tried from its first letter alone, so that long ones take no longer.
WORD = r"""[^\s'"()&|,=\[\]]"""
STRING_OR_TARGET = re.compile(rf"""('(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")|((?<!{WORD})(?={WORD}*:){WORD}*+)""")


def expand(slot_name: str, text: str, note: Note = ignore) -> dict[str, Any]:
    """'local(256)' -> {'kind': 'local', 'window': 256}; positional arguments follow the order of the fields. `note` is
    called for every old name, which is replaced."""
    targets: dict[str, str] = {}

    def replace(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1]
        name = f"own_kind_{len(targets)}"
        while name in text:
            name += "_"
        targets[name] = match[2]
        return name

    try:
        tree = ast.parse(STRING_OR_TARGET.sub(replace, text.strip()), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise _unreadable_part(slot_name, text) from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = targets.get(node.id, node.id)
    return _expand(slot_name, tree, text, note)


def _expand(slot_name: str, tree: ast.expr, text: str, note: Note) -> dict[str, Any]:
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.BitAnd | ast.BitOr):
        if slot_name != "mask":
            raise ConfigError(f'"{text}": only masks can be combined with & and |, not a {slot_name}.')
        parts = [_expand(slot_name, operand, text, note) for operand in _operands(tree, type(tree.op))]
        return {"kind": "all" if isinstance(tree.op, ast.BitAnd) else "any", "parts": parts}
    if isinstance(tree, ast.Name):
        return {"kind": current_kind(slot_name, tree.id, note)}
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)):
        raise _unreadable_part(slot_name, text)
    kind = current_kind(slot_name, tree.func.id, note)
    names = [spec.name for spec in dataclasses.fields(import_owner(slot_name, kind).Config) if spec.name != "kind"]
    if tree.args and not names:
        raise ConfigError(f'"{text}" gives values, and {kind} takes none. Write "{kind}".')
    if len(tree.args) > len(names):
        raise ConfigError(f'"{text}" gives {len(tree.args)} values; {kind} takes {len(names)}: {", ".join(names)}.')
    table: dict[str, Any] = {"kind": kind}
    try:
        for name, node in zip(names, tree.args):
            table[name] = _parse_literal(node)
        for keyword in tree.keywords:
            if keyword.arg is None:
                raise _unreadable_part(slot_name, text)
            name = current_key(f"{slot_name}.{kind}", keyword.arg, note)
            if name in table:
                raise ConfigError(f'"{text}" gives {name} twice.')
            table[name] = _parse_literal(keyword.value)
    except (ValueError, TypeError):
        raise ConfigError(
            f'"{text}": only numbers, strings, true, false and lists are allowed between the parentheses.'
        ) from None
    return table


def _operands(tree: ast.expr, operator: type[ast.operator]) -> list[ast.expr]:
    """a & b & c -> [a, b, c]"""
    operands = []
    while isinstance(tree, ast.BinOp) and isinstance(tree.op, operator):
        operands.append(tree.right)
        tree = tree.left
    return [tree, *reversed(operands)]


def _parse_literal(tree: ast.expr) -> Any:
    """A plain value; true and false may be written as in TOML."""
    if isinstance(tree, ast.Name) and tree.id in ("true", "false"):
        return tree.id == "true"
    return ast.literal_eval(tree)


def _unreadable_part(slot_name: str, text: str) -> ConfigError:
    hyphenated = re.findall(r"[^\W\d]\w*(?:-\w+)+", text)
    hints = [did_you_mean(word, catalogue.kinds(slot_name)) for word in hyphenated]
    return ConfigError(
        f'"{text}" cannot be read.{next(filter(None, hints), "")} Write a kind, as in "causal", or with values, as in '
        '"local(256)".'
    )
