"""Steps 2, 4 and 6: train the teacher, the student and the control without a teacher, and fine-tune.

    python recipes/en-de/train.py teacher --work WORK --for 14m
    python recipes/en-de/train.py student --work WORK --for 20m       # on distil.py's output; --to de: one direction
    python recipes/en-de/train.py student --work WORK --for 7m --start headway/models/en-de    # from existing weights
    python recipes/en-de/train.py control --work WORK --for 20m       # the same config, on the original text
    python recipes/en-de/train.py manual --work WORK --for 2m         # the student, adapted to the manual pages
    python recipes/en-de/train.py manual-mixed --work WORK --for 2m   # the same, with some of the old text

The model is written to WORK/NAME, the log to the screen and to WORK/NAME/history.jsonl; the same command resumes from
the last checkpoint. Everything after -- is passed to `headway train`: -- --set train.batch_tokens=32768
"""

import argparse
import lzma
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from recipe import HERE, PLACED, TARGETS, Corpus, corpora, headway, rows

ROLES = {"teacher": "teacher", "student": "student", "control": "student", "manual": "", "manual-mixed": ""}
NOISE_SHARE = 0.15  # of pairs with noise, for models that people use; the teacher translates a corpus
FINE_TUNING_SCHEDULE = "cosine(0.001, warmup=500)"  # half a student's rate, for pretrained weights
REPLAY_SHARE = 0.02  # of the old text, about as many tokens as the manual pages


class Text(NamedTuple):
    """A file and its direction of training."""

    path: Path
    to: str
    weight: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=ROLES)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--corpora", type=Path, default=HERE / "corpora.toml")
    parser.add_argument("--config", type=Path, help="default: by the role, from this folder")
    parser.add_argument("--for", dest="time", required=True, help="90s, 20m …")
    parser.add_argument("--to", choices=TARGETS, help="only this direction")
    parser.add_argument("--name", help="of the folder; default: the role, and its direction")
    parser.add_argument("--tokenizer", default="", help="16k or 8k; default: by the role")
    parser.add_argument("--start", help="a model whose weights and tokenizer to start from")
    parser.add_argument("--student", default="student", help="the model to adapt to the manual pages")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given, more = parser.parse_args(sys.argv[1:end]), sys.argv[end + 1 :]
    if given.start and (given.tokenizer or not ROLES[given.role]):
        parser.error("--start brings its tokenizer along, and is for a teacher, a student or a control")
    all_corpora = corpora(given.corpora)
    name = given.name or given.role + (f"-{given.to}" if given.to else "")
    unpack(given.work, all_corpora)
    texts = [text for text in texts_for(given.role, given.work, all_corpora) if given.to in (None, text.to)]
    words = [word for text in texts for word in pair_options(text)]
    words += [word for text in validation_texts(given) for word in ("--valid-pairs", text.path)]
    if ROLES[given.role]:
        size = given.tokenizer or ("16k" if given.role == "teacher" else "8k")
        words += ["--noise", NOISE_SHARE * (given.role != "teacher")]
        words += ["--config", given.config or HERE / f"{ROLES[given.role]}.toml"]
        if given.start:
            words += ["--from-model", given.start, "--set", f"train.schedule={FINE_TUNING_SCHEDULE}"]
        else:
            words += ["--tokenizer", given.work / f"tokenizer-{size}.json", "--preset", "base"]
    else:
        words += ["--from-model", given.work / given.student]
        words += ["--set", "train.schedule=inverse_sqrt(0.0002, warmup=100)", "--set", "train.validate_every=200"]
    headway("train", *words, "--for", given.time, "--out", given.work / name, *more)


def texts_for(role: str, work: Path, all_corpora: list[Corpus]) -> list[Text]:
    """The original text in both directions; or the teacher's translations, and the original dictionary."""
    plain, taught = work / "text" / "clean", work / "text" / "taught"
    placed = [Text(plain / f"{PLACED}.1.{way}.tsv", to, 1) for to, way in TARGETS.items() if role != "teacher"]
    if role in ("teacher", "control"):
        texts = [Text(plain / f"{p}.en-de.tsv", to, c.weight) for c in all_corpora for p in c.parts for to in TARGETS]
        return texts + placed
    found = []
    for corpus in all_corpora:
        for to, direction in TARGETS.items():
            files = [taught / f"{part}.{direction}.tsv" for part in corpus.parts[: corpus.taught]]
            files = [path for path in files if path.exists() and path.stat().st_size] or [
                plain / f"{p}.en-de.tsv" for p in corpus.parts
            ]
            found += [Text(path, to, corpus.weight) for path in files]
    found += placed
    if role == "manual":
        found = []
    if role.startswith("manual"):
        found = [text._replace(weight=REPLAY_SHARE * text.weight) for text in found if "manpages" not in text.path.name]
        found += [Text(plain / "manpages.1.en-de.tsv", to, 1) for to in TARGETS]
    return found


def pair_options(text: Text) -> list[object]:
    """As options: files named en-de are read in reverse if --from and --to say so."""
    source, target = ("en", "de") if text.to == "de" else ("de", "en")
    return ["--pairs", text.path, "--from", source, "--to", target, "--weight", text.weight]


def validation_texts(given: argparse.Namespace) -> list[Text]:
    """News, parliament and everyday language, in the directions of training; file names say which."""
    names = ["manpages"] if given.role.startswith("manual") else ["newstest2012", "europarl.valid", "tatoeba"]
    found = []
    for to, direction in TARGETS.items():
        if given.to in (None, to):
            found += [Text(given.work / "text" / "held" / f"{name}.{direction}.tsv", to, 1) for name in names]
    return found


def unpack(work: Path, all_corpora: list[Corpus]) -> None:
    """Decompress text that is read several times: cleaned, held out, and the teacher's translations."""
    jobs: list[tuple[Path, Path | None, str, Path]] = []
    for corpus in all_corpora:
        for part in corpus.parts:
            clean = work / "clean" / f"{part}.en-de.tsv.xz"
            jobs.append((clean, None, "", work / "text" / "clean" / f"{part}.en-de.tsv"))
            for to, direction in TARGETS.items():
                translations = work / "distilled" / f"{part}.{to}.xz"
                if translations.exists():
                    jobs.append((clean, translations, to, work / "text" / "taught" / f"{part}.{direction}.tsv"))
    for way in TARGETS.values():
        name = f"{PLACED}.1.{way}.tsv"
        jobs.append((work / "clean" / f"{name}.xz", None, "", work / "text" / "clean" / name))
    for path in sorted((work / "held").glob("*.en-de.tsv")):
        stem = path.name.removesuffix(".en-de.tsv")
        jobs += [(path, None, to, work / "text" / "held" / f"{stem}.{way}.tsv") for to, way in TARGETS.items()]
    with ThreadPoolExecutor() as pool:  # unpacking does not hold Python's lock
        list(pool.map(lambda job: unpack_one(*job), [job for job in jobs if is_stale(job)]))


def is_stale(job: tuple[Path, Path | None, str, Path]) -> bool:
    """Whether it has changed since it was decompressed."""
    clean, translations, _, out = job
    return not out.exists() or out.stat().st_mtime < max(path.stat().st_mtime for path in (clean, translations) if path)


def unpack_one(clean: Path, translations: Path | None, to: str, out: Path) -> None:
    """Source and target in their order; the teacher's translation instead of the target, where it is not blank."""
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.{os.getpid()}")  # another step may unpack the same at this moment
    if clean.suffix == ".xz" and not translations:
        partial.write_bytes(lzma.decompress(clean.read_bytes()))
        partial.replace(out)
        return
    table = (row[::-1] if to == "en" else row for row in rows(clean))
    if translations:
        table = ([row[0], line[0]] for row, line in zip(table, rows(translations), strict=True) if line[0])
    with partial.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines("\t".join(row) + "\n" for row in table)
    partial.replace(out)


if __name__ == "__main__":
    main()
