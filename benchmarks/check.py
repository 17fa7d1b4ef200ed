"""How many planted faults `headway check` finds in a corpus, and how many it reports in clean lines.

    python benchmarks/check.py --data DIR --lines 300000

DIR (or HEADWAY_DATA) holds en-de/europarl.part1.tsv.xz and the other parts. 1 % of the lines are damaged in each of the
ways below, with a fixed seed and no line twice; trivial kinds of damage get 0.1 %. The last table removes one line from
the target of 5,000 lines, and measures how far from it the check reports that the files stop matching.
"""

import argparse
import bisect
import itertools
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from headway.data.check import FAULT_KINDS, CheckSettings, check
from headway.data.check.faults import FAULT_BITS
from headway.data.check.first_pass import LineCountError, read_first_pass
from headway.data.parallel_files import ParallelFiles
from headway.files.text_files import read_byte_lines

Row = tuple[bytes, bytes]
GREEK = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzäöüßABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÜ",
    "αβκδεφγχιζκλμνοπθρστυβωξψζεουσΑΒΚΔΕΦΓΧΙΖΚΛΜΝΟΠΘΡΣΤΥΒΩΞΨΖΕΟΥ",
)
FOREIGN_LINES = """
Nous devons encore voter sur ce rapport avant la fin de la semaine.
Je remercie le rapporteur pour le travail qu'il a accompli.
La Commission présentera une nouvelle proposition au printemps.
We zullen morgen opnieuw over dit voorstel moeten stemmen.
De minister heeft gisteren geen antwoord op mijn vraag gegeven.
Het is belangrijk dat alle landen zich aan deze regels houden.
Tenemos que hablar también de los derechos de los trabajadores.
El informe que debatimos hoy es muy importante para las regiones.
La situazione nelle zone colpite rimane purtroppo molto difficile.
Vorrei ringraziare tutti i colleghi che hanno lavorato a questo testo.
Vi skal finde en løsning, som alle medlemslandene kan støtte.
Jeg vil gerne takke kommissæren for hendes klare svar.
Musimy znaleźć rozwiązanie, które będzie dobre dla wszystkich.
Chciałbym podziękować za wyjaśnienia, których nam udzielono.
Vi måste göra mer för att skydda havet och kusterna.
Acredito que esta proposta vai ajudar as pequenas empresas.
""".strip().split("\n")  # fmt: skip


def read_rows(data: Path, max_lines: int) -> list[Row]:
    parts = sorted((data / "en-de").glob("europarl.part*.tsv.xz"))
    lines = itertools.chain.from_iterable(read_byte_lines(path) for path in parts)
    rows = []
    for line in itertools.islice(lines, max_lines or None):
        source, target = line.rstrip(b"\n").split(b"\t")
        rows.append((source, target))
    return rows


def damage_rows(rows: list[Row], rng: random.Random) -> dict[str, list[int]]:
    """Damage rows in place; their indices by kind of damage."""
    free = set(range(1, len(rows) - 1))
    percent = len(rows) // 100
    planted: dict[str, list[int]] = {"run shifted by one": []}
    while len(planted["run shifted by one"]) < percent:
        start = rng.randrange(1, len(rows) - 60)
        run = list(range(start, start + rng.randint(5, 50)))
        if free.issuperset(run):
            targets = [rows[number][1] for number in run]
            for number, target in zip(run, targets[1:] + targets[:1]):
                rows[number] = (rows[number][0], target)
            planted["run shifted by one"] += run
            free -= {run[0] - 1, *run, run[-1] + 1}
    before = list(rows)

    def text(number: int) -> str:
        return before[number][1].decode()

    ways: dict[str, tuple[int, Callable[[int], Row]]] = {
        "neighbour's target": (percent, lambda n: (before[n][0], before[n + 1][1])),
        "swapped": (percent, lambda n: before[n][::-1]),
        "Greek letters": (percent, lambda n: (before[n][0], text(n).translate(GREEK).encode())),
        "third language": (percent, lambda n: (before[n][0], rng.choice(FOREIGN_LINES).encode())),
        "target empty": (percent // 10, lambda n: (before[n][0], b"")),
        "source copied": (percent // 10, lambda n: (before[n][0], before[n][0])),
        "NUL": (percent // 10, lambda n: (before[n][0], before[n][1] + b"\0")),
        "Latin-1": (percent // 10, lambda n: (before[n][0], "Überprüfung ".encode("latin-1") + before[n][1])),
        "twice as UTF-8": (
            percent // 10, lambda n: (before[n][0], ("Über " + text(n)).encode().decode("latin-1").encode()),
        ),
        "cut to a fifth": (percent // 10, lambda n: (before[n][0], text(n)[: 1 + len(text(n)) // 5].encode())),
    }  # fmt: skip
    for name, (count, spoil) in ways.items():
        planted[name] = rng.sample(sorted(free), count)
        free -= set(planted[name])
        for number in planted[name]:
            rows[number] = spoil(number)
    untouched = sorted(free)
    planted["duplicated"] = sorted(rng.sample(untouched[1:], percent))
    for number in planted["duplicated"]:
        free.discard(number)
    originals = sorted(free)
    for number in planted["duplicated"]:
        rows[number] = rows[originals[rng.randrange(bisect.bisect(originals, number))]]
    return planted


def expected_fault(name: str) -> str:
    """The fault that this kind of damage should be found as."""
    return {
        "swapped": "swapped", "Greek letters": "script", "third language": "language", "duplicated": "duplicate",
        "target empty": "empty", "source copied": "copy", "NUL": "control", "Latin-1": "encoding",
        "twice as UTF-8": "encoding", "cut to a fifth": "ratio",
    }.get(name, "misaligned")  # fmt: skip


def print_tables(rows: list[Row], planted: dict[str, list[int]], folder: Path, examples: int) -> None:
    path = folder / "damaged.en-de.tsv"
    path.write_bytes(b"".join(source + b"\t" + target + b"\n" for source, target in rows))
    began = time.time()
    report = check([ParallelFiles(str(path))], CheckSettings(source_language="en", target_language="de"))
    seconds = time.time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{len(rows):,} pairs in {seconds:.0f} s, at most {memory:.1f} GB in the main process\n")
    print("| damage | lines | found as meant | found at all |\n|---|---|---|---|")
    for name, numbers in planted.items():
        faults = report.faults[numbers]
        meant = np.count_nonzero(faults & FAULT_BITS[expected_fault(name)])
        print(
            f"| {name} | {len(numbers):,} | {meant:,} ({meant / len(numbers):.1%}) | "
            f"{np.count_nonzero(faults):,} ({np.count_nonzero(faults) / len(numbers):.1%}) |"
        )
    untouched = np.ones(len(rows), np.bool_)
    untouched[[number for numbers in planted.values() for number in numbers]] = False
    print("\n| finding | among untouched lines | share of them |\n|---|---|---|")
    for kind in FAULT_KINDS:
        false = np.flatnonzero(untouched & ((report.faults & FAULT_BITS[kind.name]) != 0))
        print(f"| {kind.title} | {len(false):,} | {len(false) / untouched.sum():.3%} |")
        for number in false[:: max(1, len(false) // examples)][:examples] if examples else ():
            print("", *(side.decode(errors="replace") for side in rows[number]), sep="\n    ")


def measure_line_shifts(rows: list[Row], folder: Path, rng: random.Random) -> Iterator[int]:
    """The distance between the missing line and where the check places it."""
    for _ in range(40):
        first = rng.randrange(len(rows) - 5000)
        gone = rng.randrange(500, 4500)
        sides = [[row[side] for row in rows[first : first + 5000]] for side in (0, 1)]
        del sides[1][gone]
        for name, lines in zip(("en", "de"), sides):
            (folder / f"cut.{name}").write_bytes(b"".join(line + b"\n" for line in lines))
        try:
            read_first_pass([ParallelFiles(str(folder / "cut.en"), str(folder / "cut.de"))])
        except LineCountError as error:
            yield abs(error.shift.line - gone) if error.shift else 5000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("HEADWAY_DATA"), required="HEADWAY_DATA" not in os.environ
    )
    parser.add_argument("--lines", type=int, default=0, help="0: all")
    parser.add_argument("--show", type=int, default=0, help="clean lines to print for each fault")
    options = parser.parse_args()
    rows = read_rows(Path(options.data), options.lines)
    with tempfile.TemporaryDirectory() as name:
        distances = list(measure_line_shifts(rows, Path(name), random.Random(1)))
        print_tables(rows, damage_rows(rows, random.Random(0)), Path(name), options.show)
    near = [sum(distance <= limit for distance in distances) for limit in (0, 1, 3)]
    print(f"\na missing line, {len(distances)} times: {near[0]} exact, {near[1]} within 1 line, {near[2]} within 3; "
          f"furthest {max(distances)}, median {statistics.median(distances):g}")  # fmt: skip


if __name__ == "__main__":
    main()
