"""The trials of a study: every variant with every seed, each in a folder that is named by a fingerprint of everything
that decides its result. What is finished under that name need not be run again."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from headway.compare.axes import Variant, expand_settings, make_variant
from headway.compare.parameter_budget import Fit, fit_parameters, has_hidden
from headway.compare.study import Study, absolute_files
from headway.config.schema import make_part
from headway.config.sources import Layer, compose
from headway.data.toy.tasks import write_task
from headway.errors import ConfigError, HeadwayError
from headway.files.atomic import write_text_atomically
from headway.files.cache import fingerprint
from headway.files.text_files import read_lines, read_pairs
from headway.text.tokenizer.pair import Tokenizers
from headway.train.setup import collect_layers, compose_with_vocabulary, make_tokenizers
from headway.train.sources import TrainingTexts, read_texts

TRIAL_VERSION = 2  # of what is measured: another one measures anew
TRIAL_FILE = "trial.json"
RESULT_FILE = "result.json"
FAILURE_FILE = "failure.json"
LENGTHS_FILE = "lengths.json"
TOKENIZER_FILE = "tokenizer.json"
VALIDATIONS = 10  # points of a learning curve, where the number of steps is known
SHARED_SETTINGS = ("tokenizer", "vocabularies", "source_languages", "target_languages")  # not to be varied


@dataclass(frozen=True)
class Trial:
    """One variant with one seed."""

    variant: Variant
    fit: Fit
    seed: int
    folder: Path
    table: dict[str, Any]  # what its process is told, as JSON

    @property
    def name(self) -> str:
        return f"{self.variant.name}, seed {self.seed}"

    @property
    def result(self) -> dict[str, Any] | None:
        return read_json_file(self.folder / RESULT_FILE)

    @property
    def failure(self) -> str:
        """Why it failed; "" if it did not."""
        return str((read_json_file(self.folder / FAILURE_FILE) or {}).get("reason", ""))

    @property
    def cost_curve(self) -> list[dict[str, Any]] | None:
        """What texts of the study's lengths cost; None if that is still to be measured."""
        found = read_json_file(self.folder / LENGTHS_FILE) or {}
        return found["points"] if found.get("lengths") == self.table["lengths"] else None

    def prepare(self) -> None:
        """Write what its process reads, and forget an earlier failure."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / FAILURE_FILE).unlink(missing_ok=True)
        write_text_atomically(self.folder / TRIAL_FILE, json.dumps(self.table, indent=1, ensure_ascii=False) + "\n")


@dataclass(frozen=True)
class Plan:
    """All variants of a study, those that the config refuses included, and their trials."""

    variants: list[Variant]
    trials: list[Trial]
    target: int | None  # parameters that all variants have; None: each its own
    notes: tuple[str, ...]


def plan_trials(study: Study, out: Path) -> Plan:
    """Read the text, learn one tokenizer for all, solve for widths. The first variant that is not refused sets the
    number of parameters."""
    for axis in study.axes:
        if axis.name.split(".")[0] in SHARED_SETTINGS:
            raise ConfigError(f"{axis.name} cannot vary: all variants of a study share one tokenizer.")
    study = write_toy_text(study, out)
    files = absolute_files(study.files)
    texts = read_texts(files)
    text_identity = [texts.identity, texts.valid_identity, *identify_test_text(study), *identify_answers(study)]
    base, reason = collect_layers(texts, files, study.preset, [Layer("study", study.config)])
    tokenizers = study_tokenizers(base, texts, out)
    config, _ = compose_with_vocabulary(base, tokenizers)
    budget = study.budget.train_settings(config.train.batch_tokens)
    if budget["steps"]:
        budget["validate_every"] = max(1, budget["steps"] // VALIDATIONS)
    base = [*base, Layer("study's budget", {"train": budget})]
    vocabulary = {"vocabulary": tokenizers.target.size, "source_vocabulary": tokenizers.source.size}
    variants = [make_variant(choices, base) for choices in study.choices()]
    accepted = [variant for variant in variants if not variant.refusal]
    if not accepted:
        raise ConfigError(f"every variant is refused. The first: {variants[0].name}: {variants[0].refusal}")
    target = _target(study, [*base, *accepted[0].layers], vocabulary)
    trials: list[Trial] = []
    for index, variant in enumerate(variants):
        if variant.refusal:
            continue
        layers = [*base, *variant.layers]
        try:
            fit = _fit(layers, target, vocabulary, fixed_settings(variant.choices))
        except ConfigError as error:
            variants[index] = variant._replace(refusal=str(error))
            continue
        for seed in range(1, study.budget.seeds + 1):
            trials.append(_make_trial(study, variant, fit, seed, layers, tokenizers, text_identity, out))
    return Plan(variants, trials, target, (reason, *texts.notes, *texts.warnings))


def identify_test_text(study: Study) -> list[str]:
    """A fingerprint of the test text, if there is any. Raises before anything is trained if it cannot be read."""
    if not study.test_source:
        return []
    return [fingerprint(line for pair in read_pairs(study.test_source, study.test_target) for line in pair)]


def identify_answers(study: Study) -> list[str]:
    """Fingerprints of the files of prompts and answers."""
    return [fingerprint(read_lines(path)) for path in study.answers]


def write_toy_text(study: Study, out: Path) -> Study:
    """The study with the files of its synthetic task, which are written into its folder."""
    if study.toy is None:
        return study
    folder, toy = out / "text", study.toy
    lengths = toy.test_lengths or (toy.length,)
    write_task(folder, toy.task, toy.length, lines=toy.lines, seed=toy.seed, test_lengths=lengths)
    files = replace(study.files, text=[str(folder / "train.txt")], valid_text=[str(folder / "valid.txt")])
    answers = tuple(str(folder / f"test-{length}.tsv") for length in lengths)
    return replace(study, files=files, answers=(*study.answers, *answers))


def fixed_settings(choices: Mapping[str, Any]) -> list[str]:
    """The axes that the parameter budget must not change: all but kinds of feed-forward whose width is left open."""
    return [
        axis
        for given in choices.items()
        for axis, value in expand_settings(*given).items()
        if axis.split(".")[-1] != "feedforward"
        or any(
            has_hidden(make_part("feedforward", part).to_dict())
            for part in (value if isinstance(value, list) else [value])
        )
    ]


def study_tokenizers(base: Sequence[Layer], texts: TrainingTexts, out: Path) -> Tokenizers:
    """Those of the study's folder, or new ones. Another corpus or vocabulary needs another folder."""
    fresh = make_tokenizers(compose(base)[0], texts)
    path = out / TOKENIZER_FILE
    if path.exists():
        saved = Tokenizers.load(path)
        if saved.fingerprints != fresh.fingerprints:
            raise HeadwayError(
                f"{out} holds a study with another vocabulary: its text or tokenizer was another one. Choose another "
                "--out."
            )
        return saved
    out.mkdir(parents=True, exist_ok=True)
    fresh.save(path)
    return fresh


def _target(study: Study, layers: Sequence[Layer], vocabulary: dict[str, Any]) -> int | None:
    if study.budget.parameters == "free":
        return None
    if isinstance(study.budget.parameters, int):
        return study.budget.parameters
    return compose([*layers, Layer("tokenizer", {"model": vocabulary})])[0].model.parameter_count()


def _fit(layers: Sequence[Layer], target: int | None, vocabulary: dict[str, Any], varied: Sequence[str]) -> Fit:
    if target is None:
        config, _ = compose([*layers, Layer("tokenizer", {"model": vocabulary})])
        return Fit([], config.model.parameter_count(), "as it is")
    return fit_parameters(layers, target, vocabulary, varied)


def _make_trial(
    study: Study,
    variant: Variant,
    fit: Fit,
    seed: int,
    layers: Sequence[Layer],
    tokenizers: Tokenizers,
    text_identity: Sequence[str],
    out: Path,
) -> Trial:
    seeded = Layer("study's seed", {"train": {"seed": seed}})
    config, _ = compose_with_vocabulary([*layers, *fit.layers, seeded], tokenizers)
    table = {
        "version": TRIAL_VERSION,
        "config": config.to_dict(),
        "files": asdict(absolute_files(study.files)),
        "tokenizer": str((out / TOKENIZER_FILE).resolve()),
        "test": [str(Path(path).resolve()) for path in (study.test_source, study.test_target) if path],
        "test_lengths": list(study.test_lengths),
        "lengths": list(study.lengths) if seed == 1 else [],
        "untrained": study.budget.untrained,
        "probes": list(study.probes),
        "answers": [str(Path(path).resolve()) for path in study.answers],
    }
    # Paths are left out: text that was moved is the same text.
    decisive = {name: table[name] for name in ("version", "config", "test_lengths", "probes")}
    identity = [json.dumps(decisive, sort_keys=True), *text_identity, *tokenizers.fingerprints]
    return Trial(variant, fit, seed, find_folder(out / "runs", variant.name, seed, fingerprint(identity)[:12]), table)


def find_folder(runs: Path, name: str, seed: int, identity: str) -> Path:
    """The fingerprint decides, not the name before it, which only helps to find a trial: a variant may be renamed."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
    return next(iter(sorted(runs.glob(f"*-{seed}-{identity}"))), runs / f"{slug}-{seed}-{identity}")


def read_json_file(path: Path) -> dict[str, Any] | None:
    """None if it is missing or was cut off."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
