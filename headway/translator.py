"""Text in, text out: sentences, tokens, search, and a second try where something went wrong."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from headway.alignment import Links, align_ids, align_pairs
from headway.decode import Hypothesis, Recorder, decode
from headway.decode.model import Ensemble, ModelStepper
from headway.decode.rows import batches, padded
from headway.decode.settings import Marks, Search
from headway.device import choose_device
from headway.errors import ConfigError, HeadwayError, did_you_mean
from headway.model_dir import Loaded, load_model
from headway.scoring import Scored, score_pairs
from headway.text import copied, repeated
from headway.text.shortlist import Shortlist, shortlist_of
from headway.translation import Guess, Reader, Sentence, Translation, joined

if TYPE_CHECKING:
    from headway.inspect.trace import Trace
    from headway.language_model import LanguageModel

__all__ = ["Guess", "Scored", "Translation", "Translator", "choose_device", "load", "load_translator"]

BATCH_TOKENS = {"cpu": 4096, "cuda": 65_536}  # padding counted


def load(path: str | Path, device: str = "auto") -> "Translator | LanguageModel":
    """The model in a directory, as what it is: a Translator, or a LanguageModel."""
    loaded = load_model(path, choose_device(device))
    if loaded.config.train.objective.kind == "translation":
        return Translator([loaded], shortlist_of([path], loaded.tokenizers))
    from headway.language_model import LanguageModel

    return LanguageModel(loaded)


def load_translator(paths: Sequence[str | Path], device: str = "auto") -> "Translator":
    """One model, or several that vote; refused with a reason where they do not translate."""
    loaded = [load_model(path, choose_device(device)) for path in paths]
    for path, one in zip(paths, loaded):
        if one.config.train.objective.kind != "translation":
            raise HeadwayError(
                f"{path} is a language model and does not translate. Try: headway generate --model {path}"
            )
    return Translator(loaded, shortlist_of(paths, loaded[0].tokenizers))


class Translator:
    """translator("text") -> str; translator([…]) -> list; translate([…]) -> everything that is known.

    Several models vote: they must share their tokenizer and their languages.
    """

    def __init__(self, models: Sequence[Loaded], shortlist: Shortlist | None = None) -> None:
        self.config, _, self.tokenizers = models[0]
        self.configs = [loaded.config for loaded in models]
        _refuse_strangers(models)
        self.steppers = [ModelStepper(loaded.model.eval()) for loaded in models]
        self.stepper: Any = self.steppers[0] if len(models) == 1 else Ensemble(self.steppers)
        self.stepper.shortlist = shortlist
        self.batch_tokens = BATCH_TOKENS.get(self.stepper.device.type, 4096)
        self.positions = _fewest_positions(models)
        target = self.tokenizers.target
        self.marks = Marks(start=target.start, end=target.end, suppress=tuple(sorted(target.controls - {target.end})))

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
            known.setdefault("beam_size", max(known["n_best"], self.config.search.beam_size))
        return replace(self.config.search, **known)

    def translate(
        self,
        lines: Sequence[str],
        search: Search | None = None,
        *,
        to: str = "",
        split: bool = True,
        prefixes: Sequence[str] | None = None,
        first: int = 0,
        mend: bool = True,
        record: Recorder | None = None,
        align: bool = False,
    ) -> list[Translation]:
        """One Translation a line, in order.

        split: a line of several sentences is taken apart and joined again
        prefixes: how each output must begin; of several sentences, the first
        first: the number of the first line, which with the seed decides what is drawn
        mend: decode again, otherwise, where the output is a loop, a copy or nothing
        record: is told every step of every search; each begins anew with step 0
        align: with which source word says which word of each guess; see headway.alignment
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
        search = search or self.config.search
        language = self.config.source_languages[0] if self.config.source_languages else None
        longest = self.config.train.longest
        reader = Reader(self.tokenizers.source, self.tag(to), longest, language, split)
        forced = [""] * len(lines) if prefixes is None else prefixes
        read = [reader.read(line, first + index, forced[index]) for index, line in enumerate(lines)]
        sentences = [sentence for line in read for sentence in line.sentences]
        self._search(sentences, search, record)
        if mend and not search.sample:
            self._mend([s for s in sentences if not s.prefix and self._fault(s, s.found[0])], search, record)
        for sentence in sentences:
            if not sentence.found[0].finished:
                sentence.warnings.append(f"the output was cut at {len(sentence.found[0].ids)} tokens")
        if align:
            found = [(s.ids, h.ids) for s in sentences for h in s.found]
            links = iter(align_ids(self, [ids for ids, _ in found], [ids for _, ids in found]))
            for sentence in sentences:
                sentence.links = [next(links) for _ in sentence.found]
        return [joined(line, self.tokenizers.target, align) for line in read]

    def align(self, pairs: Sequence[tuple[str, str]], *, to: str = "") -> list[Links]:
        """Which source word says which target word: for each pair, (i, j) of words between spaces, counted from 0."""
        return [aligned.links for aligned in align_pairs(self, pairs, to)]

    def score(self, pairs: Sequence[tuple[str, str]], *, to: str = "") -> list[Scored]:
        """How likely each target is, given its source: log-probabilities, token by token and summed."""
        return score_pairs(self, pairs, to)

    def trace(self, text: str, *, to: str = "", prefix: str = "", **settings: Any) -> "Trace":
        """Everything that happens while one sentence is translated, computed in the open: see headway.inspect.trace.

        The settings are those of a call, and so is the translation."""
        from headway.inspect.tracing import trace_translation

        return trace_translation(self, text, self.search(**settings), to=to, prefix=prefix)

    def tag(self, to: str) -> list[int]:
        """The ids that name the target language, where the model has several."""
        tags, known = self.config.tags, self.config.target_languages
        if to and known and to not in known:
            raise HeadwayError(f'this model does not translate to "{to}". It knows: {", ".join(known)}.')
        if tags and not to:
            raise HeadwayError(f"this model translates to {', '.join(tags)}: say which with --to.")
        return [self.tokenizers.source.tags[to]] if tags else []

    def _search(self, sentences: list[Sentence], search: Search, record: Recorder | None) -> None:
        """Search for all, like lengths together. No output goes on where the positions of a model end."""
        end = math.inf if self.positions is None else self.positions
        long = [s for s in sentences if search.limit(len(s.ids)) > end]
        rest = [s for s in sentences if search.limit(len(s.ids)) <= end]
        for part, how in ((long, replace(search, max_length=self.positions) if long else search), (rest, search)):
            for batch in batches(part, lambda s: len(s.ids), self.batch_tokens // max(search.beam_size // 4, 1)):
                self._search_batch(batch, how, record)

    def _search_batch(self, batch: list[Sentence], search: Search, record: Recorder | None) -> None:
        ids, valid = padded([s.ids for s in batch], self.tokenizers.source.pad, self.stepper.device)
        prefixes = [self.tokenizers.target.encode(s.prefix) for s in batch] if any(s.prefix for s in batch) else None
        numbers = [s.number for s in batch]
        found = decode(
            self.stepper, ids, valid, marks=self.marks, search=search, prefixes=prefixes, lines=numbers, record=record
        )  # fmt: skip
        for sentence, hypotheses in zip(batch, found):
            sentence.found = hypotheses

    def _fault(self, sentence: Sentence, found: Hypothesis) -> str:
        if repeated(found.ids) and not repeated(sentence.ids):
            return "the output went round in a loop"
        target = self.tokenizers.target.decode(found.ids)
        if not target.strip() and any(character.isalnum() for character in sentence.text):
            return "the output was empty"
        same = set(self.config.source_languages) & set(self.config.target_languages)
        if not same and copied(sentence.text, target):
            return "the output was a copy of the input"
        return ""

    def _mend(self, suspects: list[Sentence], search: Search, record: Recorder | None) -> None:
        """A wider search that may not repeat itself; what it finds without a fault is taken."""
        before = [(s, self._fault(s, s.found[0]), s.found) for s in suspects]
        wide = max(8, search.beam_size)
        self._search(suspects, replace(search, beam_size=wide, n_best=wide, no_repeat_ngram=3), record)
        for sentence, fault, first in before:
            sound = [h for h in sentence.found if not self._fault(sentence, h)]
            sentence.found = (sound or first)[: search.n_best]
            mended = "another was found" if sound else "nothing better was found"
            sentence.warnings.append(f"{fault}; {mended}")


def _refuse_strangers(models: Sequence[Loaded]) -> None:
    """Models that vote must mean the same by each id, and translate between the same languages."""
    prints = {(m.tokenizers.source.fingerprint(), m.tokenizers.target.fingerprint()) for m in models}
    if len(prints) > 1:
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


def _fewest_positions(models: Sequence[Loaded]) -> int | None:
    """Where the learned positions of the models end; None if they have no end."""
    stacks = [getattr(loaded.config.model, side) for loaded in models for side in loaded.config.model.sides]
    return min((part.longest for stack in stacks for part in stack.position if part.kind == "learned"), default=None)
