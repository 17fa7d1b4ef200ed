"""The OpenAPI description of each route, for /spec: request bodies and responses."""

from typing import Any

from headway.serve.schemas import (
    AnswerBody,
    AttributionBody,
    ColumnBody,
    CompletionBody,
    DetectBody,
    EmbeddingBody,
    InfluenceBody,
    LayerBody,
    PositionsBody,
    ReadBody,
    RequestBody,
    ScoreBody,
    StreamBody,
    SublayerBody,
    SuggestBody,
    TokensBody,
    TranslateBody,
)
from headway.serve.studies import StudyResults, StudySummary

LANGUAGE = {
    "type": "object",
    "required": ["code", "name"],
    "properties": {"code": {"type": "string"}, "name": {"type": "string"}},
}
DETECTION = {
    "type": "object",
    "required": ["confidence", "language"],
    "properties": {"confidence": {"type": "integer", "minimum": 0, "maximum": 100}, "language": {"type": "string"}},
}
TEXT: dict[str, Any] = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": TEXT, "reason": TEXT, "values": {"type": "object"}},
}
OPENAI_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type"],
            "properties": {"message": TEXT, "type": TEXT, "param": {}, "code": {}},
        }
    },
}
STATUS_DESCRIPTIONS = {
    400: "Invalid request",
    401: "No valid API key",
    403: "Not allowed",
    404: "Not found",
    408: "The request did not arrive in time",
    413: "Too large",
    429: "Too many requests",
    500: "Translation error",
    503: "Busy",
    504: "The request took too long",
}


def _or_list(schema: Any) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "array", "items": schema}]}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def _schema_of(kind: type[Any], mode: Any = "validation") -> Any:
    schema = kind.model_json_schema(mode=mode)
    schema.pop("title", None)
    return _inline_definitions(schema, schema.pop("$defs", {}))


def _request_body(kind: type[Any], form: bool = True) -> dict[str, Any]:
    """A body of this class, as JSON and, unless told otherwise, as a form."""
    schema = _schema_of(kind)
    types = ["application/json", "application/x-www-form-urlencoded"] if form else ["application/json"]
    return {"requestBody": {"required": True, "content": {name: {"schema": schema} for name in types}}}


def _inline_definitions(schema: Any, definitions: dict[str, Any]) -> Any:
    """The schema with each reference replaced by what it refers to: the description of a route stands alone."""
    if isinstance(schema, list):
        return [_inline_definitions(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inline_definitions(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {name: _inline_definitions(value, definitions) for name, value in schema.items()}


def _responses(schema: Any, *errors: int, kind: str = "application/json", error: Any = None) -> dict[int | str, Any]:
    """errors: status codes; error: the schema of their bodies, where it is not LibreTranslate's."""
    responses: dict[int | str, Any] = {200: {"description": "Done", "content": {kind: {"schema": schema}}}}
    for code in errors:
        content = {"application/json": {"schema": error or ERROR}}
        responses[code] = {"description": STATUS_DESCRIPTIONS[code], "content": content}
        if code in (429, 503):
            responses[code]["headers"] = {"Retry-After": {"schema": {"type": "string"}}}
    return responses


COMMON_ERRORS = (400, 403, 408, 413, 429, 500, 503, 504)

TRANSLATE: dict[str, Any] = {
    "tags": ["translate"],
    "openapi_extra": _request_body(TranslateBody),
    "responses": _responses(
        _object(
            ["translatedText"],
            translatedText=_or_list(TEXT),
            detectedLanguage=_or_list(DETECTION),
            alternatives={"type": "array"},
            scores=_or_list({"type": ["number", "null"]}),
            alignments={"type": "array"},
            warnings={"type": "array"},
            pivot=_or_list({"type": ["string", "null"]}),
        ),
        404,
        *COMMON_ERRORS,
    ),
}
DETECT: dict[str, Any] = {
    "tags": ["translate"],
    "openapi_extra": _request_body(DetectBody),
    "responses": _responses({"type": "array", "items": DETECTION}, *COMMON_ERRORS),
}
SUGGEST: dict[str, Any] = {
    "tags": ["feedback"],
    "openapi_extra": _request_body(SuggestBody),
    "responses": _responses(_object(["success"], success={"type": "boolean"}), *COMMON_ERRORS),
}
LANGUAGES: dict[str, Any] = {
    "tags": ["translate"],
    "responses": _responses(
        {"type": "array", "items": _object(["code", "name", "targets"], code=TEXT, name=TEXT, targets=TEXTS)}
    ),
}
FRONTEND: dict[str, Any] = {
    "tags": ["frontend"],
    "responses": _responses(
        _object(
            ["charLimit", "language"],
            apiKeys={"type": "boolean"},
            keyRequired={"type": "boolean"},
            charLimit={"type": "integer"},
            filesTranslation={"type": "boolean"},
            frontendTimeout={"type": "integer"},
            suggestions={"type": "boolean"},
            supportedFilesFormat=TEXTS,
            language=_object(["source", "target"], source=LANGUAGE, target=LANGUAGE),
        )
    ),
}
HEALTH: dict[str, Any] = {"tags": ["server"], "responses": _responses(_object(["status"], status=TEXT))}
METRICS: dict[str, Any] = {"tags": ["server"], "responses": _responses(TEXT, kind="text/plain")}
TRANSLATE_FILE: dict[str, Any] = {
    "tags": ["translate"],
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {
                    "schema": _object(
                        ["file", "source", "target"],
                        file={"type": "string", "format": "binary"},
                        source=TEXT,
                        target=TEXT,
                        **RequestBody.model_json_schema()["properties"],
                    )
                }
            },
        }
    },
    "responses": _responses(
        _object(
            ["translatedFileUrl"],
            translatedFileUrl=TEXT,
            segments={"type": "integer"},
            translated={"type": "integer"},
            warnings=TEXTS,
            detectedLanguage=DETECTION,
            pivot=TEXT,
        ),
        404,
        *COMMON_ERRORS,
    ),
}
DOWNLOAD: dict[str, Any] = {
    "tags": ["translate"],
    "responses": _responses({"type": "string", "format": "binary"}, 400, 404, kind="application/octet-stream"),
}
STREAM: dict[str, Any] = {
    "tags": ["look inside"],
    "openapi_extra": _request_body(StreamBody),
    "responses": _responses(TEXT, 404, *COMMON_ERRORS, kind="application/x-ndjson"),
}
INSPECT = {"tags": ["look inside"]}
INSPECT_MODELS: dict[str, Any] = {
    **INSPECT,
    "responses": _responses({"type": "array", "items": _object(["name", "kind"])}, 403),
}
INSPECT_MODEL: dict[str, Any] = {**INSPECT, "responses": _responses(_object(["name", "blocks"]), 404, *COMMON_ERRORS)}
INSPECT_READ: dict[str, Any] = {
    **INSPECT,
    "openapi_extra": _request_body(ReadBody, form=False),
    "responses": _responses({"type": "array", "items": _object(["event"])}, 404, *COMMON_ERRORS),
}
INSPECT_POSITIONS: dict[str, Any] = {
    **INSPECT,
    "openapi_extra": _request_body(PositionsBody, form=False),
    "responses": _responses(_object(["places"]), 404, *COMMON_ERRORS),
}
INSPECT_SUBLAYER: dict[str, Any] = {
    **INSPECT,
    "openapi_extra": _request_body(SublayerBody, form=False),
    "responses": _responses(_object([]), 404, *COMMON_ERRORS),
}
INSPECT_INFLUENCE: dict[str, Any] = {
    **INSPECT,
    "openapi_extra": _request_body(InfluenceBody, form=False),
    "responses": _responses(_object(["values"]), 404, *COMMON_ERRORS),
}
INSPECT_COLUMN: dict[str, Any] = {
    **INSPECT,
    "openapi_extra": _request_body(ColumnBody, form=False),
    "responses": _responses(_object(["column", "bias"], bias={"type": "number"}), 404, *COMMON_ERRORS),
}
INSPECT_LAYER: dict[str, Any] = {
    **INSPECT,
    "openapi_extra": _request_body(LayerBody, form=False),
    "responses": _responses(_object([]), 404, *COMMON_ERRORS),
}
INSPECT_VECTORS: dict[str, Any] = {
    **INSPECT,
    "openapi_extra": _request_body(TokensBody, form=False),
    "responses": _responses(_object([]), 404, *COMMON_ERRORS),
}
INSPECT_ATTRIBUTION: dict[str, Any] = {
    **INSPECT,
    "openapi_extra": _request_body(AttributionBody, form=False),
    "responses": _responses(_object(["rows", "columns", "gradient", "left_out"]), 404, *COMMON_ERRORS),
}
INSPECT_SCORE: dict[str, Any] = {
    **INSPECT,
    "openapi_extra": _request_body(ScoreBody, form=False),
    "responses": _responses(_object(["read", "written", "tokens", "logp", "tensors"]), 404, *COMMON_ERRORS),
}
STUDIES: dict[str, Any] = {
    **INSPECT,
    "responses": _responses({"type": "array", "items": _schema_of(StudySummary, "serialization")}, 403),
}
STUDY: dict[str, Any] = {
    **INSPECT,
    "responses": _responses(_schema_of(StudyResults, "serialization"), 404, *COMMON_ERRORS),
}
INDEX: dict[str, Any] = {
    "tags": ["answers"],
    "responses": _responses(_object(["documents", "passages", "vectors", "models"]), 403),
}
ANSWER: dict[str, Any] = {
    "tags": ["answers"],
    "openapi_extra": _request_body(AnswerBody, form=False),
    "responses": _responses(TEXT, 404, *COMMON_ERRORS, kind="application/x-ndjson"),
}
COMPLETIONS: dict[str, Any] = {
    "tags": ["language models"],
    "openapi_extra": _request_body(CompletionBody, form=False),
    "responses": _responses(_object(["id", "object", "choices"]), *COMMON_ERRORS, 401, 404, error=OPENAI_ERROR),
}
EMBEDDINGS: dict[str, Any] = {
    "tags": ["language models"],
    "openapi_extra": _request_body(EmbeddingBody, form=False),
    "responses": _responses(_object(["object", "data"]), *COMMON_ERRORS, 401, 404, error=OPENAI_ERROR),
}
EVENT_STREAM = _object(["data"], data=TEXT)  # with `stream`
COMPLETIONS["responses"][200]["content"]["text/event-stream"] = {"schema": EVENT_STREAM}
MODELS: dict[str, Any] = {
    "tags": ["language models"],
    "responses": _responses(_object(["object", "data"]), 401, error=OPENAI_ERROR),
}
MODEL: dict[str, Any] = {
    "tags": ["language models"],
    "responses": _responses(_object(["id", "object"]), 401, 404, error=OPENAI_ERROR),
}
