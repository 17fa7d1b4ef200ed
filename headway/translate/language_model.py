"""LanguageModel: continue a prompt, token by token, and measure how likely a text is; guess masked words, and make
vectors of texts.

Made by `headway.load` of a causal model (GPT) or a masked one (BERT), which only reads."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from headway.config.objective_kinds import continues_text
from headway.config.search import Search
from headway.decode import decode, stream
from headway.decode.reference.model import ModelStepper
from headway.decode.reference.retrieval import RetrievalStepper
from headway.decode.reference.several_ends import SeveralEnds
from headway.errors import ConfigError, HeadwayError, did_you_mean
from headway.files.notebook_html import render_table
from headway.nn.positions.positions import Learned
from headway.nn.sequence import Neighbours
from headway.storage.model_dir import LoadedModel
from headway.text.lm_text import encode_after_line_end, frame_text, line_end_id
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.text.tokenizer.tokenizer import StreamDecoder, Tokenizer
from headway.translate.adapters import adapt_model
from headway.translate.masked_words import MaskedWord, fill_masks
from headway.translate.next_sentence import judge_pair
from headway.translate.reloading import (
    LoadSettings,
    describe_paths,
    load_settings,
    reload_model,
    require_load_settings,
)
from headway.translate.retriever import Retriever, open_retriever
from headway.translate.text_vectors import embed_texts

if TYPE_CHECKING:
    import numpy as np

    from headway.inspect.html_page import PageWidget
    from headway.inspect.trace import Trace
    from headway.nn.transformer import Transformer
    from headway.translate.backends import Engines
    from headway.workflows.evaluation import Perplexity

NO_INDEX = "none"  # read and write without neighbours
DEFAULT_LENGTH = 200  # new tokens
LENGTH_SETTINGS = ("max_length", "max_extra", "max_ratio")  # of a Search; a language model has `length` instead


class Prompt(NamedTuple):
    """A text to be continued."""

    special_tokens: SpecialTokens  # whose start is the first id that the model reads
    prefix: list[int]  # the ids after it


def list_suppressed(tokenizer: Tokenizer) -> frozenset[int]:
    """The ids that a language model never writes. Those of other toolkits write every id that they write there."""
    if isinstance(tokenizer, ImportedTokenizer):
        return tokenizer.listed_suppressed
    return frozenset(tokenizer.control_ids - {tokenizer.end})


class LanguageModel:
    """A causal or masked language model: model("Once") gives the prompt and its continuation."""

    def __init__(self, loaded: LoadedModel, engines: "Engines | None" = None) -> None:
        """engines: that have loaded it, from a directory."""
        self.loaded = loaded
        self.config, self.model, tokenizers = loaded
        self.engines = engines
        self._adapted: LoadSettings | None = None  # where an adapter is over the model: its base, and the adapter
        self.tokenizer = tokenizers.target
        self._model_stepper = ModelStepper(self.model.eval(), "float32" if engines is None else engines.precision)
        self.stepper: Any = self._model_stepper
        self.index: str | Path | None = None  # to retrieve from; None: that of the training, if any; "none": nothing
        if self.retrieves:
            self.stepper = RetrievalStepper(self._model_stepper, self._retrieve)
        if ends := getattr(self.tokenizer, "other_ends", ()):
            self.stepper = SeveralEnds(self.stepper, self.tokenizer.end, ends)
        suppress = tuple(sorted(list_suppressed(self.tokenizer)))
        start = line_end_id(self.tokenizer)
        self.special_tokens = SpecialTokens(start=start, end=self.tokenizer.end, suppress=suppress)

    def __repr__(self) -> str:
        settings = self._settings
        name = "in memory" if settings is None else describe_paths(settings.paths)
        name += f" with {Path(self._adapted.adapter).name!r}" if self._adapted else ""
        compute = self._model_stepper.compute
        where = f"{compute}, {self.stepper.device}" if compute != "float32" else f"{self.stepper.device}"
        return f"<LanguageModel {name}: {self.config.train.objective.kind}; engine torch, {where}>"

    def _repr_html_(self) -> str:
        """Notebooks show what it is."""
        settings, model = self._settings, self.config.model
        rows = [
            ("model", "in memory" if settings is None else describe_paths(settings.paths)),
            ("objective", self.config.train.objective.kind),
            ("parameters", f"{model.parameter_count():,}"),
            ("layers", f"{model.encoder.layers + model.decoder.layers} of width {model.d_model}"),
            ("vocabulary", f"{self.tokenizer.size:,} tokens"),
        ]
        return render_table((), rows, "Headway language model")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by path and settings."""
        return reload_model, (self._load_settings(),)

    def __deepcopy__(self, memo: Any) -> "LanguageModel":
        copied = load_settings(self._load_settings())
        assert isinstance(copied, LanguageModel)
        return copied

    @property
    def retrieves(self) -> bool:
        """Whether it attends to neighbours from an index (RETRO)."""
        return self.config.model.decoder.retrieval is not None

    def with_index(self, folder: str | Path) -> "LanguageModel":
        """This model with neighbours from another index; from none with "none". It shares the weights of this one."""
        other = LanguageModel(self.loaded, self.engines)
        other._adapted, other.index = self._adapted, folder
        _ = other.retriever  # an error comes now, and not with the first text
        return other

    @functools.cached_property
    def retriever(self) -> Retriever | None:
        """What looks up neighbours; None if nothing does."""
        if (not self.retrieves and self.index is None) or str(self.index) == NO_INDEX:
            return None
        return open_retriever(self.config, self.tokenizer, self.index)

    def neighbours_of(self, ids: Sequence[int]) -> Neighbours | None:
        """Of all complete chunks of a text, given as all ids that the model reads; None without retrieval."""
        retriever = self.retriever
        count = 0 if retriever is None else len(ids) // retriever.index.chunk_tokens
        if retriever is None or not count:
            return None
        size = retriever.index.chunk_tokens
        chunks = torch.tensor(ids[: count * size], device=self.model.device).view(count, size)
        return Neighbours(*(part.transpose(0, 1) for part in retriever(chunks)))

    def _retrieve(self, chunks: Tensor) -> Neighbours | None:
        return None if self.retriever is None else self.retriever(chunks)

    def with_adapter(self, folder: str | Path) -> "LanguageModel":
        """This model with an adapter: another one, which shares the weights of this one."""
        adapted = LanguageModel(adapt_model(self.engines, folder))
        adapted._adapted = self._load_settings()._replace(adapter=str(Path(folder).resolve()))
        return adapted

    @property
    def _settings(self) -> LoadSettings | None:
        """What it was loaded from; None for a model in memory."""
        return self._adapted or (None if self.engines is None else self.engines.load_settings)

    def _load_settings(self) -> LoadSettings:
        return self._adapted or require_load_settings(self.engines, "language model")

    @property
    def network(self) -> "Transformer":
        """What computes: the model itself, or in int8 a copy of it with quantised layers."""
        return self._model_stepper.reference_model

    def __call__(self, prompt: str = "", **settings: Any) -> str:
        """The prompt and its continuation. Settings are those of `search`."""
        self.stepper.check_process()
        special, prefix = self.make_prompt(prompt)
        search = self.search(prefix, **settings)
        found = decode(self.stepper, None, special_tokens=special, search=search, prefixes=[prefix])
        return self.decode(found[0][0].ids, special.start)

    def stream(self, prompt: str = "", **settings: Any) -> Iterator[str]:
        """The continuation, as it is written and in whole characters. Errors are raised at once, not while it runs."""
        read = self.make_prompt(prompt)
        return self._stream(read, self.search(read.prefix, **settings))

    def _stream(self, prompt: Prompt, search: Search) -> Iterator[str]:
        self.stepper.check_process()
        text = self.stream_decoder(prompt)
        special, prefix = prompt
        for token in stream(self.stepper, None, special_tokens=special, search=search, prefix=prefix):
            yield text.push(token)
        yield text.finish()

    def search(self, prefix: list[int], **changes: Any) -> Search:
        """Search settings for this prompt: sampling, unless beam_size is given. `length`: new tokens at most."""
        known = {name: value for name, value in changes.items() if value is not None}
        max_length = len(prefix) + int(known.pop("length", DEFAULT_LENGTH))
        names = [name for name in Search.__dataclass_fields__ if name not in LENGTH_SETTINGS]
        for name in known:
            if name not in names:
                hint = did_you_mean(name, ["length", *names])
                raise ConfigError(f'there is no setting "{name}".{hint} Known: length, {", ".join(names)}.')
        for part in self.config.model.decoder.position:
            if isinstance(part, Learned.Config):
                max_length = min(max_length, part.max_positions)
        if max_length <= len(prefix):
            raise HeadwayError(f"the prompt has {len(prefix)} tokens, and this model reads {max_length}. Shorten it.")
        known.setdefault("sample", "beam_size" not in known)
        known.setdefault("beam_size", 1)
        return replace(Search(beam_size=1), max_length=max_length, **known)

    def perplexity(self, text: str) -> "Perplexity":
        """Of a text. Sugar for headway.workflows.evaluation.measure_perplexity, and so imported late."""
        from headway.workflows.evaluation import measure_perplexity

        return measure_perplexity(self, text)

    def embed(self, texts: Sequence[str]) -> "np.ndarray":
        """A vector for each text: (texts, d), float32. See headway.translate.text_vectors."""
        return embed_texts(self, texts)

    def fill(self, text: str, candidates: int = 5) -> list[list[MaskedWord]]:
        """The likeliest words for each mask token in the text, such as [MASK]. See headway.translate.masked_words."""
        return fill_masks(self, text, candidates)

    def follows(self, first: str, second: str) -> float:
        """The probability that the second text stands behind the first in a document, as BERT's next sentence head
        judges it. See headway.translate.next_sentence."""
        return judge_pair(self, first, second)

    def widget(self, text: str, height: int = 900, **settings: Any) -> "PageWidget":
        """The page of `headway serve` about one text, for a notebook cell. The settings are those of `trace`."""
        from headway.inspect.html_page import make_widget

        return make_widget(self, text, height, **settings)

    def trace(self, text: str = "", **settings: Any) -> "Trace":
        """Record everything that is computed while the text is read and continued: see headway.inspect.trace.

        The settings are those of a call; length=0 only reads, as a masked language model always does."""
        from headway.inspect.tracer import trace_text

        return trace_text(self, text, settings)

    def make_prompt(self, text: str) -> Prompt:
        """A text to be continued. Where the tokenizer of another toolkit puts no start token before it, the model reads
        the first token of the text first."""
        if not continues_text(self.config.train.objective.kind):
            raise HeadwayError("this is a masked language model: it cannot continue a text. Try: headway fill")
        ids = self.encode(text)
        if ids and not getattr(self.tokenizer, "adds_start", True):
            return Prompt(replace(self.special_tokens, start=ids[0]), ids[1:])
        return Prompt(self.special_tokens, ids)

    @property
    def reads_pairs(self) -> bool:
        """Whether it was trained on pairs of texts between [CLS] and [SEP], as BERT."""
        return bool(getattr(self.config.model.head, "next_sentence", False))

    def encode(self, text: str) -> list[int]:
        """The ids of a text that begins like every line of a longer one."""
        return self.tokenizer.encode(text) if self.reads_pairs else encode_after_line_end(text, self.tokenizer)

    def frame(self, ids: list[int]) -> list[int]:
        """The ids of a text, with those around it that an encoder reads."""
        return frame_text(ids, self.tokenizer, self.reads_pairs)

    def decode(self, ids: Sequence[int], start: int | None = None) -> str:
        """The text of ids that follow a start token: by default that of special_tokens."""
        first = self.special_tokens.start if start is None else start
        text = self.tokenizer.decode([first, *ids])
        return text.removeprefix("\n") if first == self.special_tokens.start else text

    def stream_decoder(self, prompt: Prompt) -> StreamDecoder:
        """Decodes the tokens that follow the prompt, one by one."""
        text = self.tokenizer.stream_decoder()
        for token in (prompt.special_tokens.start, *prompt.prefix):
            text.push(token)
        return text
