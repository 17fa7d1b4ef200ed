"""The models of a server: known by name from the start, loaded when first used, the least recently used put away."""

import ctypes
import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.device import choose_device, cores
from headway.errors import HeadwayError
from headway.serve.batching import Lane, Room
from headway.serve.languages import name_of, resolve
from headway.serve.model import Model, found
from headway.serve.refused import Refused
from headway.serve.settings import Settings, Tell
from headway.translate.results import Translation

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator

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
            raise Refused(400, f"{given[:40]} is not supported")
        return found

    def between(self, source: str, target: str) -> Model | None:
        """What translates; None where there is nothing to do."""
        if source == target:
            return None
        if (source, target) not in self.pairs:
            raise Refused(
                400,
                f"{name_of(target)} ({target}) is not available as a target language from {name_of(source)} ({source})",
            )
        return self.pairs[source, target]

    def named(self, name: str) -> Model:
        for model in self.models:
            if model.name == name:
                return model
        raise Refused(404, f"there is no model {name[:100]}")

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
                    raise Refused(503, told, {"Retry-After": "5"})
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
            raise Refused(500, f"the model {model.name} cannot be loaded") from None
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
