"""The engines of a translator: which can serve its model, which searches this time, and each loaded when it must be."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.config.search import Marks, Search
from headway.decode.ctranslate2.probe import Quick, quick_model
from headway.decode.types import COMPUTES, ENGINES, FEW, Compute, Engine, EngineName, Precision, Recorder
from headway.device import choose_device
from headway.errors import ConfigError, HeadwayError, did_you_mean
from headway.storage.summary import Outline, outline_of
from headway.storage.tensor_file import Stored
from headway.text import Tokenizer, Tokenizers

if TYPE_CHECKING:
    from headway.decode.ctranslate2.backend import Ct2Engine
    from headway.decode.torch_backend import TorchEngine
    from headway.storage.model_dir import Loaded
    from headway.text.shortlist import Shortlist

Tell = Callable[[str], None]
_CHOOSING = threading.RLock()


class Engines:
    """torch, which can do everything, and CTranslate2, where it knows the model: see `choose`."""

    def __init__(
        self, paths: Sequence[str | Path], device: str = "auto", engine: EngineName = "auto", compute: Compute = "auto",
        threads: int | None = None, tell: Tell | None = None, quick: Quick | None = None,
    ) -> None:  # fmt: skip
        """tell: is told which engine was taken, and why. quick: what quick_model made of the same requests."""
        for name, given, known in (("engine", engine, ENGINES), ("compute", compute, COMPUTES)):
            if given not in known:
                hint = did_you_mean(given, list(known))
                raise ConfigError(f'there is no {name} "{given}".{hint} Choose one of: {", ".join(known)}.')
        if threads is not None and threads < 1:
            raise ConfigError(f"{threads} threads cannot work. Give 1 or more, or leave it out.", "threads")
        self.paths, self.device_name = list(paths), device
        self.engine, self.compute, self.threads = engine, compute, threads
        self._tell, self._told, self._asked = tell or (lambda message: None), "", 0
        self._loaded: Sequence[Loaded] | None = None
        self._torch: TorchEngine | None = None
        self._shortlist: Shortlist | None = None
        self.ct2: Ct2Engine | None = None
        reason = self._quick(quick or quick_model(paths, device, engine, compute, threads))
        if engine == "ctranslate2" and reason:
            raise HeadwayError(f"engine ctranslate2 cannot be used: {reason}. Leave it out, or take --engine torch.")
        if self.ct2 is None:
            if reason and engine == "auto":
                self._tell(f"not ctranslate2: {reason}")
            self._start(self.loaded)
            self._shortlist = self._read_shortlist()

    @classmethod
    def of(cls, loaded: "Sequence[Loaded]", shortlist: "Shortlist | None" = None) -> "Engines":
        """Of models that are in memory already."""
        made = cls.__new__(cls)
        made.paths, made.device_name, made.engine, made.compute, made.threads = [], "auto", "torch", "auto", None
        made._tell, made._told, made._loaded, made._torch, made.ct2 = (lambda message: None), "", loaded, None, None
        made._start(loaded)
        made._shortlist = shortlist
        return made

    def _start(self, loaded: "Sequence[Loaded]") -> None:
        outlines = [outline_of(one.config) for one in loaded]
        self.outline: Outline = outlines[0]
        self.tokenizers: Tokenizers = loaded[0].tokenizers
        self.objectives = [outline.objective for outline in outlines]
        self.positions = min((one.positions for one in outlines if one.positions is not None), default=None)

    def _quick(self, found: Quick) -> str:
        """Take CTranslate2 if it can serve; else why it cannot. Nothing here imports torch."""
        if found.reason or found.model is None or found.outline is None:
            return found.reason
        from headway.decode.ctranslate2.backend import Ct2Engine

        try:
            tokenizers = Tokenizers.load(Path(self.paths[0]) / "tokenizer.json")
        except HeadwayError as error:
            return str(error).rstrip(".")
        if found.model.vocabularies != (tokenizers.source.size, tokenizers.target.size):
            return "its tokenizer.json and config.json do not fit together"
        self.ct2 = Ct2Engine(found.model, marks_of(tokenizers.target))
        self.outline, self.tokenizers = found.outline, tokenizers
        self.objectives, self.positions = [found.outline.objective], found.outline.positions
        return ""

    @property
    def loaded(self) -> "Sequence[Loaded]":
        """The models, in torch."""
        if self._loaded is None:
            from headway.storage.model_dir import load_model

            device = choose_device(self.device_name)
            if self.compute == "int8" and device.type != "cpu":
                raise HeadwayError(
                    f"compute int8 is for the CPU, and the device is {device}. Leave it out, or take --device cpu."
                )
            if self.compute == "bfloat16" and device.type == "cpu":
                raise HeadwayError("compute bfloat16 is for a GPU, and the device is cpu. Leave it out, or take int8.")
            self._loaded = [load_model(path, device) for path in self.paths]
            if self.compute == "bfloat16":
                for loaded in self._loaded:
                    loaded.model.bfloat16()
        return self._loaded

    @property
    def torch(self) -> "TorchEngine":
        if self._torch is None:
            import torch

            from headway.decode.torch_backend import TorchEngine

            if self.threads:
                torch.set_num_threads(self.threads)
            target = self.tokenizers.target
            models = [loaded.model for loaded in self.loaded]
            if self.ct2 is not None:
                self._shortlist = self._read_shortlist()
            self._torch = TorchEngine(models, marks_of(target), self.tokenizers.source.pad, self._precision())
            self._torch.stepper.shortlist = self._shortlist
        return self._torch

    def _read_shortlist(self) -> "Shortlist | None":
        if self.objectives[0] != "translation":
            return None
        from headway.text.shortlist import shortlist_of

        return shortlist_of(self.paths, self.tokenizers)

    def _precision(self) -> Precision:
        """What torch computes with: what is asked for; else eight bits on a CPU with weights that are stored so."""
        if self.compute != "auto":
            return self.compute
        if not self.paths or self.loaded[0].model.device.type != "cpu":
            return "float32"
        stored = all(Stored(Path(path) / "model.safetensors").eight_bits for path in self.paths)
        return "int8" if stored else "float32"

    @property
    def device(self) -> str:
        return "cpu" if self._torch is None and self.ct2 is not None else self.torch.device

    def stop(self) -> None:
        if self._torch is not None:
            self._torch.stop()

    def choose(
        self,
        sentences: int,
        search: Search,
        prefixes: bool = False,
        record: Recorder | None = None,
        demands: bool = False,
    ) -> Engine:
        """The engine for this search: of so many sentences, which may begin with something given, or must say it."""
        with _CHOOSING:  # two threads that need torch load it once
            return self._choose(sentences, search, prefixes, record, demands)

    def _choose(self, sentences: int, search: Search, prefixes: bool, record: Recorder | None, demands: bool) -> Engine:
        if self.ct2 is None:
            return self._taken(self.torch, "")
        if reason := self.ct2.why_not(search, prefixes, record, demands):
            return self._taken(self.torch, f"not ctranslate2: {reason}")
        if self.engine == "ctranslate2":
            return self._taken(self.ct2, "")
        self._asked += sentences
        if self.ct2.compute == "int8" and (self._torch or self._asked > FEW):  # importing torch is repaid, or is done
            return self._taken(
                self.torch, f"more than {FEW} sentences in eight bits" if self._asked > FEW else "it is here"
            )
        return self._taken(self.ct2, "it is faster at this" if self._torch else "torch need not be imported for it")

    def _taken(self, engine: Engine, why: str) -> Engine:
        told = f"engine {engine.name}, {engine.compute}, {engine.device}" + (f": {why}" if why else "")
        if told != self._told:
            self._told = told
            self._tell(told)
        return engine


def marks_of(target: Tokenizer) -> Marks:
    return Marks(start=target.start, end=target.end, suppress=tuple(sorted(target.controls - {target.end})))


def refuse_strangers(models: "Sequence[Loaded]") -> None:
    """Models that vote must mean the same by each id, and translate between the same languages."""
    if len({model.tokenizers.spelling for model in models}) > 1:
        raise HeadwayError(
            "these models have different tokenizers, so they cannot vote together. Train them with the same text "
            "and settings but another train.seed."
        )
    pairs = {(m.config.source_languages, m.config.target_languages) for m in models}
    if len(pairs) > 1:
        told = " and ".join(sorted(f"{', '.join(a) or '?'} → {', '.join(b) or '?'}" for a, b in pairs))
        raise HeadwayError(
            f"these models translate {told}, so they cannot vote together. Give models of one direction."
        )
