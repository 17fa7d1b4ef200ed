"""`headway compare`: train variants of an architecture under one budget, and compare them."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import LiveLine, log, print_table, stderr_columns

if TYPE_CHECKING:
    from headway.compare.results import Row
    from headway.compare.study import Study
    from headway.compare.trials import Trial


@click.command(
    "compare",
    cls=Verb,
    examples=[
        ("headway compare study.toml", "a study: text, axes, budget and seeds in one file"),
        ("headway compare study.toml --steps 50 --seeds 1 --out trial", "the same, tried in short"),
        (
            "headway compare --vary mixer=attention,retention --source train.en --target train.de --for 3m --seeds 3 "
            "--out mixers",
            "two mixers, at equal size and time",
        ),
        (
            "headway compare --vary position=rope,alibi --vary residual=pre,post --text corpus.txt --steps 500 "
            "--out grid",
            "every combination of two axes",
        ),
        (
            "headway compare --vary train.schedule='cosine(0.001),cosine(0.003)' --text corpus.txt --steps 500 "
            "--out rates",
            "a sweep over training settings",
        ),
    ],
)
@click.argument("study", required=False, type=click.Path(path_type=Path))
@option("--vary", multiple=True, metavar="SETTING=A,B", group="What varies", help="A setting and its values; repeat.")
@option("--sample", type=click.IntRange(min=1), metavar="N", group="What varies", help="Draw N variants of the grid.")
@option("--source", "-s", multiple=True, metavar="FILE", group="Text", help="Source text.")
@option("--target", "-t", multiple=True, metavar="FILE", group="Text", help="Its translation, line by line.")
@option("--valid-source", multiple=True, metavar="FILE", group="Text", help="Validation text.")
@option("--valid-target", multiple=True, metavar="FILE", group="Text", help="Its translation.")
@option("--pairs", multiple=True, metavar="FILE", group="Text", help="Both sides in one file.")
@option("--valid-pairs", multiple=True, metavar="FILE", group="Text", help="The same for validation.")
@option("--text", multiple=True, metavar="FILE", group="Text", help="Text for language models, instead of pairs.")
@option("--valid-text", multiple=True, metavar="FILE", group="Text", help="Validation text for language models.")
@option(
    "--data",
    type=click.Path(path_type=Path),
    envvar="HEADWAY_DATA",
    metavar="DIR",
    group="Text",
    help="Folder that the text of a study's file is in. Default: HEADWAY_DATA, or the folder of the file.",
)
@option("--test-source", metavar="FILE", group="Text", help="Test text, measured at the end. Default: validation text.")
@option("--test-target", metavar="FILE", group="Text", help="Its translation.")
@option(
    "--for", "seconds", type=options.Duration(), group="Budget (one of them)", help="The same time: 90s, 20m, 1.5h."
)
@option("--steps", type=click.IntRange(min=1), group="Budget (one of them)", help="The same optimiser steps.")
@option("--tokens", type=click.IntRange(min=1), group="Budget (one of them)", help="The same number of tokens.")
@option(
    "--parameters",
    default="equal",
    metavar="N",
    group="Settings",
    help="Parameters of every variant: a number; equal: those of the first; free: as they come.",
)
@option(
    "--seeds", type=click.IntRange(min=1), group="Settings", help="Runs of each variant. Default: 1, or the study's."
)
@option("--preset", default="auto", metavar="NAME", group="Settings", help="Settings that all variants share.")
@option(
    "--set", "assignments", multiple=True, metavar="KEY=VALUE", group="Settings", help="Set one config key for all."
)
@option("--quick", is_flag=True, group="Settings", help="Run the short edition of a study's file, its section [quick].")
@option("--no-lengths", is_flag=True, group="Settings", help="Do not measure time and memory by length.")
@option(
    "--out",
    "-o",
    aliases=["--output"],
    type=click.Path(path_type=Path),
    metavar="DIR",
    group="Result",
    help="Folder of the study. Run the same command again to resume. Default: the name of the study's file.",
)
@option("--retry-failed", is_flag=True, group="Result", help="Run failed trials once more.")
@option("--dry-run", is_flag=True, group="Result", help="Print the variants and their sizes, then exit.")
@option("--jobs", "-j", type=click.IntRange(min=1), default=1, group="Machine", help="Trials side by side.")
@option("--device", default="auto", metavar="NAME", group="Machine", help="Device: auto, cpu, cuda, cuda:1, …")
def compare(
    study: Path | None, out: Path | None, jobs: int, device: str, retry_failed: bool, dry_run: bool, **given: Any
) -> None:
    """Train variants of a model under one budget, and compare them.

    All have the same text, tokenizer, seeds and number of parameters. Writes a table to stdout, and report.html,
    results.json, results.csv and charts to the study's folder. Trials that are finished are not run again, interrupted
    ones resume, and one that fails is reported with its reason."""
    from headway.compare.report import write_report
    from headway.compare.results import collect_rows
    from headway.compare.runner import Runner
    from headway.compare.trials import plan_trials
    from headway.train.checkpoints import lock_directory

    chosen = _read_study(study, given)
    folder = out or (study.with_suffix("") if study else None)
    if folder is None:
        raise click.UsageError("--out is missing: give a folder for the study.", click.get_current_context())
    with lock_directory(folder):
        plan = plan_trials(chosen, folder)
        for note in plan.notes:
            log(note)
        for trial in plan.trials:
            if trial.seed == 1:
                log(f"{trial.variant.name}: {trial.fit.parameters:,} parameters ({trial.fit.how})")
        for variant in plan.variants:
            for note in variant.notes:
                log(note)
            if variant.refusal:
                log(f"{variant.name} is left out: {variant.refusal}", "warning")
        if dry_run:
            print_table(["variant", "parameters", "how"], _plan_rows(plan.trials))
            return
        progress = StudyProgress()
        try:
            Runner(plan.trials, progress, jobs, device, retry_failed).run()
        finally:
            progress.clear()
            rows = collect_rows(plan)
            files = write_report(chosen, plan, rows, folder, shlex.join(["headway", *sys.argv[1:]]))
        print_rows(rows)
        log(f"report: {files[0]}")
        if any(row.status == "failed" for row in rows):
            raise click.exceptions.Exit(1)


def _read_study(path: Path | None, given: dict[str, Any]) -> "Study":
    from headway.compare.axes import parse_axis
    from headway.compare.study import Budget, Study, check_study, read_study
    from headway.config.sources import Layer, merge_layers, parse_assignment
    from headway.errors import ConfigError
    from headway.train.sources import TrainingFiles

    if path is not None:
        return _shorten_study(read_study(path, given["data"], given["quick"]), path, given)
    if given["quick"]:
        raise click.UsageError("--quick is for the file of a study: give one, or leave it out.")
    parameters = given["parameters"]
    if parameters not in ("equal", "free"):
        if not parameters.replace("_", "").isdigit():
            raise ConfigError(f'--parameters {parameters}: give a number, "equal" or "free".')
        parameters = int(parameters)
    names = ("source", "target", "pairs", "valid_source", "valid_target", "valid_pairs", "text", "valid_text")
    settings = merge_layers([Layer("--set", parse_assignment(text)) for text in given["assignments"]]).tree
    return check_study(
        Study(
            name=f"headway compare {' '.join(given['vary'])}",
            files=replace(TrainingFiles(), **{name: list(given[name]) for name in names}),  # type: ignore[arg-type]
            axes=tuple(map(parse_axis, given["vary"])),
            budget=Budget(
                steps=given["steps"] or 0,
                tokens=given["tokens"] or 0,
                seconds=given["seconds"] or 0.0,
                parameters=parameters,
                seeds=given["seeds"] or 1,
            ),
            preset=given["preset"],
            config=settings,
            sample=given["sample"] or 0,
            test_source=given["test_source"] or "",
            test_target=given["test_target"] or "",
            lengths=() if given["no_lengths"] else Study.lengths,
        )
    )


def _shorten_study(study: "Study", path: Path, given: dict[str, Any]) -> "Study":
    """A study of a file, with another budget, number of seeds or sample."""
    from headway.compare.study import check_study

    known = ("steps", "tokens", "seconds", "seeds", "sample", "data", "quick", "no_lengths")
    for name, value in given.items():
        if name not in known and value not in ((), None, "equal", "auto"):
            flag = {"assignments": "set"}.get(name, name.replace("_", "-"))
            raise click.UsageError(f"{path} says that itself: leave out --{flag}, or change the file.")
    budget = study.budget
    if spent := {name: given[name] for name in ("steps", "tokens", "seconds") if given[name]}:
        budget = replace(budget, **{"steps": 0, "tokens": 0, "seconds": 0.0, **spent})
    if given["seeds"]:
        budget = replace(budget, seeds=given["seeds"])
    lengths = () if given["no_lengths"] else study.lengths
    return check_study(replace(study, budget=budget, sample=given["sample"] or study.sample, lengths=lengths))


def _plan_rows(trials: "Sequence[Trial]") -> list[tuple[str, str, str]]:
    return [(t.variant.name, f"{t.fit.parameters:,}", t.fit.how) for t in trials if t.seed == 1]


def print_rows(rows: "Sequence[Row]") -> None:
    """The measures that fit a terminal; results.csv has all of them."""
    from headway.compare.charts import format_number
    from headway.compare.report import table_columns

    shown = (
        "loss",
        "perplexity",
        "bleu",
        "chrf",
        "accuracy",
        "train_tokens_per_second",
        "decode_tokens_per_second",
        "state_bytes",
    )
    titles = {"train_tokens_per_second": "train tok/s", "decode_tokens_per_second": "decode tok/s", "bleu": "BLEU",
              "chrf": "chrF", "state_bytes": "cache bytes"}  # fmt: skip
    columns = [name for name in table_columns(rows) if name in shown]
    lines = []
    for row in rows:
        cells = [row.name, "" if row.parameters is None else f"{row.parameters:,}"]
        for name in columns:
            found = row.measures.get(name)
            spread = "" if found is None or found.spread is None else f" ± {format_number(found.spread)}"
            cells.append("" if found is None else f"{format_number(found.mean)}{spread}")
        cells.append("" if row.p_value is None else f"{row.p_value:.3f}")
        lines.append([*cells, row.status])
    print_table(["variant", "parameters", *(titles.get(name, name) for name in columns), "p", "status"], lines)


class StudyProgress:
    """A live line on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self.live = LiveLine()

    def on_start(self, trial: "Trial", number: int, total: int, measures_lengths: bool) -> None:
        if not self.live.enabled:
            log(f"{number} of {total}: {trial.name}{', time and memory by length' if measures_lengths else ''}")

    def on_progress(self, running: "Sequence[tuple[Trial, float]]", finished: int, total: int) -> None:
        now = "; ".join(f"{trial.name} {done:.0%}" for trial, done in running)
        self.live.draw(f"{finished} of {total} done  {now}"[: stderr_columns() - 1])

    def on_end(self, trial: "Trial", measures_lengths: bool) -> None:
        self.clear()
        if trial.failure:
            log(f"{trial.name} failed: {trial.failure}", "warning")
        elif measures_lengths:
            log(f"{trial.name}: time and memory by length measured")
        elif (result := trial.result) is not None:
            formats = {"loss": "loss {:.4f}", "bleu": "BLEU {:.2f}", "accuracy": "accuracy {:.1%}"}
            found = [form.format(result[name]) for name, form in formats.items() if result.get(name) is not None]
            log(f"{trial.name}: {', '.join(found) or 'measured'}")

    def clear(self) -> None:
        self.live.clear()
