"""A small manual whose answers are known, and its index."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from headway.answering.passage_index import PassageIndex, build_passage_index, open_passage_index

MANUAL = """# Server

## Memory
The option --memory limits what the server takes. Idle models are unloaded when 85 % of it is used. The limit is not
exact.

## Port
The server listens on port 5000. Another port is chosen with --port.

## Models
Several models can be served at once. The first is loaded at the start, the others are loaded on their first use.
"""
KITCHEN = """Bread needs flour, water, salt and yeast.

The dough rests for two hours. It is baked at 240 degrees.
"""
CHINESE = "# 服务器\n\n服务器监听端口五千。内存由选项限制。\n"


def write_documents(folder: Path) -> Path:
    folder.mkdir()
    (folder / "server.md").write_text(MANUAL, encoding="utf-8")
    (folder / "kitchen.txt").write_text(KITCHEN, encoding="utf-8")
    (folder / "zh.md").write_text(CHINESE, encoding="utf-8")
    return folder


def make_index(folder: Path) -> PassageIndex:
    """Of words alone."""
    build_passage_index([write_documents(folder / "docs")], folder / "index")
    return open_passage_index(folder / "index")


MEANINGS = ("memory ram limit", "port address listen", "bread bake dough flour loaf", "model load")


def embed(texts: Sequence[str]) -> np.ndarray:
    """An encoder that knows four meanings, by the beginnings of their words."""
    words = [text.lower().split() for text in texts]
    counts = [[sum(w.startswith(tuple(m.split())) for w in each) for m in MEANINGS] for each in words]
    return np.array(counts, np.float32) + 0.01
