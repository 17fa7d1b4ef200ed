"""Text in, text out: sentences, tokens, search, and a second try where something went wrong."""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from headway.config.search import Search
from headway.decode.ctranslate2.probe import Quick
from headway.decode.types import Compute, EngineName, Recorder
from headway.device import choose_device
from headway.errors import ConfigError, HeadwayError, did_you_mean
from headway.storage.registry import choose
from headway.text.spans.protect import protector
from headway.text.spans.unknown_script import strange_words
from headway.translate.backends import Engines, Tell, marks_of, refuse_strangers
from headway.translate.confidence import Calibration, refuse_min_score
from headway.translate.results import Guess, Scored, Translation, joined
from headway.translate.search import find
from headway.translate.source import Reader

if TYPE_CHECKING:
    from headway.config.config import Config
    from headway.decode.reference.model import ModelStepper
    from headway.inspect.trace import Trace
    from headway.storage.model_dir import Loaded
    from headway.text.glossary import Glossary
    from headway.text.shortlist import Shortlist
    from headway.translate.alignment import Links
    from headway.translate.language_model import LanguageModel

__all__ = ["Guess", "Scored", "Translation", "Translator", "choose_device", "load", "load_translator"]

BATCH_TOKENS = {"cpu": 4096, "cuda": 65_536}


def load(
    path: str | Path = "", device: str = "auto", engine: EngineName = "auto", compute: Compute = "auto",
    threads: int | None = None,
) -> "Translator | LanguageModel":  # fmt: skip
    """A model, as what it is: a Translator, or a LanguageModel.

    path: its directory, the name of an installed one, or a direction like "de-en"; without it, en-de.
    engine: "torch", "ctranslate2", or "auto" for what is there first; compute: "float32", "bfloat16" (on a GPU), "int8"
    (on a CPU), or "auto" for what the directory holds; threads: how many to compute with. See docs/translating.md."""
    choice = choose([path] if path else [])
    engines = Engines(choice.paths, device, engine, compute, threads)
    if engines.outline.objective == "translation":
        return Translator(engines, direction=(choice.source, choice.target))
    from headway.translate.language_model import LanguageModel

    return LanguageModel(engines.loaded[0])


def load_translator(
    paths: Sequence[str | Path], device: str = "auto", engine: EngineName = "auto", compute: Compute = "auto",
    threads: int | None = None, tell: Tell | None = None, quick: Quick | None = None,
    direction: tuple[str, str] = ("", ""),
) -> "Translator":  # fmt: skip
    """One model, or several that vote; refused with a reason where they do not translate.

    tell: is told which engine searches, and why; quick: what quick_model made of the same requests."""
    engines = Engines(paths, device, engine, compute, threads, tell, quick)
    for path, objective in zip(paths, engines.objectives):
        if objective != "translation":
            raise HeadwayError(
                f"{path} is a language model and does not translate. Try: headway generate --model {path}"
            )
    return Translator(engines, direction=direction)


class Translator:
    """translator("text") -> str; translator([…]) -> list; translate([…]) -> everything that is known.

    Several models vote: they must share their tokenizer and their languages.
    """

    def __init__(
        self, models: "Sequence[Loaded] | Engines", shortlist: "Shortlist | None" = None,
        direction: tuple[str, str] = ("", ""),
    ) -> None:  # fmt: skip
        """direction: what is meant where a call does not say `to`; "" for what the model has only one of."""
        self.engines = models if isinstance(models, Engines) else Engines.of(models, shortlist)
        if self.engines.ct2 is None:
            refuse_strangers(self.engines.loaded)
        self.outline, self.tokenizers = self.engines.outline, self.engines.tokenizers
        self.positions = self.engines.positions  # where the learned ones of the models end; None if they have no end
        self.marks = marks_of(self.tokenizers.target)
        self.source, self.target = direction
        self._batch_tokens: int | None = None

    @property
    def config(self) -> "Config":
        return self.engines.loaded[0].config

    @property
    def configs(self) -> "list[Config]":
        return [loaded.config for loaded in self.engines.loaded]

    @property
    def steppers(self) -> "list[ModelStepper]":
        return self.engines.torch.steppers

    @property
    def stepper(self) -> Any:
        """What the torch engine asks for the next token."""
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
        """Tokens searched at once, padding counted."""
        if self._batch_tokens is None:
            return BATCH_TOKENS.get(self.device, 4096)
        return self._batch_tokens

    @batch_tokens.setter
    def batch_tokens(self, count: int) -> None:
        self._batch_tokens = count

    @overload
    def __call__(self, text: str, **settings: Any) -> str: ...
    @overload
    def __call__(self, text: Sequence[str], **settings: Any) -> list[str]: ...
    def __call__(self, text: str | Sequence[str], *, return_scores: bool = False, to: str = "", **settings: Any) -> Any:
        """The best translation. Settings are those of the search: beam_size, alpha, penalty, max_length …

        return_scores gives (text, score) in place of text.
        """
        if not isinstance(text, str | Sequence):
            raise HeadwayError(f"give a text or a list of texts: this is {text!r}.")
        lines = [text] if isinstance(text, str) else list(text)
        search = self.search(**settings)
        if search.n_best > 1 and "n_best" in settings:
            raise ConfigError("this gives one translation each; translate([…], search) gives all of them.", "n_best")
        results = self.translate(lines, search, to=to)
        answers = [(result.text, result.score) if return_scores else result.text for result in results]
        return answers[0] if isinstance(text, str) else answers

    def search(self, **changes: Any) -> Search:
        """The model's own way to search, with some things changed; None changes nothing."""
        known = {name: value for name, value in changes.items() if value is not None}
        names = list(Search.__dataclass_fields__)
        for name in known:
            if name not in names:
                hint = did_you_mean(name, names)
                raise ConfigError(f'there is no search setting "{name}".{hint} Known: {", ".join(names)}.')
        if known.get("sample"):
            known.setdefault("beam_size", 1)
        elif "n_best" in known:
            known.setdefault("beam_size", max(known["n_best"], self.outline.search.beam_size))
        return replace(self.outline.search, **known)

    def translate(
        self,
        lines: Sequence[str],
        search: Search | None = None,
        *,
        to: str = "",
        source: str = "",
        split: bool = True,
        prefixes: Sequence[str | Sequence[int]] | None = None,
        first: int = 0,
        mend: bool = True,
        record: Recorder | None = None,
        align: bool = False,
        protect: Sequence[str] | None = (),
        glossary: "Glossary | Mapping[str, str] | None" = None,
        min_score: float = 0.0,
    ) -> list[Translation]:
        """One Translation a line, in order.

        source: the language of the lines, where the model has several
        split: a line of several sentences is taken apart and joined again
        prefixes: how each output must begin, as text or as tokens; of several sentences, the first
        first: the number of the first line, which with the seed decides what is drawn
        mend: decode again, otherwise, where the output is a loop, a copy or nothing, or lacks a number
        record: is told every step of every search; each begins anew with step 0
        align: with which source word says which word of each guess; see headway.translate.alignment
        protect: regular expressions for what must stay as it is, besides the usual (see headway.text.spans.protect); None:
            nothing must
        glossary: translations that are given, by their sources
        min_score: a line whose confidence is less stays as it was; for a model that has been calibrated
        """
        if isinstance(lines, str):
            raise HeadwayError("translate takes a list of lines, and was given a string. Write [text].")
        for line in lines:
            if not isinstance(line, str):
                raise HeadwayError(f"a line is a string, and this is {line!r}.")
        if prefixes is not None and len(prefixes) != len(lines):
            raise HeadwayError(
                f"{len(prefixes)} prefixes for {len(lines)} lines. Give one for each line, or none at all."
            )
        search = search or self.outline.search
        if glossary is not None and search.sample:
            raise ConfigError("a glossary needs a search, and this draws at random. Leave one of them out.", "sample")
        refuse_min_score(min_score, self, to)
        plain = all(line.isascii() for line in lines)  # then there is nothing that strange words could be in
        keeper = None if protect is None else protector(tuple(protect), None if plain else self.strange)
        others = [one for one in self.outline.source_languages if one != (to or self.target)]
        language = source or self.source or next(iter(others or self.outline.source_languages), None)
        reader = Reader(
            self.tokenizers.source, self.tag(to), self.outline.longest, language, split, keeper,
            self.outline.placeholders, None if glossary is None else as_glossary(glossary),
        )  # fmt: skip
        forced: Sequence[str | Sequence[int]] = [""] * len(lines) if prefixes is None else prefixes
        read = [reader.read(line, first + index, forced[index]) for index, line in enumerate(lines)]
        sentences = [sentence for line in read for sentence in line.sentences]
        find(self, sentences, search, record, mend, keeper)
        if align:
            from headway.translate.alignment import align_sentences

            align_sentences(self, sentences)
        for one in read:
            one.judge = lambda: self.calibration(to)
        return [joined(one, self.tokenizers.target, align).unless_doubtful(min_score) for one in read]

    @functools.cached_property
    def strange(self) -> re.Pattern[str] | None:
        """What finds words that the model cannot say."""
        return strange_words(frozenset(self.outline.languages), self.tokenizers.source.characters)

    def calibration(self, to: str = "") -> Calibration | None:
        """What says how likely a translation is good, where `headway calibrate` has made it. One model alone has it."""
        paths, tag = self.engines.paths, (to or self.target) if self.outline.tags else ""
        if tag not in self._calibrations:
            self._calibrations[tag] = Calibration.load(Path(paths[0]), tag) if len(paths) == 1 else None
        return self._calibrations[tag]

    @functools.cached_property
    def _calibrations(self) -> dict[str, Calibration | None]:
        return {}

    def align(self, pairs: Sequence[tuple[str, str]], *, to: str = "") -> "list[Links]":
        """Which source word says which target word: for each pair, (i, j) of words between spaces, counted from 0."""
        from headway.translate.alignment import align_pairs

        return [aligned.links for aligned in align_pairs(self, pairs, to)]

    def score(self, pairs: Sequence[tuple[str, str]], *, to: str = "") -> list[Scored]:
        """How likely each target is, given its source: log-probabilities, token by token and summed."""
        from headway.translate.scoring import score_pairs

        return score_pairs(self, pairs, to)

    def trace(self, text: str, *, to: str = "", prefix: str = "", **settings: Any) -> "Trace":
        """Everything that happens while one sentence is translated, computed in the open: see headway.inspect.trace.

        The settings are those of a call, and so is the translation, as the model says it: spans and numbers that a call
        puts in afterwards are not."""
        from headway.inspect.tracer import trace_translation

        return trace_translation(self, text, self.search(**settings), to=to, prefix=prefix)

    def tag(self, to: str) -> list[int]:
        """The ids that name the target language, where the model has several."""
        to, tags, known = to or self.target, self.outline.tags, self.outline.target_languages
        if to and known and to not in known:
            raise HeadwayError(f'this model does not translate to "{to}". It knows: {", ".join(known)}.')
        if tags and not to:
            raise HeadwayError(f"this model translates to {', '.join(tags)}: say which with --to.")
        return [self.tokenizers.source.tags[to]] if tags else []

    def forced(self, prefix: str | Sequence[int]) -> list[int]:
        """The tokens that an output begins with."""
        return self.tokenizers.target.encode(prefix) if isinstance(prefix, str) else list(prefix)

    def stop(self) -> None:
        """End what other threads are translating: whoever waits for it has been interrupted."""
        self.engines.stop()


def as_glossary(terms: "Glossary | Mapping[str, str]") -> "Glossary":
    from headway.text.glossary import Glossary

    return terms if isinstance(terms, Glossary) else Glossary(terms)
