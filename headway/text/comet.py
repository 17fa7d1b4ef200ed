"""COMET: neural metrics by their own package, unbabel-comet, which is imported here when it is first needed.

comet        Unbabel/wmt22-comet-da: source, translation and reference
comet-kiwi   Unbabel/wmt22-cometkiwi-da: source and translation alone, which is quality estimation
"""

import functools
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.errors import HeadwayError

COMET_MODELS = {"comet": "Unbabel/wmt22-comet-da", "comet-kiwi": "Unbabel/wmt22-cometkiwi-da"}
BATCH_SIZE = 16


def require_comet() -> None:
    """Refuse where unbabel-comet is not installed, before any work is done for it."""
    if importlib.util.find_spec("comet") is None:
        raise HeadwayError('the metrics "comet" and "comet-kiwi" need unbabel-comet: pip install unbabel-comet')


class Comet:
    """A COMET model. `name`: one that unbabel-comet can download, or the path of a checkpoint."""

    def __init__(self, name: str, device: str = "cpu") -> None:
        require_comet()
        from comet import download_model, load_from_checkpoint

        self.name = name
        self.gpus = 0 if device == "cpu" else 1
        is_file = Path(name).suffix == ".ckpt"
        if is_file and not Path(name).exists():
            raise HeadwayError(f"there is no COMET checkpoint {name}.")
        try:
            self.model: Any = load_from_checkpoint(name if is_file else download_model(name))
        except Exception as error:  # of the network, the hub, or a checkpoint: its package has no common one
            raise HeadwayError(
                f"the COMET model {name} cannot be loaded: {error}. Some need a licence to be accepted and a token "
                "(huggingface-cli login); a checkpoint that is here already is given by its path."
            ) from None

    @property
    def needs_references(self) -> bool:
        requires: Any = getattr(self.model, "requires_references", None)
        return bool(requires()) if callable(requires) else "kiwi" not in self.name.casefold()

    def score(self, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str] | None) -> list[float]:
        """Of each line: about 0 to 1, higher is better."""
        if self.needs_references and references is None:
            raise HeadwayError(f"{self.name} compares with references, and there are none. Use comet-kiwi.")
        data = [{"src": source, "mt": output} for source, output in zip(sources, hypotheses)]
        if self.needs_references and references is not None:
            data = [{**line, "ref": reference} for line, reference in zip(data, references)]
        predicted = self.model.predict(data, batch_size=BATCH_SIZE, gpus=self.gpus, progress_bar=False)
        scores = predicted["scores"] if isinstance(predicted, dict) else predicted.scores
        return [float(score) for score in scores]


@functools.lru_cache(maxsize=2)
def load_comet(name: str, device: str = "cpu") -> Comet:
    """The model of a metric, or of this name or path; loaded once."""
    return Comet(COMET_MODELS.get(name, name), device)


def comet_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("unbabel-comet")
    except PackageNotFoundError:
        return "unknown"
