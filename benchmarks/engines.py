"""The contestants of benchmarks/translate_cpu.py: CTranslate2 and Hugging Face with Headway's weights, and Headway.

Each takes lines and returns lines, with the same tokenizer, in the way that suits it best: CTranslate2 sorts and
batches by itself, Hugging Face is given batches of sentences of similar length.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from convert import IdTokenizer, make_hugging_face

if TYPE_CHECKING:
    from headway.decode.types import Compute, EngineName

MAX_EXTRA_TOKENS = 50  # of an output, beyond the length of the longest source
ALPHA = 1.0  # of the penalty n^alpha, which all three know


class Engine(Protocol):
    def translate(self, lines: Sequence[str], beam: int, size: int) -> list[str]:
        """`size`: of the batches that all the lines are split into, in what this engine counts; 0: as one batch."""
        ...

    sizes: tuple[int, ...]  # worth trying where everything is given at once


class CTranslate2:
    sizes: tuple[int, ...] = (512, 1024, 2048, 4096, 8192)  # tokens

    def __init__(self, folder: Path, work: Path, compute: str, workers: int, threads: int) -> None:
        import ctranslate2

        self.text, self.workers = IdTokenizer(folder), workers
        self.names = [str(n) for n in range(self.text.target.size)]
        self.suppressed = [[str(n)] for n in self.text.suppressed]
        self.model = ctranslate2.Translator(
            str(work / "ctranslate2"), "cpu", compute_type=compute, inter_threads=workers, intra_threads=threads
        )

    def translate(self, lines: Sequence[str], beam: int, size: int) -> list[str]:
        rows = self.text.encode(lines)
        longest = max(map(len, rows))
        if size:
            split = {"max_batch_size": size, "batch_type": "tokens"}
        else:  # one batch, of which each worker has its share
            split = {"max_batch_size": -(-len(rows) // self.workers), "batch_type": "examples"}
        found = self.model.translate_batch(
            [[self.names[n] for n in row] for row in rows], beam_size=beam, length_penalty=ALPHA, max_input_length=0,
            min_decoding_length=0, max_decoding_length=longest + MAX_EXTRA_TOKENS,
            suppress_sequences=self.suppressed, **split,
        )  # fmt: skip
        return self.text.decode([list(map(int, one.hypotheses[0])) for one in found])


class HuggingFace:
    sizes: tuple[int, ...] = (32, 64, 128)  # sentences

    def __init__(self, folder: Path) -> None:
        self.text, self.model = IdTokenizer(folder), make_hugging_face(folder)

    def translate(self, lines: Sequence[str], beam: int, size: int) -> list[str]:
        rows = self.text.encode(lines)
        order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
        found: list[list[int]] = [[]] * len(rows)
        step = size or len(rows)
        for start in range(0, len(rows), step):
            batch = order[start : start + step]
            for n, ids in zip(batch, self._batch([rows[n] for n in batch], beam)):
                found[n] = ids
        return self.text.decode(found)

    def _batch(self, rows: list[list[int]], beam: int) -> list[list[int]]:
        import torch

        longest, pad = max(map(len, rows)), self.text.source.pad
        ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])
        early = {"early_stopping": True, "length_penalty": ALPHA} if beam > 1 else {}
        with torch.inference_mode():
            found = self.model.generate(
                ids, attention_mask=(ids != pad).long(), num_beams=beam, do_sample=False,
                max_new_tokens=longest + MAX_EXTRA_TOKENS, suppress_tokens=self.text.suppressed, **early,
            ).tolist()  # fmt: skip
        return [row[1:] for row in found]


class Headway:
    """Without sentence splitting and retries, which the others do not have either."""

    sizes: tuple[int, ...] = (0,)  # it chooses by itself

    def __init__(self, folder: Path, threads: int, engine: "EngineName", compute: "Compute") -> None:
        from headway.translate.translator import load_translator

        self.model = load_translator(folder, device="cpu", engine=engine, compute=compute, threads=threads)

    def translate(self, lines: Sequence[str], beam: int, size: int) -> list[str]:
        search = self.model.search(beam_size=beam, penalty="power", alpha=ALPHA)
        from headway.translate.options import TranslateOptions

        options = TranslateOptions(search=search, split_sentences=False, retry=False)
        return [one.text.strip() for one in self.model.translate(lines, options)]


class Reference(Headway):
    """The reference search in float32, with which all others are compared."""

    def translate(self, lines: Sequence[str], beam: int, size: int) -> list[str]:
        from headway.decode import decode
        from headway.decode.padding import pad_rows

        model, text = self.model, self.model.tokenizers
        search = model.search(beam_size=beam, penalty="power", alpha=ALPHA)
        rows = [[*ids, text.source.end] for ids in text.source.encode_batch(lines)]
        order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
        found = [""] * len(rows)
        for start in range(0, len(rows), 64):
            batch = order[start : start + 64]
            ids, valid = pad_rows([rows[n] for n in batch], text.source.pad, model.stepper.device)
            best = decode(
                model.stepper, ids, valid, special_tokens=model.special_tokens, search=search, search_kind="reference"
            )
            for n, hypotheses in zip(batch, best):
                found[n] = text.target.decode(hypotheses[0].ids).strip()
        return found


def make_contestants(threads: int) -> dict[str, Callable[[Path, Path], Engine]]:
    """By name: made from a model directory and a folder with what was converted."""

    def ours(engine: "EngineName", compute: "Compute") -> Callable[[Path, Path], Engine]:
        return lambda model, work: Headway(model, threads, engine, compute)

    computes: tuple[Compute, ...] = ("int8", "float32")
    found: dict[str, Callable[[Path, Path], Engine]] = {
        "reference": lambda model, work: Reference(model, threads, "torch", "float32")
    }
    for compute in computes:
        for workers, inside in ((1, threads), (threads, 1)):
            found[f"ctranslate2 {compute} {workers}x{inside}"] = partial(
                CTranslate2, compute=compute, workers=workers, threads=inside
            )
    found["huggingface"] = lambda model, work: HuggingFace(model)
    for engine in ("torch", "ctranslate2"):
        for compute in computes:
            found[f"headway {engine} {compute}"] = ours(engine, compute)
    if "int8" in computes:
        found["headway native int8"] = ours("native", "int8")
    found["headway auto"] = ours("auto", "auto")
    return found
