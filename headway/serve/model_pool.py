"""The model pool: a server's models, known by name from the start, loaded on first use, unloaded by LRU."""

import functools
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.device import available_cores, choose_device
from headway.errors import HeadwayError
from headway.serve.adapters import find_bases, read_served_adapter
from headway.serve.batch_queue import BatchQueue
from headway.serve.errors import ApiError
from headway.serve.languages import resolve_code
from headway.serve.memory import trim_heap
from headway.serve.queue_budget import QueueBudget
from headway.serve.served_model import ServedModel, load_checkpoint, read_checkpoints, read_served_model
from headway.serve.served_route import Reachable, ServedLeg, ServedRoute, find_pivot_route, list_pivots
from headway.serve.settings import Log, ServerSettings
from headway.serve.studies import ServedStudy, StudyModel, read_studies
from headway.storage.registry import is_adapter
from headway.text.language_codes import count_directions, describe_languages, usual_direction
from headway.text.language_names import language_name
from headway.translate.results import Translation

if TYPE_CHECKING:
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator

SIDES = ("sources", "targets")
MAX_LOADED_CHECKPOINTS = 2  # that nobody uses: a film goes through all of them, one after another
TRIM_SECONDS = 20.0  # how often, at most, freed memory is returned to the system
BatchListener = Callable[[int, int, float], None]  # texts, tokens and seconds of a batch


class ModelPool:
    """All models of a server. `acquire` keeps one loaded until `release`; beyond settings.memory, models that nobody
    uses are unloaded, the least recently used first."""

    def __init__(
        self, settings: ServerSettings, log: Log, on_batch: BatchListener = lambda texts, tokens, seconds: None
    ) -> None:
        self.settings = settings
        self.log = log
        self.on_batch = on_batch
        self.budget = QueueBudget(settings.limits.queue_tokens)
        self.ends_at: float | None = None  # by time.monotonic, once the server is to end
        self.models: list[ServedModel] = []
        for path in map(Path, settings.models):
            names = [model.name for model in self.models]
            model = read_served_adapter(path, names) if is_adapter(path) else read_served_model(path, names)
            self._add(model)
            if not is_adapter(path):
                model.checkpoints = read_checkpoints(model, log)
        self._find_bases()
        self._warn_of_overlaps()
        self.studies = read_studies(settings.studies)
        for study in self.studies:
            self._add_study(study)  # its models translate the same pairs, and are asked for by name
        self._loaded: list[ServedModel] = []  # the most recently used last
        self._last_trim = time.monotonic()
        self._lock = threading.Lock()  # of self._loaded and the models' users
        self._load_lock = threading.Lock()  # one model is loaded at a time

    def _add(self, model: ServedModel) -> None:
        memory = self.settings.memory
        if memory is not None and model.bytes > memory:
            raise HeadwayError(
                f"{model.path} needs about {model.bytes // 2**20} MB, and --memory is "
                f"{memory // 2**20} MB. Raise --memory, or leave this model out."
            )
        self.models.append(model)

    def _find_bases(self) -> None:
        """Of the adapters among the models."""
        adapters = [model for model in self.models if is_adapter(model.path)]
        if adapters:
            find_bases(adapters, [model for model in self.models if model not in adapters])

    def _add_study(self, study: ServedStudy) -> None:
        """The models of its finished trials, and their names in its results. One that cannot be served is left out."""
        missing: list[str] = []
        for trial in study.trials:
            if not trial.folder.is_dir():
                missing.append(trial.name)
                continue
            try:
                model = read_served_model(trial.folder, [model.name for model in self.models], trial.name)
                self._add(model)
            except HeadwayError as error:
                self.log(f"the study {study.name} is shown without its model {trial.name}: {error}", "warning")
            else:
                trial.row.models.append(StudyModel(seed=trial.seed, name=model.name))
        if missing:
            self.log(
                f"the study {study.name} has no directories of {len(missing)} of its {len(study.trials)} models "
                f"({', '.join(missing[:3])}{', …' * (len(missing) > 3)}): the page shows their numbers, but cannot "
                "open them",
                "warning",
            )

    def _warn_of_overlaps(self) -> None:
        """Of several models for one pair, the first translates it."""
        for number, model in enumerate(self.models):
            for earlier in self.models[:number]:
                shared = [[code for code in getattr(model, side) if code in getattr(earlier, side)] for side in SIDES]
                if count_directions(*shared):
                    self.log(
                        f"{describe_languages(*shared)} is translated by {earlier.name}, which was given first; "
                        f"{model.name} is used only by requests that name it, as on the page",
                        "warning",
                    )

    # ---- languages

    @property
    def default_pair(self) -> tuple[str, str]:
        """The usual direction of the first translator; "" for both without one."""
        translator = next((model for model in self.models if model.is_translator), None)
        return usual_direction(translator.sources, translator.targets) if translator else ("", "")

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(source for model in self.models for source in model.sources))

    @property
    def languages(self) -> list[str]:
        return list(dict.fromkeys([*self.sources, *(target for model in self.models for target in model.targets)]))

    @functools.cached_property
    def _pivots(self) -> dict[str, list[tuple[str, str, str]]]:
        return {}

    @functools.cached_property
    def _reachable(self) -> Reachable:
        return Reachable(self.models)

    def targets_from(self, source: str) -> list[str]:
        """The languages that a text can be translated to, directly or through another; its own is one of them."""
        return sorted(self._reachable.from_source(source) | {source})

    def sources_for(self, target: str) -> list[str]:
        return [*self._reachable.to_target(target), target]

    def list_pivots(self, model: ServedModel) -> list[tuple[str, str, str]]:
        """(source, pivot, target) of the ways through another language that end with this model."""
        if model.name not in self._pivots:
            self._pivots[model.name] = list_pivots(self.models, model) if model in self.models else []
        return self._pivots[model.name]

    def resolve_language(self, given: str) -> str:
        """The code that models use for what a client calls a language."""
        code = resolve_code(given, self.languages)
        if code is None:
            raise ApiError(400, f"{given[:40]} is not supported")
        return code

    def resolve_source(self, given: str) -> str:
        """The same for a language to translate from: traditional Chinese is read by models of simplified text."""
        if resolve_code(given, self.languages) is None and resolve_code(given, ["zh-Hant"]):
            return self.resolve_language("zh")
        return self.resolve_language(given)

    def route_for(self, source: str, target: str, name: str = "") -> ServedRoute | None:
        """The model that translates this pair, or two in a row; with a name, the model of this name, alone or as the
        second. None if both languages are the same."""
        named = [model for model in self.models if name in ("", model.name)]
        if not named:
            raise ApiError(404, f"there is no model {name[:100]}").because("no_model", name=name[:100])
        if source == target:
            return None
        found = next((model for model in named if model.translates(source, target)), None)
        if found is not None:
            return ServedRoute((ServedLeg(found, source, target),))
        route = find_pivot_route(self.models, source, target, named)
        if route is None:
            raise ApiError(
                400,
                f"{language_name(target)} ({target}) is not available as a target language from "
                f"{language_name(source)} ({source})" + (f" by {name}" if name else ""),
            )
        return route

    def model_named(self, name: str) -> ServedModel:
        """A model, or a checkpoint of one."""
        for model in self.models:
            for one in (model, *model.checkpoints):
                if one.name == name:
                    return one
        raise ApiError(404, f"there is no model {name[:100]}").because("no_model", name=name[:100])

    def study_named(self, name: str) -> ServedStudy:
        for study in self.studies:
            if study.name == name:
                return study
        raise ApiError(404, f"there is no study {name[:100]}")

    def causal_model_named(self, name: str) -> ServedModel | None:
        return next((model for model in self.models if model.name == name and model.is_causal), None)

    def encoder_named(self, name: str) -> ServedModel | None:
        """One that makes vectors of texts."""
        return next((model for model in self.models if model.name == name and model.is_encoder), None)

    # ---- memory

    def try_acquire(self, model: ServedModel) -> bool:
        """Whether it is loaded; if so it stays loaded until `release`."""
        with self._lock:
            if model.loaded is None:
                return False
            self._loaded.remove(model)
            self._loaded.append(model)
            model.users += 1
            return True

    def acquire(self, model: ServedModel) -> None:
        """Load it if it is not loaded, and keep it so until `release`. Takes seconds: not for the event loop."""
        with self._load_lock:
            self._acquire(model)

    def _acquire(self, model: ServedModel) -> None:
        if self.try_acquire(model):
            return
        if model.base is not None:
            self._acquire(model.base)  # until the adapter is unloaded
        try:
            self._unload_for(model)
            loaded = self._load(model)
        except BaseException:
            if model.base is not None:
                self.release(model.base)
            raise
        with self._lock:
            model.loaded = loaded
            self._loaded.append(model)
            model.users += 1

    def release(self, model: ServedModel) -> None:
        with self._lock:
            model.users -= 1

    def stop_long_jobs(self, seconds: float) -> None:
        """The server is to end after so many seconds: end now what would take longer."""
        self.ends_at = time.monotonic() + seconds
        for model in self.models:
            if model.queue is not None:
                model.queue.stop_long_jobs(seconds)

    def close(self, timeout: float = 0.0) -> None:
        """timeout: seconds for each model to end a batch whose clients have gone. A process that exited in the midst of
        one would be aborted by the library that computes."""
        for model in self.models:
            if model.queue is not None:
                model.queue.close(timeout)

    def _unload_for(self, model: ServedModel) -> None:
        """Unload models that nobody uses until this one fits into memory; of checkpoints, all but a few."""
        if model.checkpoint is not None:
            self._unload_checkpoints(MAX_LOADED_CHECKPOINTS - 1)
        max_bytes = self.settings.memory
        while max_bytes is not None and sum(one.bytes for one in self._loaded) + model.bytes > max_bytes:
            with self._lock:
                idle = next((one for one in self._loaded if not one.users), None)
                if idle is None:
                    message = "all models that fit into memory are in use. Try again in a moment."
                    raise ApiError(503, message, {"Retry-After": "5"}).because("busy", seconds=5)
                queue = self._forget(idle)
            self._close_unloaded(idle, queue)

    def _unload_checkpoints(self, kept: int) -> None:
        with self._lock:
            idle = [one for one in self._loaded if one.checkpoint is not None and not one.users]
            ended = idle[: max(len(idle) - kept, 0)]
            for one in ended:
                self._forget(one)
        for one in ended:
            self._close_unloaded(one, None)

    def unload_idle(self) -> None:
        """Unload models that nobody uses, but the last one that was: memory is short."""
        while True:
            with self._lock:
                idle = next((one for one in self._loaded[:-1] if not one.users), None)
                if idle is None:
                    return
                queue = self._forget(idle)
            self._close_unloaded(idle, queue)

    def _forget(self, model: ServedModel) -> "BatchQueue[Translation] | None":
        """Under the lock. Returns the model's queue, which refers to its translator."""
        self._loaded.remove(model)
        queue, model.queue = model.queue, None
        model.loaded = None
        if model.base is not None:
            model.base.users -= 1
        return queue

    def _close_unloaded(self, model: ServedModel, queue: "BatchQueue[Translation] | None") -> None:
        if queue is not None:
            queue.close()
        del queue
        trim_heap()
        self.log(f"unloaded {model.name}")

    def _after_batch(self, texts: int, tokens: int, seconds: float) -> None:
        """Searches leave many freed blocks of many sizes: if they were not returned, the process would seem to grow for
        hours."""
        self.on_batch(texts, tokens, seconds)
        if time.monotonic() - self._last_trim > TRIM_SECONDS:
            self._last_trim = time.monotonic()
            trim_heap()

    def _load(self, model: ServedModel) -> "Translator | LanguageModel":
        from headway.serve.queued_texts import QueuedTexts
        from headway.translate.search_calls import Call, run_calls
        from headway.translate.translator import Translator, load_single

        s = self.settings
        try:
            if model.base is not None:
                assert model.base.loaded is not None
                loaded = model.base.loaded.with_adapter(model.path)
            elif model.checkpoint is None:
                loaded = load_single(model.path, s.device, s.engine, s.compute, s.threads)  # type: ignore[arg-type]
            else:
                loaded = load_checkpoint(model, s.device)
        except HeadwayError as error:
            self.log(f"{model.name} cannot be loaded: {error}", "error")
            refused = ApiError(500, f"the model {model.name} cannot be loaded")
            raise refused.because("cannot_load", name=model.name) from None
        if isinstance(loaded, Translator) and model.checkpoint is None:  # checkpoints translate for the page alone
            threads = _batch_threads(loaded, s)

            def begin(texts: Sequence[str], options: Any) -> QueuedTexts:
                return QueuedTexts(loaded, texts, options)

            def compute(calls: Sequence[Call]) -> None:
                if threads > 1:
                    _use_one_thread()
                run_calls(loaded, calls)

            model.queue = BatchQueue(
                begin,
                compute,
                self.budget,
                max_delay=s.max_batch_delay,
                threads=threads,
                max_seconds=s.limits.request_seconds,
                on_slice=self._after_batch,
            )
        trim_heap()  # converting the weights leaves as much free memory as they take
        self.log(f"loaded {model.name}")
        return loaded


def _batch_threads(translator: "Translator", settings: ServerSettings) -> int:
    """How many batches are translated at a time. On a CPU torch and the native engine compute each batch in the thread
    of its caller; CTranslate2 has its own threads, and a GPU takes one batch at a time."""
    engines = translator.engines
    has_own_threads = engines.torch_free is not None and engines.torch_free.name == "ctranslate2"
    if has_own_threads or (engines.torch_free is None and choose_device(settings.device).type != "cpu"):
        return 1
    engines.use_one_thread()
    return settings.threads or available_cores()


def _use_one_thread() -> None:
    """torch, if it is loaded, computes with one thread when called from this one: its setting is per calling thread."""
    set_threads = getattr(sys.modules.get("torch"), "set_num_threads", None)  # not there while it is being imported
    if set_threads is not None:
        set_threads(1)
