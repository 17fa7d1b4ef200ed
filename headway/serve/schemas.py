"""Request bodies: their fields and bounds (pydantic), read from JSON or forms, with error messages for clients."""

import json
import logging
from typing import Annotated, Any, Literal, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from headway.serve.errors import ApiError, missing_parameter

MAX_ALTERNATIVES = 10
MAX_BEAM_SIZE = 16
MAX_GLOSSARY_TERMS = 1000
MAX_PROTECTED_TEXTS = 100
MAX_FORM_FIELDS = 2000
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # the client gets the error: keep it out of the log
ShortText = Annotated[str, Field(min_length=1, max_length=200)]
TYPE_NAMES = {  # by the first word of pydantic's error types
    "int": "an integer", "float": "a number", "bool": "true or false", "string": "a string", "list": "a list",
    "dict": "an object", "model": "an object", "is": "null",
}  # fmt: skip
TokenIds = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=4096)]
BodyType = TypeVar("BodyType", bound=BaseModel)


class Upload(NamedTuple):
    filename: str
    content: bytes


class RequestBody(BaseModel):
    """Unknown fields are ignored: clients send what other servers support."""

    model_config = ConfigDict(extra="ignore")
    api_key: str | None = Field(None, max_length=1000, description="required where the server has --api-keys")


class DetectBody(RequestBody):
    q: str = Field(min_length=1, description="the text")


class ExtendedOptions(RequestBody):
    """Options of a translation beyond LibreTranslate's."""

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
    format: str = Field("text", description="text or html")
    alternatives: int = Field(0, ge=0, le=MAX_ALTERNATIVES, description="how many other translations to return")


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


class StreamBody(SearchBody):
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


class ReadBody(SearchBody):
    """A text for a language model to read, and perhaps to continue."""

    q: str = Field(min_length=1, description="the text")
    model: str = Field(min_length=1, max_length=500, description="its name")
    length: int = Field(0, ge=0, le=200, description="how many tokens to generate at most")


class TokensBody(RequestBody):
    """Tokens that a model has read and generated, as the events of a stream report them."""

    model: str = Field(min_length=1, max_length=500, description="its name")
    read: TokenIds = Field([], description="token ids that the encoder read")
    written: TokenIds = Field([], description="token ids that the decoder generated, without start and end")


class PositionsBody(TokensBody):
    finished: bool = Field(True, description="whether the end token followed these")
    top: int = Field(10, ge=0, le=100, description="how many of the likeliest tokens to return for each position")
    temperature: float = Field(1.0, ge=0.01, le=10, allow_inf_nan=False, description="by which logits are divided")


class SublayerBody(TokensBody):
    place: str = Field(
        pattern=r"^(en|de)coder\.[0-9]{1,4}\.(self|cross|feedforward)$",
        description="a sub-layer, such as decoder.0.cross",
    )


class CompletionBody(BaseModel):
    model_config = ConfigDict(extra="ignore")
    model: str = Field(min_length=1, max_length=500)
    prompt: str | list[str] = Field("")
    max_tokens: int | None = Field(16, ge=1, le=4096)
    temperature: float | None = Field(1.0, ge=0, le=2, allow_inf_nan=False)
    top_p: float | None = Field(1.0, gt=0, le=1, allow_inf_nan=False)
    n: int | None = Field(1, ge=1, le=16)
    stream: bool | None = False
    stop: str | list[str] | None = None
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    echo: bool | None = False
    # Not supported: a request that sets one of these is refused.
    best_of: int | None = None
    logprobs: int | None = None
    suffix: str | None = None
    logit_bias: dict[str, float] | None = None
    presence_penalty: Literal[0] | None = None
    frequency_penalty: Literal[0] | None = None


async def read_body(request: Request) -> dict[str, Any]:
    """The body, JSON or a form, as a dict; a field that a form has several times is a list."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return _parse_json(await request.body())
    pairs: list[tuple[str, Any]] = list(request.query_params.multi_items())
    if kind == "multipart/form-data":
        pairs += await _read_multipart(request)
    else:
        body = await request.body()
        if body.lstrip().startswith(b"{"):
            raise ApiError(
                400, "Invalid request: the body looks like JSON: send Content-Type: application/json with it"
            )
        try:
            pairs += parse_qsl(
                body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FORM_FIELDS
            )
        except ValueError:
            raise ApiError(400, "Invalid request: the form cannot be read") from None
    table: dict[str, list[Any]] = {}
    for name, value in pairs:
        table.setdefault(name, []).append(value.replace("\r\n", "\n") if isinstance(value, str) else value)
    return {name: values[0] if len(values) == 1 else values for name, values in table.items()}


def _parse_json(body: bytes) -> dict[str, Any]:
    try:
        table = json.loads(body)
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict):
        raise ApiError(400, "Invalid JSON format")
    if b"\\u" in body:  # it may hold half of a surrogate pair, which could not be sent back
        try:
            json.dumps(table, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise ApiError(400, "Invalid request: the text is not valid Unicode") from None
    return table


async def _read_multipart(request: Request) -> list[tuple[str, Any]]:
    try:
        form = await request.form(max_files=1, max_fields=MAX_FORM_FIELDS, max_part_size=2**20)
    except (MultiPartException, HTTPException, ValueError):
        raise ApiError(400, "Invalid request: the form cannot be read") from None
    try:
        return [
            (name, Upload(value.filename or "", await value.read()) if isinstance(value, UploadFile) else value)
            for name, value in form.multi_items()
        ]
    finally:
        await form.close()


def parse_body(kind: type[BodyType], table: dict[str, Any]) -> BodyType:
    given = {name: value for name, value in table.items() if value is not None}
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise _to_api_error(error, given) from None


def _to_api_error(error: ValidationError, table: dict[str, Any]) -> ApiError:
    """The first mistake, with LibreTranslate's message where it has one."""
    mistake = error.errors(include_url=False)[0]
    name = str(mistake["loc"][0])
    kind = mistake["type"]
    context = mistake.get("ctx") or {}
    if kind == "missing" or table.get(name) in ("", []):
        return missing_parameter(name)
    lead = f"Invalid request: {name} parameter"
    comparisons = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    bound = next((key for key in comparisons if key in context), None)
    if bound:
        return ApiError(400, f"{lead} must be {comparisons[bound]} {context[bound]}", param=name)
    if kind.startswith(("too_long", "string_too_long")):
        return ApiError(400, f"{lead} is too long: {context.get('max_length')} at most", param=name)
    if kind == "literal_error":
        return ApiError(400, f"{lead} must be {context.get('expected')}", param=name)
    return ApiError(400, f"{lead} is not {TYPE_NAMES.get(kind.partition('_')[0], 'valid')}", param=name)
