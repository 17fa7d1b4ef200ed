"""What requests carry, as JSON or as a form, and what is told about it when it is not what it should be."""

import json
import logging
from typing import Annotated, Any, Literal, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from headway.serve.errors import ApiError, missing

MOST_ALTERNATIVES, WIDEST_BEAM, MOST_TERMS, MOST_SPANS = 10, 16, 1000, 100
FIELDS = 2000  # of a form
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # what is wrong with a form is told to its sender
Term = Annotated[str, Field(min_length=1, max_length=200)]
KINDS = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "string": "a text", "list": "a list",
    "dict": "a table", "model": "a table", "is": "null",
}  # fmt: skip
Tokens = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=4096)]
B = TypeVar("B", bound="Body")


class Upload(NamedTuple):
    filename: str
    content: bytes


class Body(BaseModel):
    """Unknown keys are ignored: clients send what other servers know."""

    model_config = ConfigDict(extra="ignore")
    api_key: str | None = Field(None, max_length=1000, description="needed where the server has --api-keys")


class DetectBody(Body):
    q: str = Field(min_length=1, description="the text")


class Wishes(Body):
    """What this server knows beyond LibreTranslate."""

    beam_size: int | None = Field(None, ge=1, le=WIDEST_BEAM, description="hypotheses followed; 1 is greedy")
    scores: bool = Field(False, description="answer with a score of each translation")
    alignments: bool = Field(False, description="answer with [source word, target word] pairs, counted from 0")
    warnings: bool = Field(False, description="answer with what the reader should know of each translation")
    glossary: dict[Term, Term] | None = Field(
        None, max_length=MOST_TERMS, description="translations that are given; in a form: a JSON object"
    )
    protect: list[Term] | None = Field(None, max_length=MOST_SPANS, description="texts that must stay as they are")
    min_score: float | None = Field(
        None, ge=0, le=1, allow_inf_nan=False, description="what scores less stays untranslated"
    )

    @field_validator("glossary", mode="before")
    @classmethod
    def _from_a_form(cls, value: Any) -> Any:
        if isinstance(value, str):
            try:
                return json.loads(value)
            except (ValueError, RecursionError):
                return value
        return value

    @field_validator("protect", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


class TranslateBody(Wishes):
    q: str | list[str] = Field(min_length=1, description="the text, or several")
    source: str = Field(min_length=1, description='a language code, or "auto"')
    target: str = Field(min_length=1, description="a language code")
    format: str = Field("text", description="text or html")
    alternatives: int = Field(0, ge=0, le=MOST_ALTERNATIVES, description="how many other translations to give")


class SearchBody(Body):
    """How to search, where it is not to be as the model's config says."""

    beam_size: int | None = Field(None, ge=1, le=WIDEST_BEAM, description="hypotheses followed; 1 is greedy")
    alpha: float | None = Field(None, ge=-10, le=10, allow_inf_nan=False, description="how much length counts")
    sample: bool | None = Field(None, description="draw at random instead")
    temperature: float | None = Field(None, gt=0, le=10, allow_inf_nan=False, description="of what is drawn")
    top_k: int | None = Field(None, ge=0, le=100_000, description="draw from so many of the likeliest; 0: from all")
    top_p: float | None = Field(
        None, gt=0, le=1, allow_inf_nan=False, description="draw from this share of the likeliest"
    )
    seed: int | None = Field(None, ge=0, lt=2**31, description="the same draws again")

    def changes(self) -> dict[str, Any]:
        """What differs from the model's own way."""
        given = {name: getattr(self, name) for name in SearchBody.model_fields if name not in Body.model_fields}
        return {name: value for name, value in given.items() if value is not None}


class StreamBody(SearchBody):
    q: str = Field(min_length=1, description="the text")
    source: str = Field(min_length=1, description='a language code, or "auto"')
    target: str = Field(min_length=1, description="a language code")
    model: str = Field("", max_length=500, description="which one, where several translate so; else the first")
    prefix: Annotated[str, Field(max_length=2000)] | Tokens = Field(
        "", description="how the first sentence's output must begin; a text, or the ids of its tokens"
    )
    top: int = Field(10, ge=0, le=100, description="how many of the likeliest next tokens each step tells")
    attention: bool = Field(True, description="tell the weights of every layer and head")
    qkv: bool = Field(False, description="tell queries, keys and values too")


class ReadBody(SearchBody):
    """A text for a language model."""

    q: str = Field(min_length=1, description="the text")
    model: str = Field(min_length=1, max_length=500, description="its name")
    length: int = Field(0, ge=0, le=200, description="how many tokens to write at most")


class TokensBody(Body):
    """Tokens that a model has read and written, as the stream told them."""

    model: str = Field(min_length=1, max_length=500, description="its name")
    read: Tokens = Field([], description="what the encoder read")
    written: Tokens = Field([], description="what the decoder wrote, without start and end")


class PlacesBody(TokensBody):
    finished: bool = Field(True, description="whether the end was written after these")
    top: int = Field(10, ge=0, le=100, description="how many of the likeliest tokens each place tells")
    temperature: float = Field(1.0, ge=0.01, le=10, allow_inf_nan=False, description="what logits are divided by")


class PlaceBody(TokensBody):
    place: str = Field(pattern=r"^(en|de)coder\.[0-9]{1,4}\.(self|cross|feedforward)$", description="a sub-layer")


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
    # What this server does not do, and says so when it is asked for.
    best_of: int | None = None
    logprobs: int | None = None
    suffix: str | None = None
    logit_bias: dict[str, float] | None = None
    presence_penalty: Literal[0] | None = None
    frequency_penalty: Literal[0] | None = None


async def read(request: Request) -> dict[str, Any]:
    """The body as a table, whatever it came as; a value that a form has several times is a list."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return _json(await request.body())
    pairs: list[tuple[str, Any]] = list(request.query_params.multi_items())
    if kind == "multipart/form-data":
        pairs += await _multipart(request)
    else:
        body = await request.body()
        if body.lstrip().startswith(b"{"):
            raise ApiError(400, "Invalid request: the body looks like JSON: send Content-Type: application/json with it")
        try:
            pairs += parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS)
        except ValueError:
            raise ApiError(400, "Invalid request: the form cannot be read") from None
    table: dict[str, list[Any]] = {}
    for name, value in pairs:
        table.setdefault(name, []).append(value.replace("\r\n", "\n") if isinstance(value, str) else value)
    return {name: values[0] if len(values) == 1 else values for name, values in table.items()}


def _json(body: bytes) -> dict[str, Any]:
    try:
        table = json.loads(body)
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict):
        raise ApiError(400, "Invalid JSON format")
    if b"\\u" in body:  # it may hold half a character, which could not be sent back
        try:
            json.dumps(table, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise ApiError(400, "Invalid request: this is not valid Unicode") from None
    return table


async def _multipart(request: Request) -> list[tuple[str, Any]]:
    try:
        form = await request.form(max_files=1, max_fields=FIELDS, max_part_size=2**20)
    except (MultiPartException, HTTPException, ValueError):
        raise ApiError(400, "Invalid request: the form cannot be read") from None
    try:
        return [
            (name, Upload(value.filename or "", await value.read()) if isinstance(value, UploadFile) else value)
            for name, value in form.multi_items()
        ]
    finally:
        await form.close()


def checked(kind: type[B] | type[BaseModel], table: dict[str, Any]) -> Any:
    """The table as a body of this kind."""
    given = {name: value for name, value in table.items() if value is not None}
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise told(error, given) from None


def told(error: ValidationError, table: dict[str, Any]) -> ApiError:
    """The first fault, in LibreTranslate's words where it has some."""
    fault = error.errors(include_url=False)[0]
    name, kind, context = str(fault["loc"][0]), fault["type"], fault.get("ctx") or {}
    given = table.get(name)
    if kind == "missing" or given in ("", []):
        return missing(name)
    lead = f"Invalid request: {name} parameter"
    bound = next((word for word in ("ge", "gt", "le", "lt") if word in context), None)
    if bound:
        word = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}[bound]
        return ApiError(400, f"{lead} must be {word} {context[bound]}", param=name)
    if kind.startswith(("too_long", "string_too_long")):
        return ApiError(400, f"{lead} is too long: {context.get('max_length')} at most", param=name)
    if kind == "literal_error":
        return ApiError(400, f"{lead} must be {context.get('expected')}", param=name)
    return ApiError(400, f"{lead} is not {KINDS.get(kind.partition('_')[0], 'what it should be')}", param=name)
