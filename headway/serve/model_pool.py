"""One model of a server, before anything of it is loaded.

The models of a server: known by name from the start, loaded when first used, the least recently used put away."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import HeadwayError
from headway.serve.batch_queue import Lane
from headway.storage.summary import Outline, outline_of, read_outline
from headway.storage.tensor_file import Stored
from headway.translate.results import Translation

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator
import ctypes
import gc
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headway.device import choose_device, cores
from headway.serve.batch_queue import Room
from headway.serve.errors import ApiError
from headway.serve.languages import name_of, resolve
from headway.serve.settings import Settings, Tell


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


TIDY = 20.0  # seconds
Watch = Callable[[int, int, float], None]


class Shelf:
    def __init__(self, settings: Settings, tell: Tell, watch: Watch = lambda texts, tokens, seconds: None) -> None:
        self.settings, self.tell, self.watch = settings, tell, watch
        self.room = Room(settings.limits.waiting)
        self.models: list[Model] = []
        for path in settings.models:
            self.models.append(found(Path(path), [model.name for model in self.models]))
        self.pairs: dict[tuple[str, str], Model] = {}
        for model in self.models:
            for pair in model.pairs:
                if self.pairs.setdefault(pair, model) is not model:
                    tell(
                        f"{model.name} is used for {' → '.join(pair)} only where it is named, as on the page: "
                        f"{self.pairs[pair].name} came first",
                        "warning",
                    )
        for model in self.models:
            if settings.memory is not None and model.bytes > settings.memory:
                raise HeadwayError(
                    f"{model.path} needs about {model.bytes // 2**20} MB, and --memory is "
                    f"{settings.memory // 2**20} MB. Allow more, or leave it out."
                )
        self._order: list[Model] = []  # those that are loaded, the most recently used last
        self._tidied = time.monotonic()
        self._counts, self._loading = threading.Lock(), threading.Lock()

    # ---- languages

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(source for source, _ in self.pairs))

    @property
    def languages(self) -> list[str]:
        return list(dict.fromkeys([*self.sources, *(target for _, target in self.pairs)]))

    def targets(self, source: str) -> list[str]:
        """What a text can become; it may stay as it is, too."""
        return sorted({*(target for start, target in self.pairs if start == source), source})

    def sources_of(self, target: str) -> list[str]:
        return list(dict.fromkeys([source for source, end in self.pairs if end == target] + [target]))

    def language(self, given: str) -> str:
        found = resolve(given, self.languages)
        if found is None:
            raise ApiError(400, f"{given[:40]} is not supported")
        return found

    def between(self, source: str, target: str) -> Model | None:
        """What translates; None where there is nothing to do."""
        if source == target:
            return None
        if (source, target) not in self.pairs:
            raise ApiError(
                400,
                f"{name_of(target)} ({target}) is not available as a target language from {name_of(source)} ({source})",
            )
        return self.pairs[source, target]

    def named(self, name: str) -> Model:
        for model in self.models:
            if model.name == name:
                return model
        raise ApiError(404, f"there is no model {name[:100]}")

    def writer(self, name: str) -> Model | None:
        return next((model for model in self.models if model.name == name and model.writes), None)

    # ---- memory

    def try_take(self, model: Model) -> bool:
        """Whether it is loaded; if so it stays so until `give`."""
        with self._counts:
            if model.loaded is None:
                return False
            self._order.remove(model)
            self._order.append(model)
            model.users += 1
            return True

    def take(self, model: Model) -> None:
        """Load it if it is not: that takes seconds, and is not for the event loop."""
        with self._loading:
            if self.try_take(model):
                return
            self._make_room(model)
            loaded = self._load(model)
            with self._counts:
                model.loaded = loaded
                self._order.append(model)
                model.users += 1

    def give(self, model: Model) -> None:
        with self._counts:
            model.users -= 1

    def close(self, wait: float = 0.0) -> None:
        """wait: seconds for each model to end a batch whose clients have gone. A process that ended in the midst of one
        would be aborted by the library that computes."""
        for model in self.models:
            if model.lane is not None:
                model.lane.close(wait)

    def _make_room(self, model: Model) -> None:
        most = self.settings.memory
        while most is not None and sum(one.bytes for one in self._order) + model.bytes > most:
            with self._counts:
                idle = next((one for one in self._order if not one.users), None)
                if idle is None:
                    told = "all models that fit in memory are being used. Try again in a moment."
                    raise ApiError(503, told, {"Retry-After": "5"})
                self._order.remove(idle)
                idle.loaded, lane, idle.lane = None, idle.lane, None
            if lane is not None:
                lane.close()
            del lane  # it knows the translator
            gc.collect()
            _return_memory()
            self.tell(f"put away {idle.name}")

    def _after_batch(self, texts: int, tokens: int, seconds: float) -> None:
        """What searches leave behind is many pieces of many sizes: without this a server seems to grow for hours."""
        self.watch(texts, tokens, seconds)
        if time.monotonic() - self._tidied > TIDY:
            self._tidied = time.monotonic()
            gc.collect()
            _return_memory()

    def _load(self, model: Model) -> "Translator | LanguageModel":
        from headway.translate.translator import Translator, load

        s = self.settings
        try:
            loaded = load(model.path, s.device, s.engine, s.compute, s.threads)  # type: ignore[arg-type]
        except HeadwayError as error:
            self.tell(f"{model.name} cannot be loaded: {error}", "error")
            raise ApiError(500, f"the model {model.name} cannot be loaded") from None
        if isinstance(loaded, Translator):
            threads = _share(loaded, s)

            def translate(texts: list[str], how: Any) -> list[Translation]:
                if threads > 1:
                    _by_itself()
                made: list[Translation] = how.translate(loaded, texts)
                return made

            model.lane = Lane(
                translate,
                self.room,
                budget=loaded.batch_tokens,
                patience=s.patience,
                threads=threads,
                watch=self._after_batch,
            )
        self.tell(f"loaded {model.name}")
        return loaded


def _share(translator: "Translator", settings: Settings) -> int:
    """How many batches are searched at a time. On a CPU torch computes each with one thread, and none waits for another;
    CTranslate2 has threads of its own, and a GPU is one."""
    engines = translator.engines
    if engines.ct2 is not None or choose_device(settings.device).type != "cpu":
        return 1
    engines.threads = 1
    return settings.threads or cores()


def _by_itself() -> None:
    """This thread computes without the help of others: torch knows that for each."""
    import torch

    torch.set_num_threads(1)


def _return_memory() -> None:
    """What was freed goes back to the system, where its library knows how."""
    try:
        trim: Any = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    trim(0)
