"""Text in, text out: sentences, tokens, search, and signs that something went wrong."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch

from headway.decode import Hypothesis, decode
from headway.decode.model import Ensemble, ModelStepper
from headway.decode.settings import Marks, Search
from headway.errors import ConfigError, HeadwayError
from headway.model_dir import Loaded, load_model
from headway.nn.transformer import valid_places
from headway.text import copied, repeated, split_long, split_sentences
from headway.text.sentences import segments

if TYPE_CHECKING:
    from headway.language_model import LanguageModel

Progress = Callable[[int], None]  # told how many sentences are done
BATCH_TOKENS = {"cpu": 4096, "cuda": 65_536}  # padding counted


@dataclass(frozen=True)
class Guess:
    """One translation of a line."""

    text: str
    score: float  # of its sentences, added up: log-probability over length penalty
    logp: float
    tokens: list[int]
    token_logps: list[float]


@dataclass(frozen=True)
class Translation:
    """What became of one line: the best guess first, and what the reader should know."""

    source: str
    guesses: list[Guess]
    warnings: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.guesses[0].text

    @property
    def score(self) -> float:
        return self.guesses[0].score


@dataclass
class Sentence:
    before: str  # the spacing in front of it
    text: str
    ids: list[int]
    found: list[Hypothesis] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def load(path: str | Path, device: str = "auto") -> "Translator | LanguageModel":
    """The model in a directory, as what it is: a Translator, or a LanguageModel."""
    loaded = load_model(path, choose_device(device))
    if loaded.config.train.objective.kind == "translation":
        return Translator([loaded])
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
    return Translator(loaded)


def choose_device(name: str = "auto") -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f'"{name}" is not a device. Choose auto, cpu, cuda or cuda:0, cuda:1 …') from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise HeadwayError(f'the device "{name}" was asked for, but PyTorch sees no GPU here. Use --device cpu.')
    return device


class Translator:
    """translator("text") -> str; translator([…]) -> list; translate([…]) -> everything that is known.

    Several models vote: they must share their tokenizer.
    """

    def __init__(self, models: Sequence[Loaded]) -> None:
        self.config, _, self.tokenizers = models[0]
        prints = [(m.tokenizers.source.fingerprint(), m.tokenizers.target.fingerprint()) for m in models]
        if len(set(prints)) > 1:
            raise HeadwayError(
                "these models have different tokenizers, so they cannot vote together. Train them with the same text "
                "and settings but another train.seed."
            )
        self.steppers = [ModelStepper(loaded.model.eval()) for loaded in models]
        self.stepper: Any = self.steppers[0] if len(models) == 1 else Ensemble(self.steppers)
        target = self.tokenizers.target
        self.marks = Marks(start=target.start, end=target.end, suppress=tuple(sorted(target.controls - {target.end})))

    @overload
    def __call__(self, text: str, **settings: Any) -> str: ...
    @overload
    def __call__(self, text: Sequence[str], **settings: Any) -> list[str]: ...
    def __call__(self, text: str | Sequence[str], *, return_scores: bool = False, to: str = "", **settings: Any) -> Any:
        """Settings are those of the search: beam_size, alpha, penalty, n_best, max_length …

        return_scores gives (text, score) in place of text.
        """
        lines = [text] if isinstance(text, str) else list(text)
        search = self.search(**settings)
        results = self.translate(lines, search, to=to)
        answers = [(result.text, result.score) if return_scores else result.text for result in results]
        return answers[0] if isinstance(text, str) else answers

    def search(self, **changes: Any) -> Search:
        """The model's own way to search, with some things changed."""
        known = {name: value for name, value in changes.items() if value is not None}
        unknown = [name for name in known if name not in Search.__dataclass_fields__]
        if unknown:
            allowed = ", ".join(Search.__dataclass_fields__)
            raise ConfigError(f'there is no search setting "{unknown[0]}". Known: {allowed}.')
        if known.get("n_best", 1) > known.get("beam_size", self.config.search.beam_size):
            known.setdefault("beam_size", known["n_best"])
        return replace(self.config.search, **known)

    def translate(
        self,
        lines: Sequence[str],
        search: Search | None = None,
        *,
        to: str = "",
        split: bool = True,
        batch_tokens: int | None = None,
        prefixes: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> list[Translation]:
        """One Translation a line, in order. `split`: a line of several sentences is taken apart and joined again."""
        search = search or self.config.search
        if prefixes is not None and split:
            split = False  # a prefix is the beginning of a whole line
        taken = [self._sentences(line, to, split) for line in lines]
        forced = None if prefixes is None else {id(t[0][0]): p for t, p in zip(taken, prefixes) if t[0]}
        budget = batch_tokens or BATCH_TOKENS.get(self.stepper.device.type, 4096)
        self._decode([s for sentences, _ in taken for s in sentences], search, budget, forced, progress)
        return [self._joined(line, *parts) for line, parts in zip(lines, taken)]

    def _sentences(self, line: str, to: str, split: bool) -> tuple[list[Sentence], str]:
        """The sentences of a line, none longer than the model has learned, and the spacing at its end."""
        language = self.config.source_languages[0] if self.config.source_languages else None
        found = split_sentences(line, language) if split else segments([line])
        lead = self._tag(to)
        end = self.tokenizers.source.end
        room = self.config.train.longest - len(lead) - 1
        sentences, tail = [], ""
        encode = self.tokenizers.source.encode
        for before, text in found:
            if not text:
                tail = before
                continue
            pieces = [(before, text)]
            warnings = []
            if len(encode(text)) > room:
                cut = split_long(text, room, lambda piece: len(encode(piece)))
                pieces = [(before + cut[0].before, cut[0].text), *cut[1:]]
                warnings = [f"a sentence of {len(encode(text))} tokens was translated in {len(pieces)} pieces"]
            for space, piece in pieces:
                sentences.append(Sentence(space, piece, [*lead, *encode(piece), end], warnings=warnings))
                warnings = []
        return sentences, tail

    def _tag(self, to: str) -> list[int]:
        tags, known = self.config.tags, self.config.target_languages
        if to and known and to not in known:
            raise HeadwayError(f'this model does not translate to "{to}". It knows: {", ".join(known)}.')
        if tags and not to:
            raise HeadwayError(f"this model translates to {', '.join(tags)}: say which with --to.")
        return [self.tokenizers.source.tags[to]] if tags else []

    def _decode(
        self,
        sentences: list[Sentence],
        search: Search,
        batch_tokens: int,
        forced: dict[int, str] | None,
        progress: Progress | None,
    ) -> None:
        """Search for all, like lengths together; then once more, otherwise, where it went wrong."""
        for batch in _batches(sentences, batch_tokens // max(search.beam_size // 4, 1)):
            prefixes = None
            if forced is not None:
                prefixes = [self.tokenizers.target.encode(forced.get(id(s), "")) for s in batch]
            self._search(batch, search, prefixes)
            if forced is None and not search.sample:
                suspects = [s for s in batch if self._fault(s, s.found[0])]
                self._again(suspects, search)
            for sentence in batch:
                if not sentence.found[0].finished:
                    sentence.warnings.append(f"the output was cut at {len(sentence.found[0].ids)} tokens")
            if progress is not None:
                progress(len(batch))

    def _search(self, batch: list[Sentence], search: Search, prefixes: list[list[int]] | None = None) -> None:
        device = self.stepper.device
        lengths = torch.tensor([len(s.ids) for s in batch])
        longest = int(lengths.max())
        ids = torch.tensor([s.ids + [self.tokenizers.source.pad] * (longest - len(s.ids)) for s in batch])
        valid = None if bool((lengths == longest).all()) else valid_places(lengths, longest).to(device)
        found = decode(self.stepper, ids.to(device), valid, marks=self.marks, search=search, prefixes=prefixes)
        for sentence, hypotheses in zip(batch, found):
            sentence.found = hypotheses

    def _fault(self, sentence: Sentence, found: Hypothesis) -> str:
        if repeated(found.ids) and not repeated(sentence.ids):
            return "the output went round in a loop"
        target = self.tokenizers.target.decode(found.ids)
        same = set(self.config.source_languages) & set(self.config.target_languages)
        if not same and copied(sentence.text, target):
            return "the output was a copy of the input"
        return ""

    def _again(self, suspects: list[Sentence], search: Search) -> None:
        """A wider search that may not repeat itself; the first result without a fault is taken."""
        if not suspects:
            return
        before = [(s, self._fault(s, s.found[0]), s.found) for s in suspects]
        wider = replace(search, beam_size=max(8, search.beam_size), n_best=max(8, search.n_best), no_repeat_ngram=3)
        self._search(suspects, wider)
        for sentence, fault, first in before:
            sound = [h for h in sentence.found if not self._fault(sentence, h)]
            sentence.found = (sound or first)[: search.n_best]
            mended = "another was found" if sound else "nothing better was found"
            sentence.warnings.append(f"{fault}; {mended}")

    def _joined(self, line: str, sentences: list[Sentence], tail: str) -> Translation:
        """Sentences with their own spacing; the i-th guess of a line is made of the i-th of each sentence."""
        count = max((len(s.found) for s in sentences), default=1)
        guesses = []
        for rank in range(count):
            found = [s.found[min(rank, len(s.found) - 1)] for s in sentences]
            texts = [s.before + self.tokenizers.target.decode(h.ids).strip() for s, h in zip(sentences, found)]
            guesses.append(
                Guess(
                    "".join(texts) + tail,
                    sum(h.score for h in found),
                    sum(h.logp for h in found),
                    [i for h in found for i in h.ids],
                    [p for h in found for p in h.token_logps],
                )
            )
        return Translation(line, guesses, [w for s in sentences for w in s.warnings])


def _batches(sentences: list[Sentence], budget: int) -> Iterator[list[Sentence]]:
    """Longest first, so that what does not fit in memory fails at once; `budget` tokens each, padding counted."""
    order = np.argsort([-len(s.ids) for s in sentences], kind="stable")
    batch: list[Sentence] = []
    for index in order:
        sentence = sentences[index]
        if batch and (len(batch) + 1) * len(batch[0].ids) > budget:
            yield batch
            batch = []
        batch.append(sentence)
    if batch:
        yield batch
