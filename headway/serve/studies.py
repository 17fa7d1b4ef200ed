"""Studies for the page: what `headway compare --out` wrote, checked and without paths, and the models of its trials."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError, ValidationInfo

from headway.errors import HeadwayError
from headway.serve.names import free_name

RESULTS_FILE = "results.json"
RUNS_FOLDER = "runs"
MODEL_FOLDER = "model"
FOLDERS = re.compile(r"(?<![^\s'\"(\[=:,])(?:~|\.{1,2})?/(?:[^\s/'\"]+/)*(?=[^\s/'\"])")  # of a path
TRIAL_NAME = re.compile(r"(?P<name>.*-(?P<seed>\d+))-[0-9a-f]{12}")  # as headway.compare.trials names its folders


def hide_folders(text: str, info: ValidationInfo) -> str:
    """A message without the folders of this machine: of each path only the last name stays."""
    for folder in (info.context or {}).get("folders", ()):
        text = text.replace(folder, Path(folder).name)
    return FOLDERS.sub("", text)


PublicText = Annotated[str, AfterValidator(hide_folders)]
Number = float | None  # a number that is not finite becomes null on its way out


class StudyMeasure(BaseModel):
    mean: Number = None
    spread: Number = Field(None, description="the standard deviation over seeds; null for one seed")


class CurvePoint(BaseModel):
    step: Number = None
    seconds: Number = None
    loss: Number = None


class LengthPoint(BaseModel):
    length: int
    seconds: Number = Field(None, description="of one forward and backward pass")
    bytes: Number = Field(None, description="of memory that it took")
    loss: Number = None
    refused: PublicText = Field("", description="why there is no number")


class VariantResults(BaseModel):
    name: str
    status: Literal["finished", "refused", "failed", "open"]
    reason: PublicText = Field("", description="of a refusal or failure")
    parameters: int | None = None
    how: PublicText = Field("", description="how it reached the number of parameters")
    measures: dict[str, StudyMeasure] = {}
    p_value: Number = Field(None, description="paired bootstrap against the first variant")
    curves: list[list[CurvePoint]] = Field([], description="learning curves, one for each seed")
    lengths: list[LengthPoint] = Field([], description="what a pass over texts of several lengths costs")
    loss_by_length: list[LengthPoint] = []


class StoredRow(VariantResults):
    models: list[str] = []  # directories


class StoredStudy(BaseModel):
    """What is read of results.json."""

    name: PublicText = ""
    budget: PublicText = ""
    rows: list[StoredRow]


class StudyModel(BaseModel):
    """The model of a finished trial, under the name by which this server knows it."""

    seed: int
    name: str


class StudyRow(VariantResults):
    seeds: list[int] = Field([], description="that finished: those of the learning curves")
    models: list[StudyModel] = []


class StudySummary(BaseModel):
    name: str
    title: str
    variants: int


class StudyResults(BaseModel):
    name: str
    title: str
    budget: str
    rows: list[StudyRow]


@dataclass(frozen=True)
class StudyTrial:
    """A finished trial whose model may be served."""

    row: StudyRow
    seed: int
    folder: Path
    name: str  # that its model would like to have


@dataclass(frozen=True)
class ServedStudy:
    """A study under the name of its folder. Clients see its results, and never its path."""

    results: StudyResults
    trials: list[StudyTrial]

    @property
    def name(self) -> str:
        return self.results.name

    @property
    def summary(self) -> StudySummary:
        return StudySummary(name=self.name, title=self.results.title, variants=len(self.results.rows))


def read_studies(paths: Sequence[str]) -> list[ServedStudy]:
    """Each once, under a name of its own."""
    studies: list[ServedStudy] = []
    for path in dict.fromkeys(Path(path).resolve() for path in paths):
        studies.append(read_served_study(path, [study.name for study in studies]))
    return studies


def read_served_study(folder: Path, names: Sequence[str]) -> ServedStudy:
    """names: those that are taken."""
    stored = _read_results(folder)
    name = free_name(folder.name or "study", names)
    rows = [StudyRow(**row.model_dump(exclude={"models"})) for row in stored.rows]
    results = StudyResults(name=name, title=stored.name or name, budget=stored.budget, rows=rows)
    trials = [trial for row, kept in zip(rows, stored.rows) for trial in _find_trials(folder, name, row, kept.models)]
    for trial in trials:
        trial.row.seeds.append(trial.seed)
    return ServedStudy(results, trials)


def _read_results(folder: Path) -> StoredStudy:
    path = folder / RESULTS_FILE
    advice = "Give --study the folder that headway compare --out wrote."
    try:
        text = path.read_bytes()
    except OSError as error:
        raise HeadwayError(f"--study {folder}: {RESULTS_FILE} cannot be read: {error.strerror}. {advice}") from None
    try:
        return StoredStudy.model_validate_json(text, context={"folders": [str(folder)]})
    except ValidationError as error:
        mistake = error.errors(include_url=False)[0]
        where = ".".join(map(str, mistake["loc"]))
        raise HeadwayError(
            f"{path} does not hold the results of a study{f', at {where}' if where else ''}: {mistake['msg']}. "
            f"{advice} The same command writes the file again, without training anew what is finished."
        ) from None


def _find_trials(folder: Path, study: str, row: StudyRow, models: Sequence[str]) -> Iterator[StudyTrial]:
    """The paths in results.json are those of the time of training: only the name of the trial's folder counts, so that
    a study can be moved."""
    for number, path in enumerate(models, 1):
        trial = Path(path).parent.name
        match = TRIAL_NAME.fullmatch(trial)
        seed = int(match["seed"]) if match else number
        name = f"{study}-{match['name'] if match else trial}"
        yield StudyTrial(row, seed, folder / RUNS_FOLDER / trial / MODEL_FOLDER, name)
