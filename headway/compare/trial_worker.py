"""One trial in a process of its own: python -m headway.compare.trial_worker FOLDER DEVICE THREADS [lengths]

Trains (or resumes) the model that FOLDER/trial.json describes in FOLDER/model, measures it, and writes result.json, or
failure.json with the reason. `lengths` measures time and memory by length instead, into lengths.json, in a fresh
process: the peak of its memory then is that of the longest text."""

import fcntl
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch

from headway.compare.answers import measure_answers
from headway.compare.measurements import (
    decoded_tokens_per_second,
    loss_by_length,
    measure_lengths,
    model_bytes,
    piece_losses,
    state_bytes,
)
from headway.compare.probes import run_probe
from headway.compare.trials import FAILURE_FILE, LENGTHS_FILE, RESULT_FILE, TRIAL_FILE
from headway.config.config import Config, read_config
from headway.config.objective_kinds import reads_pairs
from headway.config.own_kinds import reading_stored
from headway.device import choose_device
from headway.errors import HeadwayError
from headway.files.atomic import write_text_atomically
from headway.files.text_files import read_pairs
from headway.nn.transformer import Transformer
from headway.storage.model_dir import load_model
from headway.text.tokenizer.pair import Tokenizers
from headway.train.history import read_history
from headway.train.lm_dataset import encode_text_file
from headway.train.progress import ProgressSnapshot, SilentProgress, peak_memory
from headway.train.result import TrainingResult
from headway.train.run import TrainingRun
from headway.train.sources import TrainingFiles, TrainingTexts, read_texts
from headway.train.validation import ValidationResult
from headway.translate.options import TranslateOptions
from headway.translate.translator import load_translator
from headway.workflows.evaluation import evaluate

PROGRESS_FILE = "progress.json"
HYPOTHESES_FILE = "hypotheses.txt"
REFERENCES_FILE = "references.txt"
MAX_TEST_LINES = 1000  # of validation text, where no test text was given
PROGRESS_SECONDS = 1.0
LENGTHS_LOCK = "lengths.lock"


class ProgressFile(SilentProgress):
    """Tells the study how far the trial is, as a `ProgressListener` of training."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.written = 0.0

    def on_note(self, message: str) -> None:
        print(message, flush=True)

    def wants_update(self) -> bool:
        return time.monotonic() - self.written > PROGRESS_SECONDS

    def on_step(self, snapshot: ProgressSnapshot) -> None:
        self.written = time.monotonic()
        write_text_atomically(self.path, json.dumps({"done": snapshot.done, "loss": snapshot.loss}))

    def on_validation(self, step: int, result: ValidationResult, best: bool) -> None:
        print(f"step={step} valid_loss={result.loss:.4f}", flush=True)


def read_trial_config(table: dict[str, Any]) -> Config:
    """Of a file, which may be anybody's: the runner says which packages its study names."""
    with reading_stored():
        return read_config(table["config"])


def run_trial(folder: Path, device: str) -> dict[str, Any]:
    table = json.loads((folder / TRIAL_FILE).read_text(encoding="utf-8"))
    config = read_trial_config(table)
    if table["untrained"]:
        return measure_size(Transformer(config.model).to(choose_device(device)).eval())
    tokenizers = Tokenizers.load(table["tokenizer"])
    texts = read_texts(training_files(table["files"]))
    listener = ProgressFile(folder / PROGRESS_FILE)
    model_dir = folder / "model"
    training = TrainingRun(config, texts, tokenizers, model_dir, choose_device(device), listener)
    result = training.run()
    memory = peak_memory(training.device)
    model = load_model(result.folder).model.to(training.device).eval()  # the trainer still has the last step's weights
    found = {
        **measure_size(model),
        "loss": result.result.loss,
        "perplexity": result.result.perplexity,
        "steps": result.step,
        "seconds": result.seconds,
        "peak_memory": memory,
        "train_tokens_per_second": train_speed(model_dir),
        "curve": learning_curve(model_dir),
        "pieces": piece_losses(model, training.valid_dataset, config, training.special_tokens),
    }
    if texts.valid_text is not None and (table["test_lengths"] or table["probes"]):
        stream = encode_text_file(texts.valid_text, tokenizers.target)
        special = training.special_tokens
        found["loss_by_length"] = loss_by_length(model, stream, table["test_lengths"], config, special)
        for name in table["probes"]:
            try:
                rows = run_probe(name, model, stream, config, special)
            except HeadwayError as error:  # a probe of something that this variant has not
                rows = [{"refused": str(error)}]
            found.setdefault("probes", {})[name] = rows
    if table["answers"]:
        found |= answer_scores(model, tokenizers, table["answers"])
    return found | measure_quality(folder, config, texts, table["test"], result, model, device)


def measure_size(model: Transformer) -> dict[str, Any]:
    has_decoder = "decoder" in model.config.sides
    return {
        "parameters": model.config.parameter_count(),
        "model_bytes": model_bytes(model),
        "state_bytes_per_token": model.config.kv_bytes_per_token() if has_decoder else None,
        "state_bytes": state_bytes(model),
        "decode_tokens_per_second": decoded_tokens_per_second(model) if has_decoder else None,
    }


def measure_quality(
    folder: Path,
    config: Config,
    texts: TrainingTexts,
    test: list[str],
    result: TrainingResult,
    model: Transformer,
    device: str,
) -> dict[str, Any]:
    """BLEU and chrF on the test text, and the speed of decoding it, with the model's own search."""
    if not reads_pairs(config.train.objective.kind):
        return {}
    if test:
        pairs = list(read_pairs(*test))
    else:
        pairs = [pair for corpus in texts.valid_pairs[:1] for pair in corpus.read()][:MAX_TEST_LINES]
    source, target = [list(side) for side in zip(*pairs)]
    valid = texts.valid_pairs[0]
    target_language = valid.target_language if config.tags else ""
    options = TranslateOptions(source=valid.source_language, target=target_language, retry=False, protect=None)
    translator = load_translator(result.folder, device=device, engine="torch")
    measured = evaluate(translator, source, target, options)
    write_text_atomically(folder / HYPOTHESES_FILE, "".join(f"{line}\n" for line in measured.hypotheses))
    write_text_atomically(folder / REFERENCES_FILE, "".join(f"{line}\n" for line in target))
    return {
        "bleu": measured.scores.bleu,
        "chrf": measured.scores.chrf,
        "bleu_signature": measured.scores.bleu_signature,
        "decode_tokens_per_second": measured.tokens_per_second,
    }


def answer_scores(model: Transformer, tokenizers: Tokenizers, paths: list[str]) -> dict[str, Any]:
    """The share of exact answers in each file, and the mean of them."""
    found: list[dict[str, Any]] = []
    for path in map(Path, paths):
        try:
            score = measure_answers(model, tokenizers.target, path)
            found.append({"test": score.test, "exact": score.exact, "tokens": score.tokens})
        except HeadwayError as error:  # a model with a limit, such as learned positions
            found.append({"test": path.stem, "refused": str(error)})
    exact = [entry["exact"] for entry in found if "exact" in entry]
    return {"answers": found, "accuracy": mean(exact) if exact else None}


def train_speed(model_dir: Path) -> float | None:
    """The median of what the run logged: a busy moment or a first, slow step does not count."""
    speeds = [entry["tokens_per_second"] for entry in read_history(model_dir) if "tokens_per_second" in entry]
    return median(speeds) if speeds else None


def learning_curve(model_dir: Path) -> list[dict[str, float]]:
    names = ("step", "seconds", "loss", "bleu")
    return [
        {name: entry[name] for name in names if name in entry}
        for entry in read_history(model_dir)
        if entry["kind"] == "validation"
    ]


def run_lengths(folder: Path, device: str) -> dict[str, Any]:
    """One trial of a study at a time: what runs beside a measurement changes it."""
    table = json.loads((folder / TRIAL_FILE).read_text(encoding="utf-8"))
    model = Transformer(read_trial_config(table).model).to(choose_device(device)).train()
    with (folder.parent / LENGTHS_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return {"lengths": table["lengths"], "points": measure_lengths(model, table["lengths"])}


def training_files(table: dict[str, Any]) -> TrainingFiles:
    columns = table.get("columns")
    return TrainingFiles(**{**table, "columns": tuple(columns) if columns else None})


def write_failure(folder: Path, reason: str) -> None:
    write_text_atomically(folder / FAILURE_FILE, json.dumps({"reason": reason}, ensure_ascii=False) + "\n")


def end_with_parent() -> None:
    """A study that was killed leaves no trial behind: this process saves and ends, too."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()


def main(arguments: list[str]) -> int:
    folder, device = Path(arguments[0]), arguments[1]
    torch.set_num_threads(int(arguments[2]))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job has it ignored
    end_with_parent()
    try:
        if arguments[3:] == ["lengths"]:
            write_text_atomically(folder / LENGTHS_FILE, json.dumps(run_lengths(folder, device)) + "\n")
        else:
            write_text_atomically(folder / RESULT_FILE, json.dumps(run_trial(folder, device)) + "\n")
    except (HeadwayError, torch.OutOfMemoryError, MemoryError) as error:
        write_failure(folder, str(error) or "memory is exhausted")
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, SystemExit):
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
