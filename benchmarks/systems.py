"""Architecture variants on one task with one budget: a character-level language model, with the same steps for each.

    python benchmarks/systems.py --text tinyshakespeare.txt --work DIR [--steps 600] [--seeds 1] [--only NAME ...]

Trains each with the command line, from the preset tiny_lm (4 layers, d 128, pre-norm, rope; chunks of 128 characters,
4,096 per step), and prints the loss on held-out text in nats per character, the parameters, and the size of all caches
after 1,000 characters. At the end of a run the table is appended to benchmarks/RESULTS.md, which holds no such table
yet. Models that exist in --work are not trained again.
"""

import argparse
import datetime
import json
import statistics
import subprocess
import sys
from pathlib import Path

import torch

from headway.storage.model_dir import load_model

RESULTS = Path(__file__).parent / "RESULTS.md"
YOCO_MASKS = "['causal & local(64)', 'causal & local(64)', 'causal', 'causal']"
SYSTEMS: dict[str, dict[str, str]] = {
    "attention, rope, pre": {},
    "T5 bias": {"model.decoder.position": "t5"},
    "Shaw": {"model.decoder.position": "shaw(16)"},
    "xl positions, no memory": {"model.decoder.position": "transformer_xl"},
    "Transformer-XL, memory of 128": {
        "model.decoder.position": "transformer_xl",
        "model.decoder.mask": "causal & segments(128, 128)",
        "train.objective": "causal(carry=true)",
    },
    "local(32)": {"model.decoder.mask": "causal & local(32)"},
    "local(32) and strided(16) in turn": {
        "model.decoder.mask": "['causal & local(32)', 'causal & (strided(16) | local(1))']"
    },
    "bigbird(8)": {"model.decoder.mask": "causal & bigbird(8, random=2, max_positions=128)"},
    "retention": {"model.decoder.mixer": "retention(4)", "model.decoder.feedforward": "gelu(256)"},
    "gated retention": {"model.decoder.mixer": "retention(4, gated=true)", "model.decoder.feedforward": "gelu(256)"},
    "post": {"model.decoder.residual": "post"},
    "ResiDual": {"model.decoder.residual": "residual_dual"},
    "DeepNorm": {"model.decoder.residual": "deepnorm"},
    "experts, 2 of 8": {"model.decoder.feedforward": "moe(8, 2, expert='gelu(256)')"},
    "as wide as 2 experts": {"model.decoder.feedforward": "gelu(512)"},
    "BitNet b1.58": {"model.linear": "bitnet"},
    "YOCO, windows of 64 below": {
        "model.decoder.mixer": "['attention(4)', 'attention(4)', 'shared_kv(4)', 'shared_kv(4)']",
        "model.decoder.mask": YOCO_MASKS,
    },
}


def train_system(name: str, text: Path, work: Path, steps: int, seed: int) -> Path:
    out = work / f"{name.replace(' ', '_').replace(',', '')}-{steps}-{seed}"
    if not (out / "done").exists():
        given = {**SYSTEMS[name], "train.steps": str(steps), "train.seed": str(seed), "tokenizer": "characters"}
        given |= {"train.validate_every": str(max(steps // 6, 1)), "train.compile": "off"}
        command = [sys.executable, "-m", "headway", "train", "--text", str(text), "--preset", "tiny_lm"]
        command += [part for key, value in given.items() for part in ("--set", f"{key}={value}")]
        subprocess.run([*command, "--out", str(out), "--quiet"], check=True)
        (out / "done").touch()
    return out


@torch.no_grad()
def cache_bytes(folder: Path) -> int:
    model = load_model(folder).model.eval()
    state = model.new_state(1)
    for _ in range(8):
        model.decode(torch.zeros(1, 125, dtype=torch.long), state=state)
    return state.bytes


def format_row(name: str, folders: list[Path]) -> str:
    losses = []
    for folder in folders:
        events = [json.loads(line) for line in (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()]
        losses.append(events[-1]["loss"])
    parameters = load_model(folders[0]).config.model.parameter_count()
    spread = f" ± {statistics.stdev(losses):.3f}" if len(losses) > 1 else ""
    return f"| {name} | {statistics.mean(losses):.3f}{spread} | {parameters:,} | {cache_bytes(folders[0]):,} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=list(SYSTEMS))
    given = parser.parse_args()
    lines = ["| system | loss, nats a character | parameters | bytes kept of 1,000 characters |", "|---|---|---|---|"]
    for name in given.only:
        folders = [train_system(name, given.text, given.work, given.steps, seed) for seed in range(1, given.seeds + 1)]
        lines.append(format_row(name, folders))
        print(lines[-1], flush=True)
    head = f"## Systems on one task ({datetime.date.today()})"
    facts = f"torch {torch.__version__}; {given.text.name}, {given.steps} steps, {given.seeds} seed(s)."
    command = f"```\npython benchmarks/systems.py --text {given.text.name} --work DIR --steps {given.steps}\n```"
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write("\n" + "\n\n".join([head, facts, command, "\n".join(lines)]) + "\n")


if __name__ == "__main__":
    main()
