"""A model of running text: goes on from a prompt, and says how likely a text is."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from headway.config.search import Marks, Search
from headway.decode import decode, stream
from headway.decode.reference.model import ModelStepper
from headway.errors import ConfigError, HeadwayError, did_you_mean
from headway.nn.positions.positions import Learned
from headway.storage.model_dir import Loaded
from headway.text.tokenizer.tokenizer import Stream as TextStream
from headway.train.dataset import marks_of
from headway.train.lm_dataset import behind_line_end, held_out, line_end, text_ids
from headway.train.validation import mean_loss

if TYPE_CHECKING:
    from headway.inspect.trace import Trace


class Perplexity(NamedTuple):
    loss: float  # nats a token
    tokens: int  # that were guessed: all but the first, or those that were hidden
    characters: float  # that these tokens stand for

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))

    @property
    def bits_per_character(self) -> float:
        return self.loss * self.tokens / math.log(2) / self.characters


class LanguageModel:
    """model("Once") -> the prompt and what follows."""

    def __init__(self, loaded: Loaded) -> None:
        self.config, self.model, tokenizers = loaded
        self.tokenizer = tokenizers.target
        self.stepper = ModelStepper(self.model.eval())
        controls = self.tokenizer.controls - {self.tokenizer.end}
        start = line_end(self.tokenizer)
        self.marks = Marks(start=start, end=self.tokenizer.end, suppress=tuple(sorted(controls)))

    def __call__(self, prompt: str = "", **settings: Any) -> str:
        prefix = self.prompt(prompt)
        found = decode(self.stepper, None, marks=self.marks, search=self.search(prefix, **settings), prefixes=[prefix])
        return self.said(found[0][0].ids)

    def stream(self, prompt: str = "", **settings: Any) -> Iterator[str]:
        """What follows the prompt, as it is written; a character is never torn. What is wrong is said at once."""
        prefix = self.prompt(prompt)
        return self._streamed(prefix, self.search(prefix, **settings))

    def _streamed(self, prefix: list[int], search: Search) -> Iterator[str]:
        text = self.after(prefix)
        for token in stream(self.stepper, None, marks=self.marks, search=search, prefix=prefix):
            yield text.push(token)
        yield text.finish()

    def search(self, prefix: list[int], **changes: Any) -> Search:
        """Drawn at random unless beam_size is given; `length`: new tokens at most."""
        known = {name: value for name, value in changes.items() if value is not None}
        longest = len(prefix) + int(known.pop("length", 200))
        names = [name for name in Search.__dataclass_fields__ if name not in ("max_length", "max_extra", "max_ratio")]
        for name in known:
            if name not in names:
                hint = did_you_mean(name, ["length", *names])
                raise ConfigError(f'there is no setting "{name}".{hint} Known: length, {", ".join(names)}.')
        for part in self.config.model.decoder.position:
            if isinstance(part, Learned.Config):  # there are no positions after its last
                longest = min(longest, part.longest)
        if longest <= len(prefix):
            raise HeadwayError(f"the prompt has {len(prefix)} tokens, and this model reads {longest}. Shorten it.")
        known.setdefault("sample", "beam_size" not in known)
        known.setdefault("beam_size", 1)
        return replace(Search(beam_size=1), max_length=longest, **known)

    def perplexity(self, text: str) -> Perplexity:
        """Of a text, read in pieces as long as those of the training."""
        ids = text_ids(text, self.tokenizer)
        if not text.strip() or len(ids) < 3:
            raise HeadwayError("this text is too short to measure: it needs a few words.")
        corpus = held_out(ids, self.config.train.longest, self.config.train.objective)
        measured = mean_loss(self.model, corpus, self.config, marks_of(self.tokenizer))
        return Perplexity(
            measured.loss, measured.tokens, len(text) * measured.tokens / (len(ids) - 1)
        )  # one is no text

    def trace(self, text: str = "", **settings: Any) -> "Trace":
        """Everything that is computed while the text is read and gone on from: see headway.inspect.trace.

        The settings are those of a call; length=0 only reads, as a model that guesses hidden words always does."""
        from headway.inspect.tracer import trace_text

        return trace_text(self, text, settings)

    def prompt(self, text: str) -> list[int]:
        """The ids of a text that is to be gone on from; marks.start stands before them."""
        if self.config.train.objective.kind != "causal":
            raise HeadwayError(
                "this model guesses hidden words and does not write on. Try: headway evaluate --text FILE"
            )
        return self.read(text)

    def read(self, text: str) -> list[int]:
        """The ids of a text that begins as every line of a longer one does."""
        return behind_line_end(text, self.tokenizer)

    def said(self, ids: Sequence[int]) -> str:
        """The text of ids that stand behind marks.start."""
        return self.tokenizer.decode([self.marks.start, *ids]).removeprefix("\n")

    def after(self, ids: Sequence[int]) -> TextStream:
        """The text that follows these, as it comes."""
        text = self.tokenizer.stream()
        for token in (self.marks.start, *ids):
            text.push(token)
        return text
