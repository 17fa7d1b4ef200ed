"""Decide between the engines: which of them can run a model, and which one runs a search.

    native       common models in int8 on a CPU with a C compiler, without torch     } at most one of these two
    ctranslate2  common models on a CPU, without torch                               }
    torch        every model and every setting, on a CPU or a GPU

Each is loaded only when it is first needed. The first that can run a model runs all its searches but those that it does
not support: which one translates a sentence depends on the model and on what is asked of the search, never on how much
text there is, so that a text is translated alike wherever it stands. decode.probe says which models an engine can run,
and the engine which searches."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.config.objective_kinds import reads_pairs
from headway.config.search import Search
from headway.decode.forking import ForkSafeLock, call_after_fork, use_one_torch_thread
from headway.decode.probe import TORCH_FREE_ENGINES, EngineProbe, probe_engines
from headway.decode.types import COMPUTES, ENGINES, Compute, Engine, EngineName, Precision, Recorder
from headway.device import choose_device
from headway.errors import ConfigError, HeadwayError, did_you_mean
from headway.storage.model_files import list_versions, refuse_replaced
from headway.storage.summary import ModelSummary, summarise
from headway.storage.tensor_file import TensorFile
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.special_tokens import SpecialTokens, special_tokens
from headway.translate.reloading import LoadSettings

if TYPE_CHECKING:
    from headway.decode.ctranslate2.backend import Ct2Engine
    from headway.decode.native.engine import NativeEngine
    from headway.decode.torch_backend import TorchEngine
    from headway.storage.model_dir import LoadedModel
    from headway.text.shortlist import Shortlist, UnreadableShortlist

Log = Callable[[str], None]
_CHOICE_LOCK = ForkSafeLock()


class Engines:
    """The engines of one translator; see `choose`."""

    def __init__(
        self,
        paths: Sequence[str | Path] = (),
        device: str = "auto",
        engine: EngineName = "auto",
        compute: Compute = "auto",
        threads: int | None = None,
        log: Log | None = None,
        probe: EngineProbe | None = None,
        models: "Sequence[LoadedModel] | None" = None,
        shortlist: "Shortlist | None" = None,
    ) -> None:
        """paths: of model directories, several for an ensemble
        log: called with the engine that was chosen, and why
        probe: what probe_engines found for the same arguments, if that has been called
        models: that are in memory already, instead of paths; only torch runs these, with this shortlist"""
        for name, given, known in (("engine", engine, ENGINES), ("compute", compute, COMPUTES)):
            if given not in known:
                hint = did_you_mean(given, list(known))
                raise ConfigError(f'there is no {name} "{given}".{hint} Choose one of: {", ".join(known)}.')
        if threads is not None and threads < 1:
            raise ConfigError(f"must be at least 1, not {threads}.", "threads")
        self.paths = list(paths)
        self.device_name = device
        self.engine: EngineName = engine if models is None else "torch"
        self.compute = compute
        self.threads = threads
        self.torch_free: NativeEngine | Ct2Engine | None = None
        self._log = log or (lambda message: None)
        self._last_message = ""
        self._models = models
        self._torch: TorchEngine | None = None
        self._shortlist: Shortlist | UnreadableShortlist | None = shortlist
        call_after_fork(self)
        if models is not None:
            self._describe(models)
            return
        self._opened = [list_versions(path) for path in paths]
        self._take_torch_free(probe or probe_engines(paths, device, engine, compute, threads))
        if self.torch_free is None:
            self._describe(self.loaded)
            self._shortlist = self._load_shortlist()
        self.paths = [str(Path(path).resolve()) for path in paths]  # what is loaded later, or elsewhere, is the same

    @property
    def load_settings(self) -> LoadSettings | None:
        """What another process needs to load the same; None where the models were given in memory."""
        if not self.paths:
            return None
        return LoadSettings(tuple(map(str, self.paths)), self.device_name, self.engine, self.compute, self.threads)

    def describe(self) -> str:
        """The engine, for people. Loads nothing."""
        if self.torch_free is not None:
            return f"engine {self.torch_free.name}, {self.torch_free.compute}, cpu"
        return f"engine torch, {self.precision}, {self.loaded[0].model.device.type}"

    def after_fork(self) -> None:
        if self._models is not None:
            use_one_torch_thread()

    def _describe(self, models: "Sequence[LoadedModel]") -> None:
        summaries = [summarise(model.config) for model in models]
        self.summary: ModelSummary = summaries[0]
        self.tokenizers: Tokenizers = models[0].tokenizers
        self.objectives = [summary.objective for summary in summaries]
        limits = [summary.max_positions for summary in summaries if summary.max_positions is not None]
        self.max_positions = min(limits, default=None)

    def _take_torch_free(self, probe: EngineProbe) -> None:
        """Use an engine without torch if one can run the model. Nothing here imports torch."""
        reasons = list(probe.reasons)
        if probe.model is not None and probe.summary is not None:
            reason = self._make_torch_free(probe)
            reasons += [(name, reason) for name in TORCH_FREE_ENGINES if reason and self.engine in ("auto", name)]
        if self.torch_free is None and self.engine in TORCH_FREE_ENGINES:
            raise HeadwayError(
                f"engine {self.engine} cannot be used: {reasons[0][1]}. Leave it out, or use --engine torch."
            )
        for name, reason in reasons:
            self._log(f"not {name}: {reason}")

    def _make_torch_free(self, probe: EngineProbe) -> str:
        """Why its tokenizer does not allow it; "" if it does."""
        from headway.decode.ctranslate2.model import Ct2Model

        assert probe.model is not None and probe.summary is not None
        try:
            tokenizers = Tokenizers.load(Path(self.paths[0]) / "tokenizer.json")
        except HeadwayError as error:
            return str(error).rstrip(".")
        if probe.model.vocabularies != (tokenizers.source.size, tokenizers.target.size):
            return "its tokenizer.json and config.json do not fit together"
        special = _search_tokens(probe.summary, tokenizers)
        if isinstance(probe.model, Ct2Model):
            from headway.decode.ctranslate2.backend import Ct2Engine

            self.torch_free = Ct2Engine(probe.model, special)
        else:
            from headway.decode.native.engine import NativeEngine

            self.torch_free = NativeEngine(probe.model, special, self.threads)
        self.summary = probe.summary
        self.tokenizers = tokenizers
        self.objectives = [probe.summary.objective]
        self.max_positions = probe.summary.max_positions
        return ""

    @property
    def loaded(self) -> "Sequence[LoadedModel]":
        """The models, in torch."""
        if self._models is None:
            from headway.storage.model_dir import load_model

            device = choose_device(self.device_name)
            if self.compute == "int8" and device.type != "cpu":
                raise HeadwayError(
                    f"compute int8 needs the CPU, and the device is {device}: leave it out, or use --device cpu."
                )
            if self.compute == "bfloat16" and device.type == "cpu":
                raise HeadwayError("compute bfloat16 needs a GPU, and the device is cpu: leave it out, or use int8.")
            if self.torch_free is not None:
                refuse_replaced(self.paths, self._opened)
            self._models = [load_model(path, device) for path in self.paths]
            if self.compute == "bfloat16":
                for loaded in self._models:
                    loaded.model.bfloat16()
        return self._models

    @property
    def torch(self) -> "TorchEngine":
        if self._torch is None:
            import torch

            from headway.decode.torch_backend import TorchEngine

            if self.threads:
                torch.set_num_threads(self.threads)
            models = [loaded.model for loaded in self.loaded]
            if self.torch_free is not None:
                self._shortlist = self._load_shortlist()
            self._torch = TorchEngine(models, self.special_tokens, self.tokenizers.source.pad, self.precision)
            self._torch.stepper.shortlist = self._shortlist
        return self._torch

    @property
    def special_tokens(self) -> SpecialTokens:
        return _search_tokens(self.summary, self.tokenizers)

    def _load_shortlist(self) -> "Shortlist | UnreadableShortlist | None":
        if not reads_pairs(self.objectives[0]):
            return None
        from headway.text.shortlist import load_shortlist

        return load_shortlist(self.paths, self.tokenizers)

    @property
    def precision(self) -> Precision:
        """What torch computes in: as asked for; else int8 on a CPU, if the weights are stored so, or float32."""
        if self.compute != "auto":
            return self.compute
        if not self.paths or self.loaded[0].model.device.type != "cpu":
            return "float32"
        stored_as_int8 = all(TensorFile(Path(path) / "model.safetensors").is_int8 for path in self.paths)
        return "int8" if stored_as_int8 else "float32"

    @property
    def device(self) -> str:
        """cpu or cuda"""
        return "cpu" if self.torch_free is not None else self.torch.device

    def stop(self) -> None:
        """End searches that run in other threads."""
        for engine in (self.torch_free, self._torch):
            if engine is not None:
                engine.stop()

    def use_one_thread(self) -> None:
        """Each search in the thread of its caller: a server has threads of its own."""
        self.threads = 1
        if self.torch_free is not None:
            self.torch_free.use_threads(1)

    def choose(
        self, search: Search, prefixes: bool = False, recorder: Recorder | None = None, constrained: bool = False
    ) -> Engine:
        """The engine for a search.

        prefixes: some outputs have a forced prefix; constrained: some must contain given phrases"""
        with _CHOICE_LOCK:  # two threads that need torch load it once
            if self.torch_free is None:
                return self._report(self.torch, "")
            if reason := self.torch_free.unsupported(search, prefixes, recorder, constrained):
                return self._report(self.torch, f"not {self.torch_free.name}: {reason}")
            return self._report(self.torch_free, "")

    def _report(self, engine: Engine, why: str) -> Engine:
        message = f"engine {engine.name}, {engine.compute}, {engine.device}" + (f": {why}" if why else "")
        if message != self._last_message:
            self._last_message = message
            self._log(message)
        return engine


def _search_tokens(summary: ModelSummary, tokenizers: Tokenizers) -> SpecialTokens:
    """Those of the target, as a search needs them."""
    return special_tokens(tokenizers.target, writes_sentinels=summary.objective == "span_corruption")


def check_ensemble(models: "Sequence[LoadedModel]") -> None:
    """Models of an ensemble must share their tokenizer and their languages."""
    if len({model.tokenizers.fingerprints for model in models}) > 1:
        raise HeadwayError(
            "these models have different tokenizers, so they cannot be an ensemble. Train them with the same text and "
            "settings but different train.seed."
        )
    directions = {(m.config.source_languages, m.config.target_languages) for m in models}
    if len(directions) > 1:
        listed = " and ".join(sorted(f"{', '.join(a) or '?'} → {', '.join(b) or '?'}" for a, b in directions))
        raise HeadwayError(
            f"these models translate {listed}, so they cannot be an ensemble. Give models of one direction."
        )
