"""Whether the CUDA search gives the outputs of the reference search: identical lines, and the BLEU of both.

    python benchmarks/same_text.py --model DIR --source test.en --target test.de [--results FILE]

A trained model and real text, greedy and with the model's own beam, in float32 and, on a GPU, in bfloat16. "scores":
the largest difference between the scores of identical lines. Required: every line in float32; 99 % of the lines and
0.1 BLEU in bfloat16. Rows "smaller batches" compare the reference search with itself: the effect of batch shapes on
rounding.
"""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Literal

import torch
from report import Table, append_section, versions, wrap_text
from sacrebleu import corpus_bleu

from headway.decode import Hypothesis, Search, decode
from headway.decode.padding import pad_rows
from headway.decode.reference.model import ModelStepper
from headway.device import choose_device
from headway.files.text_files import read_lines
from headway.storage.model_dir import LoadedModel, load_model
from headway.text.tokenizer.special_tokens import special_tokens

BATCHES = (256, 64)  # lines, in order of length
COLUMNS = ["same", "all beams", "scores", "BLEU plain", "BLEU", "words out"]
Outputs = list[list[Hypothesis]]


def search_all(
    stepper: ModelStepper,
    loaded: LoadedModel,
    lines: list[str],
    search: Search,
    engine: Literal["reference", "cuda"],
    size: int,
) -> Outputs:
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    rows = [source.encode(line) for line in lines]
    order = sorted(range(len(rows)), key=lambda line: len(rows[line]))
    found: Outputs = [[] for _ in rows]
    for first in range(0, len(order), size):
        batch = order[first : first + size]
        ids, valid = pad_rows([rows[line] for line in batch], source.pad, stepper.device)
        for line, hypotheses in zip(
            batch, decode(stepper, ids, valid, special_tokens=special_tokens(target), search=search, search_kind=engine)
        ):
            found[line] = hypotheses
    return found


def make_row(
    plain: Outputs, other: Outputs, loaded: LoadedModel, references: list[str], exact: bool
) -> tuple[list[str], bool]:
    """A row of the table, and whether it is good enough."""
    same = [a[0].ids == b[0].ids for a, b in zip(plain, other)]
    every = sum([h.ids for h in a] == [h.ids for h in b] for a, b in zip(plain, other))
    apart = max((abs(a[0].score - b[0].score) for a, b, equal in zip(plain, other, same) if equal), default=0.0)
    texts = [[loaded.tokenizers.target.decode(line[0].ids) for line in found] for found in (plain, other)]
    bleu = [corpus_bleu(lines, [references]).score for lines in texts]
    share, lengths = sum(same) / len(same), [len(line[0].ids) for line in other]
    good = share == 1 if exact else share >= 0.99 and abs(bleu[0] - bleu[1]) <= 0.1
    cells = [f"{share:.1%}", f"{every / len(same):.1%}", f"{apart:.1e}", f"{bleu[0]:.2f}", f"{bleu[1]:.2f}"]
    return [*cells, f"{min(lengths)}-{max(lengths)}"], good


@torch.no_grad()
def compare(loaded: LoadedModel, dtype: torch.dtype, beam: int, sides: list[list[str]], table: Table) -> bool:
    """Add two rows; whether the CUDA search is good enough."""
    stepper = ModelStepper(loaded.model.to(dtype).eval())
    search = dataclasses.replace(loaded.config.search, beam_size=beam, n_best=beam)
    many, few = BATCHES
    plain = search_all(stepper, loaded, sides[0], search, "reference", many)
    cuda = search_all(stepper, loaded, sides[0], search, "cuda", many)
    again = search_all(stepper, loaded, sides[0], search, "reference", few)
    name, exact = f"{str(dtype)[6:]}, {'greedy' if beam == 1 else f'beam {beam}'}", dtype == torch.float32
    cells, good = make_row(plain, cuda, loaded, sides[1], exact)
    table.add(name, cells)
    table.add(f"{name}, smaller batches", make_row(plain, again, loaded, sides[1], exact)[0])
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a trained model directory")
    parser.add_argument("--source", type=Path, required=True, help="sentences to translate, one a line")
    parser.add_argument("--target", type=Path, required=True, help="their translations")
    parser.add_argument("--lines", type=int, help="only the first ones")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--results", type=Path, help="a Markdown file to append to")
    given = parser.parse_args()
    device = choose_device(given.device)
    loaded = load_model(given.model, device)
    sides = [list(read_lines(str(path)))[: given.lines] for path in (given.source, given.target)]
    table, wanted = Table(f"{len(sides[0]):,} lines", COLUMNS), True
    for dtype in (torch.float32, torch.bfloat16) if device.type == "cuda" else (torch.float32,):
        for beam in (1, loaded.config.search.beam_size):
            wanted &= compare(loaded, dtype, beam, sides, table)
    where = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    facts = f"{where}, {versions()}."
    print(wrap_text(facts), table.format_text(), sep="\n")
    if given.results:
        append_section(given.results, "Recorded steps against the reference search", facts, [table])
    return 0 if wanted else 1


if __name__ == "__main__":
    sys.exit(main())
