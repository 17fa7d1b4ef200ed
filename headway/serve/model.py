"""One model of a server, before anything of it is loaded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import HeadwayError
from headway.serve.batching import Lane
from headway.storage.summary import Outline, outline_of, read_outline
from headway.storage.tensor_file import Stored
from headway.translate.results import Translation

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator


@dataclass(eq=False)
class Model:
    """One directory. Clients know its name and its languages, never where it lies."""

    name: str
    path: Path
    outline: Outline
    bytes: int  # of its weights in memory, about
    users: int = 0
    loaded: "Translator | LanguageModel | None" = None
    lane: Lane[Translation] | None = None
    pairs: list[tuple[str, str]] = field(default_factory=list)

    @property
    def translates(self) -> bool:
        return self.outline.objective == "translation"

    @property
    def writes(self) -> bool:
        return self.outline.objective == "causal"

    @property
    def writer(self) -> "LanguageModel":
        from headway.translate.language_model import LanguageModel

        assert isinstance(self.loaded, LanguageModel)
        return self.loaded

    def hidden(self, text: str) -> str:
        """A message without the place of this model on the host."""
        return text.replace(str(self.path.resolve()), self.name).replace(str(self.path), self.name)


def found(path: Path, taken: Sequence[str]) -> Model:
    read = read_outline(path)
    if read is None:  # Config says what is wrong with it
        from headway.storage.model_dir import load_model

        outline = outline_of(load_model(path).config)
    else:
        outline = read[0]
    weights = path / "model.safetensors"
    if not weights.is_file():
        raise HeadwayError(f"{path} has no model.safetensors yet: its training has not saved a model so far.")
    sides = outline.source_languages, outline.target_languages
    pairs = [(source, target) for source in sides[0] for target in sides[1] if source != target]
    if outline.objective == "translation" and not pairs:
        raise HeadwayError(
            f"{path} does not say between which languages it translates, so nobody could ask for it. Write "
            "source_languages and target_languages into its config.json, or train it with --from and --to."
        )
    base = path.resolve().name
    name = next(name for name in _names(base) if name not in taken)
    size = weights.stat().st_size * (4 if Stored(weights).eight_bits else 1)
    return Model(name, path, outline, size, pairs=pairs if outline.objective == "translation" else [])


def _names(base: str) -> Iterator[str]:
    yield base
    number = 2
    while True:
        yield f"{base}-{number}"
        number += 1
