"""What a graph reasoner brings on algorithmic problems: answers that are exactly right, on sizes that were trained and
on larger ones, with and without the reasoner, at about equal parameters.

    python benchmarks/algorithmic.py --work WORK                       # two cores: about ten minutes of CPU time
    python benchmarks/algorithmic.py --work WORK --models plain --seeds 2

All six kinds of problems of `headway toy --task algorithms`, in sizes of 2 to 8, the same text for both models. Both
take the same number of steps on the same batches, and have the same width and positions; the plain model has six
layers, the one with the reasoner three. Runs that are done are not repeated: WORK has a JSON file of each."""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

import headway
from headway.data.labelled_files import read_labelled
from headway.data.toy.algorithms import write_problems
from headway.translate.problem_evaluation import evaluate_problems
from headway.translate.solver import Solver

TRAINED_SIZE = 8
TEST_SIZES = (4, 8, 12, 16)
SETTINGS: dict[str, Any] = {
    "train.batch_tokens": 1024, "train.schedule": "cosine(0.003, warmup=50)", "train.validate_every": 500,
    "train.log_every": 250,
}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "reasoner": {},
    "plain": {"model.reasoner": "none", "model.decoder.layers": 6},
}
VALIDATION_PROBLEMS = 120

Results = dict[str, dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--models", choices=MODELS, nargs="+", default=list(MODELS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    data = given.work / "data"
    if not data.exists():
        write_problems(data, "algorithms", TRAINED_SIZE, test_sizes=TEST_SIZES, test_lines=240)
    for seed in given.seeds:
        for name in given.models:
            measure(name, seed, given.steps, given.work)
    print(format_results(read_results(given.work)))


def measure(name: str, seed: int, steps: int, work: Path) -> None:
    path = work / f"{name}-{seed}.json"
    if path.exists():
        return
    rows, valid = (read_lines(work / f"data/{part}.jsonl") for part in ("train", "valid"))
    began = time.process_time()
    trained = headway.train(
        rows,
        work / f"{name}-{seed}",
        valid=valid[:VALIDATION_PROBLEMS],
        task="solve",
        preset="transnar",
        steps=steps,
        seed=seed,
        set={**SETTINGS, **MODELS[name]},
        device="cpu",
    )
    found: dict[str, Any] = {"cpu_seconds": round(time.process_time() - began, 1), "steps": steps}
    solver = trained.model
    assert isinstance(solver, Solver)
    found["parameters"] = sum(parameter.numel() for parameter in solver.model.parameters())
    for size in TEST_SIZES:
        examples = read_labelled([str(work / f"data/test-{size}.jsonl")], "solve").examples
        result = evaluate_problems(solver, examples, samples=0)
        found[str(size)] = {score.name: score.value for score in result.scores}
        for kind in solver.kinds:
            own = [right for example, right in zip(examples, result.right) if example.labels == (kind,)]
            found[str(size)][kind] = sum(own) / len(own)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{name}, seed {seed}: {found}", flush=True)


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_results(work: Path) -> Results:
    """By model and seed."""
    paths = [path for name in MODELS for path in sorted(work.glob(f"{name}-*.json"))]
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def format_results(results: Results) -> str:
    """Two tables: accuracy by size, and of each kind of problem; means and standard deviations over seeds."""
    groups = {name: [own for key, own in results.items() if key.rpartition("-")[0] == name] for name in MODELS}
    groups = {name: runs for name, runs in groups.items() if runs}
    head = " | ".join(f"size {size}" for size in TEST_SIZES)
    lines = [f"| model | parameters | CPU s a run | {head} |", "|---" * (len(TEST_SIZES) + 3) + "|"]
    for name, runs in groups.items():
        cells = [format_share([run[str(size)]["accuracy"] for run in runs]) for size in TEST_SIZES]
        seconds = statistics.mean(run["cpu_seconds"] for run in runs)
        lines.append(f"| {name} | {runs[0]['parameters']:,} | {seconds:.0f} | {' | '.join(cells)} |")
    nodes = [run for runs in groups.values() for run in runs if "node_accuracy" in run[str(TEST_SIZES[0])]]
    if nodes:
        cells = [format_share([run[str(size)]["node_accuracy"] for run in nodes]) for size in TEST_SIZES]
        lines.append(f"| all nodes right | | | {' | '.join(cells)} |")
    lines += ["", f"| problem | model | {head} |", "|---" * (len(TEST_SIZES) + 2) + "|"]
    kinds = [kind for kind in next(iter(results.values()))[str(TEST_SIZES[0])] if not kind.endswith("accuracy")]
    for kind in kinds:
        for name, runs in groups.items():
            cells = [format_share([run[str(size)][kind] for run in runs]) for size in TEST_SIZES]
            lines.append(f"| {kind} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def format_share(values: list[float]) -> str:
    spread = f" ± {100 * statistics.stdev(values):.0f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.0f}{spread}"


if __name__ == "__main__":
    main()
