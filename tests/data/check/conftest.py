"""A small English and German corpus to damage: sentences put together from a few parts, no two of them alike."""

import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from headway.data.parallel_files import ParallelFiles

Row = tuple[str, str]

PARTS: list[list[Row]] = [
    [
        ("The old teacher", "Der alte Lehrer"), ("My sister", "Meine Schwester"), ("Our neighbour", "Unser Nachbar"),
        ("A young doctor", "Ein junger Arzt"), ("The gardener", "Der Gärtner"), ("Her brother", "Ihr Bruder"),
        ("Every child", "Jedes Kind"), ("The mayor", "Die Bürgermeisterin"), ("Nobody", "Niemand"),
        ("The painter", "Die Malerin"),
    ],
    [
        ("reads", "liest"), ("finds", "findet"), ("forgets", "vergisst"), ("carries", "trägt"), ("sees", "sieht"),
        ("hides", "versteckt"), ("buys", "kauft"), ("shows us", "zeigt uns"),
    ],
    [
        ("the long letter", "den langen Brief"), ("two newspapers", "zwei Zeitungen"),
        ("a heavy book", "ein schweres Buch"), ("the green apples", "die grünen Äpfel"),
        ("some photographs", "einige Fotos"), ("the broken clock", "die kaputte Uhr"),
        ("her grandmother's ring", "den Ring ihrer Großmutter"), ("a small boat", "ein kleines Boot"),
    ],
    [
        ("in the garden", "im Garten"), ("behind the house", "hinter dem Haus"), ("at the station", "am Bahnhof"),
        ("on Monday morning", "am Montagmorgen"), ("every evening", "jeden Abend"),
        ("during the concert", "während des Konzerts"), ("without a word", "ohne ein Wort"),
        ("before the storm", "vor dem Sturm"),
    ],
    [
        ("", ""), (", although it rains", ", obwohl es regnet"), (" and goes home", " und geht nach Hause"),
        (" because the shops are closed", ", weil die Läden geschlossen sind"),
    ],
]  # fmt: skip


@pytest.fixture(scope="session")
def rows() -> list[Row]:
    """1,500 pairs."""
    every = list(itertools.product(*PARTS))
    found = []
    for parts in random.Random(7).sample(every, 1500):
        english, german = (" ".join(part[side] for part in parts[:4]) + parts[4][side] + "." for side in (0, 1))
        found.append((english, german))
    return found


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., ParallelFiles]:
    """Writes rows as two files, or as one table."""

    def put_rows(rows: Sequence[Row], name: str = "a", table: bool = False) -> ParallelFiles:
        if table:
            path = tmp_path / f"{name}.en-de.tsv"
            path.write_bytes("".join(f"{source}\t{target}\n" for source, target in rows).encode())
            return ParallelFiles(str(path), "", "en", "de")
        for side, language in enumerate(("en", "de")):
            (tmp_path / f"{name}.{language}").write_bytes("".join(f"{row[side]}\n" for row in rows).encode())
        return ParallelFiles(str(tmp_path / f"{name}.en"), str(tmp_path / f"{name}.de"), "en", "de")

    return put_rows
