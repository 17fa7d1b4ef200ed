"""Decide between torch and CTranslate2: which engines can run a model, and which one runs the search this time.

    torch        every model and every setting, on a CPU or a GPU
    ctranslate2  common models on a CPU: a sentence is translated before torch would have been imported

Either is loaded only when it is first needed. `Engines._choose` is the rule, decode.ctranslate2.probe says which models
CTranslate2 can run, and Ct2Engine which searches."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.config.search import Search
from headway.decode.ctranslate2.probe import Ct2Probe, probe_ctranslate2
from headway.decode.types import (
    COMPUTES,
    ENGINES,
    MAX_CT2_INT8_SENTENCES,
    Compute,
    Engine,
    EngineName,
    Precision,
    Recorder,
)
from headway.device import choose_device
from headway.errors import ConfigError, HeadwayError, did_you_mean
from headway.storage.summary import ModelSummary, summarise
from headway.storage.tensor_file import TensorFile
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.special_tokens import special_tokens

if TYPE_CHECKING:
    from headway.decode.ctranslate2.backend import Ct2Engine
    from headway.decode.torch_backend import TorchEngine
    from headway.storage.model_dir import LoadedModel
    from headway.text.shortlist import Shortlist

Log = Callable[[str], None]
_CHOICE_LOCK = threading.RLock()


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
        probe: Ct2Probe | None = None,
        models: "Sequence[LoadedModel] | None" = None,
        shortlist: "Shortlist | None" = None,
    ) -> None:
        """paths: of model directories, several for an ensemble
        log: called with the engine that was chosen, and why
        probe: what probe_ctranslate2 found for the same arguments, if that has been called
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
        self.ct2: Ct2Engine | None = None
        self._log = log or (lambda message: None)
        self._last_message = ""
        self._sentence_count = 0  # that CTranslate2 could have searched for so far
        self._models = models
        self._torch: TorchEngine | None = None
        self._shortlist = shortlist
        if models is not None:
            self._describe(models)
            return
        reason = self._take_ct2(probe or probe_ctranslate2(paths, device, engine, compute, threads))
        if engine == "ctranslate2" and reason:
            raise HeadwayError(f"engine ctranslate2 cannot be used: {reason}. Leave it out, or use --engine torch.")
        if self.ct2 is None:
            if reason and engine == "auto":
                self._log(f"not ctranslate2: {reason}")
            self._describe(self.loaded)
            self._shortlist = self._load_shortlist()

    def _describe(self, models: "Sequence[LoadedModel]") -> None:
        summaries = [summarise(model.config) for model in models]
        self.summary: ModelSummary = summaries[0]
        self.tokenizers: Tokenizers = models[0].tokenizers
        self.objectives = [summary.objective for summary in summaries]
        limits = [summary.max_positions for summary in summaries if summary.max_positions is not None]
        self.max_positions = min(limits, default=None)

    def _take_ct2(self, probe: Ct2Probe) -> str:
        """Use CTranslate2 if it can run the model; else the reason why not. Nothing here imports torch."""
        if probe.reason or probe.model is None or probe.summary is None:
            return probe.reason
        from headway.decode.ctranslate2.backend import Ct2Engine

        try:
            tokenizers = Tokenizers.load(Path(self.paths[0]) / "tokenizer.json")
        except HeadwayError as error:
            return str(error).rstrip(".")
        if probe.model.vocabularies != (tokenizers.source.size, tokenizers.target.size):
            return "its tokenizer.json and config.json do not fit together"
        self.ct2 = Ct2Engine(probe.model, special_tokens(tokenizers.target))
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
            if self.ct2 is not None:
                self._shortlist = self._load_shortlist()
            special = special_tokens(self.tokenizers.target)
            self._torch = TorchEngine(models, special, self.tokenizers.source.pad, self._precision())
            self._torch.stepper.shortlist = self._shortlist
        return self._torch

    def _load_shortlist(self) -> "Shortlist | None":
        if self.objectives[0] != "translation":
            return None
        from headway.text.shortlist import load_shortlist

        return load_shortlist(self.paths, self.tokenizers)

    def _precision(self) -> Precision:
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
        return "cpu" if self._torch is None and self.ct2 is not None else self.torch.device

    def stop(self) -> None:
        """End searches that run in other threads."""
        if self._torch is not None:
            self._torch.stop()

    def choose(
        self,
        sentences: int,
        search: Search,
        prefixes: bool = False,
        recorder: Recorder | None = None,
        constrained: bool = False,
    ) -> Engine:
        """The engine for a search of so many sentences.

        prefixes: some outputs have a forced prefix; constrained: some must contain given phrases"""
        with _CHOICE_LOCK:  # two threads that need torch load it once
            return self._choose(sentences, search, prefixes, recorder, constrained)

    def _choose(
        self, sentences: int, search: Search, prefixes: bool, recorder: Recorder | None, constrained: bool
    ) -> Engine:
        if self.ct2 is None:
            return self._report(self.torch, "")
        if reason := self.ct2.unsupported(search, prefixes, recorder, constrained):
            return self._report(self.torch, f"not ctranslate2: {reason}")
        if self.engine == "ctranslate2":
            return self._report(self.ct2, "")
        self._sentence_count += sentences
        many = self._sentence_count > MAX_CT2_INT8_SENTENCES
        if self.ct2.compute == "int8" and (self._torch or many):  # torch is faster, and its import is done or pays off
            why = f"more than {MAX_CT2_INT8_SENTENCES} sentences in int8" if many else "it is loaded already"
            return self._report(self.torch, why)
        return self._report(self.ct2, "it is faster at this" if self._torch else "torch need not be imported")

    def _report(self, engine: Engine, why: str) -> Engine:
        message = f"engine {engine.name}, {engine.compute}, {engine.device}" + (f": {why}" if why else "")
        if message != self._last_message:
            self._last_message = message
            self._log(message)
        return engine


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
