"""Files as users have them, and as nobody should: made from a seed, so that a case can be made again."""

import gzip
import json
import lzma
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import zstandard

Lines = Sequence[tuple[str, str]]  # good pairs, of the models' languages
Maker = Callable[[random.Random, Lines], bytes]

ODD = [
    "",
    " ",
    "\t",
    "\x00",
    "a\x00b",
    "\u2028",
    "one\u2028two\u2029three",
    "\x85\x0b\x0c\x1c\x1d\x1e",
    "carriage\rreturn",
    "\r",
    "\ufeffmark",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽",
    "שלום עולם \u202eabc\u202c",
    "e\u0301\u0323" * 20,
    "日本語の文です。これは二つ目。",
    "\U0010ffff\ufffe",
    "⟨/s⟩ <pad> [MASK] ||| <BT>",
    "1.2.3. e.g. Dr. Mr. U.S. ...?!",
    '{"source": 1}',
    "no no no no no no no no no no no no no no no no no no no no",
    "%s %d {} {0} $HOME `id` \\n",
    "x" * 3000,
    "word " * 500,
    "A. " * 200,
]


def text(lines: Sequence[str], end: bytes = b"\n", last: bytes = b"\n") -> bytes:
    return end.join(line.encode("utf-8", "surrogatepass") for line in lines) + (last if lines else b"")


def good(side: int) -> Maker:
    def make(chance: random.Random, known: Lines) -> bytes:
        """Always the first lines of the corpus, so that two such files fit each other if they are as long."""
        return text([pair[side] for pair in known[: chance.choice([8] * 9 + [1, 30])]])

    return make


def odd(chance: random.Random, known: Lines) -> bytes:
    lines = [chance.choice([chance.choice(ODD), chance.choice(known)[0]]) for _ in range(chance.randrange(12))]
    return text(lines, chance.choice([b"\n", b"\n", b"\r\n"]), chance.choice([b"\n", b"", b"\r"]))


def broken(chance: random.Random, known: Lines) -> bytes:
    """Somewhere in good text, bytes that are no UTF-8."""
    whole = good(0)(chance, known)
    place = chance.randrange(len(whole) + 1)
    return whole[:place] + chance.choice([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"]) + whole[place:]


def noise(chance: random.Random, known: Lines) -> bytes:
    return chance.randbytes(chance.choice([1, 7, 100, 5000]))


def table(chance: random.Random, known: Lines) -> bytes:
    rows = ["\t".join(pair) for pair in known[:8]]
    if chance.random() < 0.5:
        rows[chance.randrange(8)] = chance.choice(["", "one column", "a\tb\tc\td", "\t", "\t\t", chance.choice(ODD)])
    return text(rows)


def objects(chance: random.Random, known: Lines) -> bytes:
    rows = [json.dumps({"source": source, "target": target}) for source, target in known[:8]]
    wrong = ["", "{", "[]", "null", "1e999", '{"source": 1, "target": 2}', '{"source": "a"}', "[" * 5000, '"\\ud800"']
    wrong += ['{"source": "\\ud800", "target": "b"}', '{"translation": {"en": "a", "qtx": "b"}}', "\x00", "NaN"]
    if chance.random() < 0.5:
        rows[chance.randrange(8)] = chance.choice(wrong)
    return text(rows)


def settings(chance: random.Random, known: Lines) -> bytes:
    """What a --config may hold."""
    lines = ["[train]", chance.choice(["seed = 2", "steps = 3", "seed = -1", "sede = 2", "seed = ", "seed = 1e400"])]
    lines += chance.choice([[], ["[model]", "d_model = 16"], ["[modle]"], ["[train]"], ['x = "'], ["\x00"], ["= 3"]])
    return text(lines)


EMPTY: Maker = lambda chance, known: b""  # noqa: E731
MAKERS: dict[str, list[Maker]] = {
    "a.en": [good(0)] * 6 + [odd, broken, noise, EMPTY],
    "b.qtx": [good(1)] * 6 + [odd, broken, noise, EMPTY],
    "text.txt": [good(0), odd, odd, broken, EMPTY],
    "c.en-qtx.tsv": [table, table, noise, EMPTY],
    "d.jsonl": [objects, objects, noise, EMPTY],
    "e.toml": [settings, settings, noise, EMPTY],
    "f.json": [objects, noise, EMPTY],
    "g.safetensors": [noise, EMPTY],
}
PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
    ".zst": lambda data: zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read(),
}


def hostile_files(folder: Path, chance: random.Random, known: Lines) -> list[Path]:
    """One file of each kind, some packed, some packed and damaged, some with names of their own."""
    paths = []
    for name, makers in MAKERS.items():
        content = chance.choice(makers)(chance, known)
        stem = chance.choice(["", "", "", "", " with space ", "ü-ß-日本-", "'quote\"", "%s{}"])
        ending = chance.choice(["", "", "", *PACK])
        if ending:
            packed = PACK[ending](content)
            cut = packed[: chance.randrange(len(packed))] if packed else b""
            content = chance.choice([packed, packed, packed, content, cut, packed + packed, packed + b"\x00junk"])
        path = folder / f"{stem}{name}{ending}"
        path.write_bytes(content)
        paths.append(path)
    if chance.random() < 0.1:
        path = Path(os.fsdecode(os.fsencode(folder) + b"/no-utf8-\xff.en"))
        path.write_bytes(good(0)(chance, known))
        paths.append(path)
    return paths


def unpacked(path: Path) -> bytes:
    content = path.read_bytes()
    return UNPACK[path.suffix](content) if path.suffix in UNPACK else content


def count_lines(content: bytes) -> int:
    """As `wc -l` counts them, and one for a last line without its end."""
    return content.count(b"\n") + (not content.endswith(b"\n") and content != b"")
