"""The schemas of request bodies: their fields and bounds (pydantic)."""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from headway.answering.question import MAX_QUESTION_CHARS

MAX_ALTERNATIVES = 10
MAX_BEAM_SIZE = 16
MAX_GLOSSARY_TERMS = 1000
MAX_PROTECTED_TEXTS = 100
MAX_ABLATED_PARTS = 32
MAX_CODE_CHARACTERS = 100  # of a language code that is stored, not looked up
ShortText = Annotated[str, Field(min_length=1, max_length=200)]
TokenIds = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=4096)]


class RequestBody(BaseModel):
    """Unknown fields are ignored: clients send what other servers support."""

    model_config = ConfigDict(extra="ignore")
    api_key: str | None = Field(None, max_length=1000, description="required where the server has --api-keys")


class DetectBody(RequestBody):
    q: str | list[str] = Field(min_length=1, description="the text; several are judged as one")


class SuggestBody(RequestBody):
    """A better translation, from a reader."""

    q: str = Field(min_length=1, description="the original text")
    s: str = Field(min_length=1, description="the suggested translation")
    source: str = Field(min_length=1, max_length=MAX_CODE_CHARACTERS, description="the language of q")
    target: str = Field(min_length=1, max_length=MAX_CODE_CHARACTERS, description="the language of s")


class ExtendedOptions(RequestBody):
    """Options of a translation beyond LibreTranslate's."""

    model: str = Field(
        "", max_length=500, description="its name, where several translate this pair; default: the first"
    )
    beam_size: int | None = Field(
        None, ge=1, le=MAX_BEAM_SIZE, description="hypotheses that beam search follows; 1 is greedy"
    )
    scores: bool = Field(False, description="return a score for each translation")
    alignments: bool = Field(False, description="return [source word, target word] pairs, counted from 0")
    warnings: bool = Field(False, description="return warnings about each translation")
    glossary: dict[ShortText, ShortText] | None = Field(
        None,
        max_length=MAX_GLOSSARY_TERMS,
        description="source terms with their required translations; in a form: a JSON object",
    )
    protect: list[ShortText] | None = Field(
        None, max_length=MAX_PROTECTED_TEXTS, description="strings that are copied, not translated"
    )
    min_score: float | None = Field(
        None, ge=0, le=1, allow_inf_nan=False, description="leave texts with a lower confidence untranslated"
    )

    @field_validator("glossary", mode="before")
    @classmethod
    def _parse_glossary(cls, value: Any) -> Any:
        if isinstance(value, str):
            try:
                return json.loads(value)
            except (ValueError, RecursionError):
                return value
        return value

    @field_validator("protect", mode="before")
    @classmethod
    def _wrap_single_text(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class TranslateBody(ExtendedOptions):
    q: str | list[str] = Field(min_length=1, description="the text, or several")
    source: str = Field(min_length=1, description='a language code, or "auto"')
    target: str = Field(min_length=1, description="a language code")
    format: str = Field("text", description="text or html; empty: text")
    alternatives: int = Field(
        0, le=MAX_ALTERNATIVES, description="how many other translations to return; none where it is negative"
    )

    @field_validator("format", mode="before")
    @classmethod
    def _default_format(cls, value: Any) -> Any:
        return value or "text"

    @field_validator("alternatives", mode="before")
    @classmethod
    def _count_alternatives(cls, value: Any) -> int:
        """As LibreTranslate counts them: "3" and 3.7 are 3, and what is negative is 0."""
        try:
            return max(0, int(value))
        except (TypeError, ValueError, OverflowError):
            raise PydanticCustomError("not_a_number", "is not a number") from None


class AnswerBody(RequestBody):
    q: str = Field(min_length=1, max_length=MAX_QUESTION_CHARS, description="the question")
    retrieval: Literal["bm25", "dense", "hybrid"] | None = Field(
        None, description="search by words, by meaning, or both; default: both, if the index has vectors"
    )
    passages: int = Field(8, ge=1, le=50, description="passages that are found")
    sentences: int = Field(3, ge=1, le=20, description="sentences that are quoted at most")
    model: str = Field("", max_length=500, description="a language model that writes the answer; default: quotes")


class SearchBody(RequestBody):
    """Search settings, in place of those in the model's config."""

    beam_size: int | None = Field(
        None, ge=1, le=MAX_BEAM_SIZE, description="hypotheses that beam search follows; 1 is greedy"
    )
    alpha: float | None = Field(None, ge=-10, le=10, allow_inf_nan=False, description="strength of the length penalty")
    sample: bool | None = Field(None, description="sample instead of beam search")
    temperature: float | None = Field(None, gt=0, le=10, allow_inf_nan=False, description="sampling temperature")
    top_k: int | None = Field(
        None, ge=0, le=100_000, description="sample from this many of the likeliest tokens; 0: from all"
    )
    top_p: float | None = Field(
        None,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="sample from the likeliest tokens with this total probability",
    )
    seed: int | None = Field(None, ge=0, lt=2**31, description="seed of the random numbers")

    def search_settings(self) -> dict[str, Any]:
        """The settings that were sent."""
        given = {name: getattr(self, name) for name in SearchBody.model_fields if name not in RequestBody.model_fields}
        return {name: value for name, value in given.items() if value is not None}


class AblatedBody(RequestBody):
    """A request to a model some of whose parts are switched off, for this request alone."""

    ablate: list[
        Annotated[str, Field(pattern=r"^(en|de)coder\.[0-9]{1,4}(\.(self|cross|feedforward)(\.head [0-9]{1,4})?)?$")]
    ] = Field(
        [],
        max_length=MAX_ABLATED_PARTS,
        description="parts to switch off: decoder.2, decoder.2.cross or decoder.2.cross.head 3, counted from 0",
    )

    @field_validator("ablate", mode="before")
    @classmethod
    def _wrap_single_part(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class StreamBody(SearchBody, AblatedBody):
    q: str = Field(min_length=1, description="the text")
    source: str = Field(min_length=1, description='a language code, or "auto"')
    target: str = Field(min_length=1, description="a language code")
    model: str = Field(
        "", max_length=500, description="its name, where several translate this pair; default: the first"
    )
    prefix: Annotated[str, Field(max_length=2000)] | TokenIds = Field(
        "", description="how the output of the first sentence must begin: a text, or token ids"
    )
    top: int = Field(10, ge=0, le=100, description="how many of the likeliest next tokens each step reports")
    attention: bool = Field(True, description="send the attention weights of every layer and head")
    qkv: bool = Field(False, description="send queries, keys and values as well")
    iteration: int | None = Field(
        None, ge=0, le=1000, description="of mask-predict: whose attention to send; default: the last with a mask"
    )


class ReadBody(SearchBody, AblatedBody):
    """A text for a model that does not translate to read, and perhaps to continue."""

    q: str = Field(min_length=1, description="the text; of models that read pairs, two lines")
    model: str = Field(min_length=1, max_length=500, description="its name")
    length: int = Field(0, ge=0, le=200, description="how many tokens to generate at most")
    prefix: TokenIds = Field([], description="token ids that the output must begin with; of a causal model, its text")
    hidden: TokenIds = Field([], description="of a masked model: which tokens of the text it is to guess, from 0")


class TokensBody(AblatedBody):
    """Tokens that a model has read and generated, as the events of a stream report them."""

    model: str = Field(min_length=1, max_length=500, description="its name")
    read: TokenIds = Field([], description="token ids that the encoder read")
    written: TokenIds = Field([], description="token ids that the decoder generated, without start and end")
    finished: bool = Field(True, description="whether the end token followed these")
    second: int = Field(0, ge=0, le=4096, description="where the second of two texts begins in read; 0: there is one")
    expected: TokenIds = Field(
        [],
        description="of a masked model: read, before tokens were hidden; of mask-predict: what the decoder made of "
        "written, which it read",
    )


class PositionsBody(TokensBody):
    top: int = Field(10, ge=0, le=100, description="how many of the likeliest tokens to return for each position")
    temperature: float = Field(1.0, ge=0.01, le=10, allow_inf_nan=False, description="by which logits are divided")


class SublayerBody(TokensBody):
    place: str = Field(
        pattern=r"^(en|de)coder\.[0-9]{1,4}\.((query\.)?self|cross|feedforward)$",
        description="a sub-layer, such as decoder.0.cross",
    )
    head: int | None = Field(
        None, ge=0, lt=4096, description="of what each head has, only this one's, counted from 0; default: all"
    )


class InfluenceBody(TokensBody):
    place: str = Field(pattern=r"^(en|de)coder\.[0-9]{1,4}\.self$", description="a mixer, such as decoder.0.self")


class ColumnBody(RequestBody):
    """Which of a model's weights to return: those that lead to one number."""

    model: str = Field(min_length=1, max_length=500, description="its name")
    place: str = Field(
        pattern=r"^(en|de)coder\.[0-9]{1,4}\.((query\.)?self|cross)$",
        description="a sub-layer, such as decoder.0.cross",
    )
    matrix: Literal["q", "k", "v", "g", "o"] = Field(
        description="the matrix of queries, keys, values or gates, or the last one, which makes the output"
    )
    head: int = Field(0, ge=0, lt=4096, description="whose query, key or value, counted from 0")
    channel: int = Field(0, ge=0, lt=2**20, description="the number of the result, counted from 0")


class LayerBody(TokensBody):
    """One token in one layer."""

    parts: Annotated[
        list[Literal["flow", "stream", "embedding", "layer", "neuron", "end", "output", "lens"]],
        Field(min_length=1, max_length=8),
    ] = Field(description="what to return of it")
    side: Literal["encoder", "decoder"] = Field("decoder", description="the side of the token")
    position: int = Field(
        0, ge=0, le=4096, description="the index of the token; the decoder's first is the start token"
    )
    layer: int = Field(0, ge=0, le=10_000, description="its index")
    neuron: int = Field(0, ge=0, lt=2**31, description="for the part neuron: its index")
    expert: int | None = Field(None, ge=0, lt=2**31, description="default: the expert with the largest share")
    top: int = Field(
        10, ge=1, le=50, description="how many of the likeliest tokens and of the strongest neurons to return"
    )
    finished: bool = Field(True, description="whether the end token followed the last token")


class AttributionBody(TokensBody):
    finished: bool = Field(True, description="whether the end token followed these")
    units: Literal["words", "tokens"] = Field("words", description="what is left out as a whole")


class ScoreBody(TokensBody):
    """An output that is given: by its tokens, or as texts, which the model then cuts into its own."""

    q: str = Field("", description="the text, in place of read")
    output: str = Field("", description="its translation, or what continues it, in place of written")
    source: str = Field("", description="a language code, where the model has several")
    target: str = Field("", description="a language code, where the model has several")
    finished: bool = Field(True, description="whether the end token followed these")
    weights: str = Field(
        "",
        pattern=r"^((en|de)coder\.[0-9]{1,4}\.((query\.)?self|cross))?$",
        description="the sub-layer whose attention weights to return, such as decoder.0.cross",
    )


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")
    include_usage: bool | None = Field(False, description="end with a chunk that has the usage, and no choices")
    include_obfuscation: bool | None = Field(None, description="ignored")


class CompletionBody(BaseModel):
    """OpenAI's parameters. Others are refused, as OpenAI refuses them: what they ask for would not be done."""

    model_config = ConfigDict(extra="forbid")
    model: str = Field(min_length=1, max_length=500)
    prompt: str | list[str] = Field("")
    max_tokens: int | None = Field(16, ge=0, le=4096)
    temperature: float | None = Field(1.0, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(1.0, ge=0, le=1, allow_inf_nan=False)
    n: int | None = Field(1, ge=1, le=16)
    best_of: int | None = Field(None, ge=1, le=20, description="only as many as n")
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    stop: str | list[str] | None = None
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    echo: bool | None = False
    user: str | None = Field(None, description="ignored")
    api_key: str | None = Field(None, max_length=1000, description="where the header Authorization cannot be sent")
    # Not supported: a request that sets one of these is refused.
    logprobs: int | None = None
    suffix: str | None = None
    logit_bias: dict[str, float] | None = None
    presence_penalty: Literal[0] | None = None
    frequency_penalty: Literal[0] | None = None


class EmbeddingBody(BaseModel):
    """OpenAI's parameters. Vectors have the width of the model: `dimensions` is refused, and so are token ids."""

    model_config = ConfigDict(extra="forbid")
    model: str = Field(min_length=1, max_length=500)
    input: str | list[str]
    encoding_format: Literal["float", "base64"] | None = "float"
    user: str | None = Field(None, description="ignored")
    api_key: str | None = Field(None, max_length=1000, description="where the header Authorization cannot be sent")
