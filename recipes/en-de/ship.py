"""Step 7: the model as the package ships it, in int8, with its shortlist, calibration and model card.

    python recipes/en-de/ship.py --data DATA --work WORK --model WORK/student-int8 --name student \\
        --out headway/models/en-de

The shortlist is made from the model's training text, the calibration from held-out text. The card is card.md in this
folder, with the scores that measure.py stored in WORK/scores.json for NAME and all others, and with the model's own
translation of each {de: sentence} in it. --card-only writes nothing else.
"""

import argparse
import json
import re
import shutil
from itertools import islice
from pathlib import Path

from measure import ScoreStore, fault_table, score_table
from recipe import HERE, TARGETS, Corpus, corpora, headway, rows
from train import unpack

EXAMPLE = re.compile(r"\{(de|en): ([^}]*)\}")
FILES = ("config.json", "model.safetensors", "tokenizer.json")
CALIBRATION_TESTS = ("newstest2012", "europarl.valid", "tatoeba")  # news, parliament, everyday
CARD_TESTS = ("newstest2015", "europarl.test", "tatoeba.valid", "multi30k")  # scores that `headway models` shows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--corpora", type=Path, default=HERE / "corpora.toml")
    parser.add_argument("--model", type=Path, required=True, help="what `headway pack --int8` wrote")
    parser.add_argument("--name", required=True, help="its name in scores.json")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pictures", type=Path, help="where the reliability curves go")
    parser.add_argument("--card-only", action="store_true")
    given = parser.parse_args()
    if not given.card_only:
        fill_folder(given)
    (given.out / "README.md").write_text(make_card(given), encoding="utf-8")


def fill_folder(given: argparse.Namespace) -> None:
    """Everything but the card."""
    given.out.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(given.model / name, given.out / name)
    all_corpora = corpora(given.corpora)
    unpack(given.work, all_corpora)
    words: list[object] = []
    for to, way in TARGETS.items():
        path = given.work / f"shortlist.{way}.tsv"
        write_rows(path, [row if to == "de" else row[::-1] for row in read_sample(given.work, all_corpora)])
        words += ["--pairs", path, "--to", to]
    headway("shortlist", "--model", given.out, *words)
    for to, way in TARGETS.items():
        held = [row for name in CALIBRATION_TESTS for row in rows(given.work / "text" / "held" / f"{name}.{way}.tsv")]
        sides = [given.work / f"calibrated.{way}.{side}" for side in ("source", "target")]
        for path, side in zip(sides, zip(*held)):
            path.write_text("".join(f"{line}\n" for line in side), encoding="utf-8")
        more = ["--png", given.pictures / f"calibration-{way}.png"] if given.pictures else []
        headway("calibrate", "--model", given.out, "--to", to, "--source", sides[0], "--target", sides[1], *more)


def read_sample(work: Path, all_corpora: list[Corpus]) -> list[list[str]]:
    """The first piece of each corpus, at most as long as one of Europarl."""
    paths = [work / "text" / "clean" / f"{corpus.parts[0]}.en-de.tsv" for corpus in all_corpora]
    return [row for path in paths for row in islice(rows(path), 150_000)]


def write_rows(path: Path, table: list[list[str]]) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in table), encoding="utf-8")


def make_card(given: argparse.Namespace) -> str:
    """The model card, with front matter."""
    store = ScoreStore(given.work / "scores.json", anew=False)
    names = list(dict.fromkeys(key.split(" | ")[0] for key in store.found))
    given.tests, given.first, given.faults = ",".join(("newstest2013", *CARD_TESTS)), None, 10_000
    tables = [*(score_table(names, given, store, to) for to in TARGETS), fault_table(names, given, store)]
    head = ["---", "license: apache-2.0", "language:", "- en", "- de", "scores:"]
    for to, way in TARGETS.items():
        for test in CARD_TESTS:
            found = store.found.get(f"{given.name} | {test} | {to} | all")
            head += [f"  {test} {way}: {found['bleu']:.1f} BLEU, {found['chrf']:.1f} chrF"] if found else []
    size = sum(path.stat().st_size for path in given.out.iterdir() if path.name != "README.md") / 1e6
    config = json.loads((given.out / "config.json").read_text(encoding="utf-8"))["model"]
    text = (HERE / "card.md").read_text(encoding="utf-8")
    shape = f"{config['encoder']['layers']} + {config['decoder']['layers']} layers of {config['d_model']}"
    values = {"scores": "\n\n".join(part for part in tables if part), "size": f"{size:.1f} MB", "shape": shape}
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return "\n".join([*head, "---", "", fill_examples(text, given.out)])


def fill_examples(text: str, model: Path) -> str:
    """Fill in the model's own translations."""
    from headway.translate.translator import load_translator

    translator = load_translator(model, device="cpu")
    return EXAMPLE.sub(lambda found: f"`{found[2]}` → *{translator(found[2], target=found[1])}*", text)


if __name__ == "__main__":
    main()
