"""Translator: text in, translations out. `load` and `load_translator` make one from model directories or names."""

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.config import own_kinds
from headway.config.objective_kinds import has_source, usual_verb
from headway.config.search import Search
from headway.decode.probe import EngineProbe
from headway.decode.types import Compute, EngineName
from headway.device import choose_device
from headway.errors import ConfigError, HeadwayError, did_you_mean
from headway.storage.calibration import Calibration
from headway.storage.pivots import PivotChoice, choose_route
from headway.storage.registry import ModelChoice, choose_models
from headway.text.language_codes import describe_languages, format_languages, match_languages, primary_language
from headway.text.spans.unknown_script import CharacterRepertoire, make_repertoire
from headway.text.tokenizer.direction_tokens import DirectionTokens, find_direction_tokens
from headway.translate.adapters import find_base
from headway.translate.backends import Engines, Log, check_ensemble
from headway.translate.options import TranslateOptions, options_from_keywords, resolve_target
from headway.translate.reloading import (
    LoadSettings,
    describe_paths,
    load_settings,
    reload_model,
    require_load_settings,
)
from headway.translate.results import Guess, ScoredPair, Translation, Translations
from headway.translate.search import make_requests, translate_requests
from headway.translate.text_calls import TextCalls

if TYPE_CHECKING:
    from headway.config.config import Config
    from headway.decode.reference.model import ModelStepper
    from headway.inspect.html_page import PageWidget
    from headway.inspect.trace import Trace
    from headway.storage.model_dir import LoadedModel
    from headway.text.shortlist import Shortlist
    from headway.translate.alignment import Links
    from headway.translate.language_model import LanguageModel
    from headway.translate.pivot import PivotTranslator

__all__ = [
    "Guess",
    "ScoredPair",
    "Translation",
    "Translator",
    "choose_device",
    "load",
    "load_choice",
    "load_translator",
]

DEFAULT_BATCH_TOKENS = {"cpu": 4096, "cuda": 65_536}


def load(
    name: str | Path = "",
    device: str = "auto",
    engine: EngineName = "auto",
    compute: Compute = "auto",
    threads: int | None = None,
    allow_code: Sequence[str] = (),
) -> "Translator | PivotTranslator | LanguageModel":
    """Load a model as what it is: a Translator or a LanguageModel.

    name: a model directory, that of an adapter, the name of an installed model, or a direction like "de-en"; by default
        en-de. For a direction that only two installed models in a row have, a PivotTranslator
    engine: "native", "ctranslate2", "torch", or "auto" for the first of these that can run the model
    compute: "float32", "bfloat16" (on a GPU), "int8" (on a CPU), or "auto" for what the directory holds
    threads: of the CPU; by default all
    allow_code: packages whose classes the model may name as kinds, and so import: see docs/own-kinds.md
    See docs/translating.md."""
    own_kinds.allow_code(allow_code)
    choice = choose_route([name] if name else [])
    if isinstance(choice, PivotChoice):
        from headway.translate.pivot import PivotTranslator

        first, second = (load_choice(leg, device, engine, compute, threads) for leg in choice)
        return PivotTranslator(first, second, choice)
    return load_single(choice, device, engine, compute, threads)


def load_single(
    choice: ModelChoice | str | Path,
    device: str = "auto",
    engine: EngineName = "auto",
    compute: Compute = "auto",
    threads: int | None = None,
) -> "Translator | LanguageModel":
    """The same for a model that has been chosen, or its directory."""
    choice = choice if isinstance(choice, ModelChoice) else choose_models([choice])
    paths, engine, adapter = find_base(choice.paths, engine)
    model = make_loaded(Engines(paths, device, engine, compute, threads), choice.direction)
    return model.with_adapter(adapter) if adapter else model


def make_loaded(
    engines: Engines, direction: tuple[str, str] = ("", ""), batch_tokens: int | None = None
) -> "Translator | LanguageModel":
    """As what the model is."""
    if not has_source(engines.summary.objective):
        from headway.translate.task_model import make_language_model

        return make_language_model(engines)
    translator = Translator(engines, direction=direction)
    translator._batch_tokens = batch_tokens
    return translator


def load_translator(
    *names: str | Path,
    source: str = "",
    target: str = "",
    device: str = "auto",
    engine: EngineName = "auto",
    compute: Compute = "auto",
    threads: int | None = None,
    allow_code: Sequence[str] = (),
) -> "Translator":
    """Load one translator, or an ensemble of several; HeadwayError for a language model.

    source, target: languages, to choose a model or where it has several. The rest is as for `load`."""
    only: Any = names[0] if len(names) == 1 else None
    if isinstance(only, list | tuple):
        warnings.warn("load_translator([a, b]) is deprecated: write load_translator(a, b).", DeprecationWarning, 2)
        names = tuple(only)
    own_kinds.allow_code(allow_code)
    return load_choice(choose_models(names, source, target), device, engine, compute, threads)


def load_choice(
    choice: ModelChoice,
    device: str = "auto",
    engine: EngineName = "auto",
    compute: Compute = "auto",
    threads: int | None = None,
    log: Log | None = None,
    probe: EngineProbe | None = None,
) -> "Translator":
    """Load the translator, or the ensemble, that headway.storage.registry.choose_models has chosen.

    log: called with the engine that was chosen, and why; probe: what probe_engines found for the same arguments"""
    paths, engine, adapter = find_base(choice.paths, engine)
    engines = Engines(paths, device, engine, compute, threads, log, None if adapter else probe)
    for path, objective in zip(paths, engines.objectives):
        if not has_source(objective):
            verb = usual_verb(objective)
            raise HeadwayError(f"{path} is a language model and does not translate. Try: headway {verb} --model {path}")
    translator = Translator(engines, direction=choice.direction)
    return translator.with_adapter(adapter) if adapter else translator


class Translator(TextCalls):
    """A translation model, or an ensemble of models that share their tokenizer and their languages.

    translator("text", target="de")                               str
    translator(["one", "two"])                                    list[str]
    translator.translate(lines, TranslateOptions(target="de"))    list[Translation]: scores, n-best, warnings
    """

    def __init__(
        self,
        models: "Sequence[LoadedModel] | Engines",
        shortlist: "Shortlist | None" = None,
        direction: tuple[str, str] = ("", ""),
    ) -> None:
        """direction: source and target language where a call names none; "" if the model has only one."""
        self.engines = models if isinstance(models, Engines) else Engines(models=models, shortlist=shortlist)
        if self.engines.torch_free is None:
            check_ensemble(self.engines.loaded)
        self.on_sentences: Callable[[int], None] | None = None  # called in any thread with how many were searched for
        self.summary = self.engines.summary
        self.tokenizers = self.engines.tokenizers
        self.max_positions = self.engines.max_positions  # how many the models have learned; None: no limit
        self.special_tokens = self.engines.special_tokens
        self.source, self.target = direction
        self._batch_tokens: int | None = None
        self._adapted: LoadSettings | None = None  # where an adapter is over the model: its base, and the adapter

    def __repr__(self) -> str:
        settings = self._adapted or self.engines.load_settings
        name = "in memory" if settings is None else describe_paths(settings.paths)
        name += f" with {Path(self._adapted.adapter).name!r}" if self._adapted else ""
        languages = describe_languages(self.summary.source_languages, self.summary.target_languages)
        return f"<Translator {name}: {languages or 'languages unknown'}; {self.engines.describe()}>"

    def _repr_html_(self) -> str:
        """Notebooks show what it is."""
        from headway.translate.notebook import render_translator

        return render_translator(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by path and settings."""
        return reload_model, (self._load_settings(),)

    def __deepcopy__(self, memo: Any) -> "Translator":
        copied = load_settings(self._load_settings())
        assert isinstance(copied, Translator)
        return copied

    def _load_settings(self) -> LoadSettings:
        more: dict[str, Any] = {"direction": (self.source, self.target), "batch_tokens": self._batch_tokens}
        if self._adapted is not None:
            return self._adapted._replace(**more)
        return require_load_settings(self.engines, "translator", **more)

    def with_adapter(self, folder: str | Path) -> "Translator":
        """This model with an adapter that `headway.train(…, lora=8)` has made: another translator, which shares the
        weights of this one. Both can be used side by side, and any number of others. torch runs it."""
        from headway.translate.adapters import adapt_model

        adapted = Translator([adapt_model(self.engines, folder)], direction=(self.source, self.target))
        adapted._batch_tokens = self._batch_tokens
        adapted._adapted = self._load_settings()._replace(adapter=str(Path(folder).resolve()))
        return adapted

    @property
    def config(self) -> "Config":
        """Of the first model."""
        return self.engines.loaded[0].config

    @property
    def configs(self) -> "list[Config]":
        """Of all models of an ensemble."""
        return [loaded.config for loaded in self.engines.loaded]

    @property
    def steppers(self) -> "list[ModelStepper]":
        """The models as the reference search calls them, one by one."""
        return self.engines.torch.steppers

    @property
    def stepper(self) -> Any:
        """What the torch engine calls for the next token: the model, or the ensemble."""
        return self.engines.torch.stepper

    @stepper.setter
    def stepper(self, stepper: Any) -> None:
        self.engines.torch.stepper = stepper

    @property
    def device(self) -> str:
        """cpu or cuda"""
        return self.engines.device

    @property
    def batch_tokens(self) -> int:
        """Source tokens in a batch, padding counted."""
        if self._batch_tokens is None:
            return DEFAULT_BATCH_TOKENS.get(self.device, 4096)
        return self._batch_tokens

    @batch_tokens.setter
    def batch_tokens(self, count: int) -> None:
        self._batch_tokens = count

    def search(self, **changes: Any) -> Search:
        """The model's search settings with some of them changed; None changes nothing."""
        known = {name: value for name, value in changes.items() if value is not None}
        names = list(Search.__dataclass_fields__)
        for name in known:
            if name not in names:
                hint = did_you_mean(name, [*names, *TranslateOptions.__dataclass_fields__])
                raise ConfigError(f'there is no search setting "{name}".{hint} Known: {", ".join(names)}.')
        if known.get("sample"):
            known.setdefault("beam_size", 1)
        elif "n_best" in known:
            known.setdefault("beam_size", max(known["n_best"], self.summary.search.beam_size))
        return replace(self.summary.search, **known)

    def translate(
        self, lines: Sequence[str], options: TranslateOptions | None = None, **deprecated: Any
    ) -> Translations:
        """Translate lines: one Translation a line, in order.

        The former keywords (to, split, mend, min_score …) work for one more release, with a DeprecationWarning."""
        given: Any = options
        if isinstance(given, Search):
            deprecated = {"search": given, **deprecated}
            options = None
        if deprecated and options is not None:
            raise TypeError(f"give TranslateOptions alone, without {', '.join(deprecated)}.")
        first = deprecated.pop("first", 0)
        prefixes = deprecated.pop("prefixes", None)
        recorder = deprecated.pop("record", None)
        if first or prefixes is not None or recorder is not None:
            warnings.warn(
                "first, prefixes and record are deprecated: write translate_requests(translator, make_requests(lines, "
                "first, prefixes), TranslateOptions(…), recorder), both of headway.translate.search.",
                DeprecationWarning,
                stacklevel=2,
            )
        if deprecated:
            options = options_from_keywords(deprecated)
        requests = make_requests(lines, first, prefixes)
        return Translations(translate_requests(self, requests, options or TranslateOptions(), recorder))

    @functools.cached_property
    def repertoire(self) -> CharacterRepertoire:
        """The characters that the model can read and write: others are protected, or folded to their plain forms."""
        return make_repertoire(frozenset(self.summary.languages), self.tokenizers.source.characters)

    def reads_simplified(self, language: str | None) -> bool:
        """Whether text in this language is Chinese, of which the model has learned simplified characters alone."""
        return primary_language(language or "") == "zh" and self._reads_simplified_alone

    @functools.cached_property
    def _reads_simplified_alone(self) -> bool:
        from headway.text.chinese_script import reads_simplified_alone

        return reads_simplified_alone(self.tokenizers.source.characters)

    def calibration(self, target: str = "") -> Calibration | None:
        """What turns scores into a confidence, if `headway calibrate` has made it. An ensemble has none."""
        tag = (target or self.target) if self.summary.tags else ""
        if tag not in self._calibrations:
            paths = self.engines.paths
            self._calibrations[tag] = Calibration.load(Path(paths[0]), tag) if len(paths) == 1 else None
        return self._calibrations[tag]

    @functools.cached_property
    def _calibrations(self) -> dict[str, Calibration | None]:
        return {}

    def align(
        self, pairs: Sequence[tuple[str, str]], *, target: str = "", source: str = "", to: str | None = None
    ) -> "list[Links]":
        """Word alignment of each (source, target): pairs (i, j) of words between spaces, counted from 0."""
        from headway.translate.alignment import align_pairs

        return [aligned.links for aligned in align_pairs(self, pairs, resolve_target(target, to), source)]

    def score(
        self, pairs: Sequence[tuple[str, str]], *, target: str = "", source: str = "", to: str | None = None
    ) -> list[ScoredPair]:
        """How likely each target is, given its source: log-probabilities, token by token and summed."""
        from headway.translate.scoring import score_pairs

        return score_pairs(self, pairs, resolve_target(target, to), source)

    def widget(self, text: str, height: int = 900, **settings: Any) -> "PageWidget":
        """The page about one sentence, for a notebook cell. The settings are those of `trace`."""
        from headway.inspect.html_page import make_widget

        return make_widget(self, text, height, **settings)

    def trace(
        self, text: str, *, target: str = "", source: str = "", prefix: str | Sequence[int] = "",
        to: str | None = None, iteration: int | None = None, **settings: Any,
    ) -> "Trace":  # fmt: skip
        """Record everything that is computed while one sentence is translated: see headway.inspect.trace.

        The settings are those of a call, and so is the translation, but it is the model's raw output: nothing is done
        about protected spans or lost numbers. iteration: of mask-predict, whose tensors are recorded, from 0."""
        from headway.inspect.tracer import trace_translation

        options = TranslateOptions(source=source, target=resolve_target(target, to), search=self.search(**settings))
        return trace_translation(self, text, options, prefix=prefix, iteration=iteration)

    def direction_tokens(self, source: str = "", target: str = "") -> DirectionTokens:
        """The control tokens around texts of one direction. Raises HeadwayError for languages that the model lacks,
        or where it must be told."""
        tags = self.summary.tags
        target = target or self.target
        if target and self.summary.target_languages:
            target = self._resolve_language(target, self.summary.target_languages, "to")
        if tags and not target:
            raise HeadwayError(f"this model translates to {format_languages(tags)}: say which with --to.")
        source = source or self.source
        reader = self.tokenizers.source
        if reader.source_prefix or reader.source_suffix:  # of other models, the source only helps to split sentences
            target = target or next(iter(self.summary.target_languages), "")
            others = [language for language in self.summary.source_languages if language != target]
            if source and others:
                source = self._resolve_language(source, self.summary.source_languages, "from")
            elif len(others) == 1:
                source = others[0]
        return find_direction_tokens(self.tokenizers, source, target, tagged=bool(tags))

    def _resolve_language(self, given: str, known: Sequence[str], side: str) -> str:
        found = match_languages(given, known)
        if not found:
            message = f'this model does not translate {side} "{given}". It knows: {format_languages(known)}.'
            raise HeadwayError(message + did_you_mean(given, list(known)))
        if len(found) > 1:
            raise ConfigError(f'"{given}" may be {" or ".join(found)}: say which with --{side}.', side)
        return found[0]

    def encode_prefix(self, prefix: str | Sequence[int]) -> list[int]:
        """The tokens that an output is forced to begin with."""
        return self.tokenizers.target.encode(prefix) if isinstance(prefix, str) else list(prefix)

    def stop(self) -> None:
        """End translations that run in other threads: their caller has been interrupted."""
        self.engines.stop()
