"""The examples on /docs: commands for curl that work on this very server, with its address, languages and models."""

import json
import shlex
from typing import Any
from urllib.parse import quote

from headway.serve.model_pool import ModelPool

SENTENCE = "The dog sees a red house."
NO_EXAMPLE = ("/download_file/{filename}",)  # its address comes from /translate_file


def make_examples(paths: dict[str, Any], base_url: str, pool: ModelPool, *, key_required: bool) -> dict[str, str]:
    """A command by path; none where this server has no model for it. paths: of the OpenAPI description."""
    examples = {}
    for path, verbs in paths.items():
        arguments = curl_arguments(path, "post" in verbs, pool)
        if arguments is not None:
            url = base_url.rstrip("/") + path.replace("{name}", quote(_name_in_path(path, pool), safe=""))
            words = ["curl", *(["--no-buffer"] if path == "/api/translate" else []), url, *arguments]
            key = ' -H "Authorization: Bearer $API_KEY"' if key_required else ""
            examples[path] = shlex.join(words) + key
    return examples


def curl_arguments(path: str, is_post: bool, pool: ModelPool) -> list[str] | None:
    """What follows the address; None: there is no example."""
    if path in NO_EXAMPLE or ("{name}" in path and not _name_in_path(path, pool)):
        return None
    if not is_post:
        return []
    source, target = pool.default_pair
    if path == "/translate_file":
        fields = (f"file={SENTENCE};filename=example.txt", f"source={source}", f"target={target}")
        return [word for field in fields for word in ("-F", field)] if source else None
    body = example_body(path, source, target, pool)
    return None if body is None else ["-H", "Content-Type: application/json", "-d", json.dumps(body)]


def example_body(path: str, source: str, target: str, pool: ModelPool) -> dict[str, Any] | None:
    translator = _model_name(pool, causal=False)
    language_model = _model_name(pool, causal=True)
    if path == "/v1/embeddings":
        encoder = next((model.name for model in pool.models if model.is_encoder), "")
        return {"model": encoder, "input": SENTENCE} if encoder else None
    if path in ("/v1/completions", "/api/read"):
        own = {"prompt": "Once", "max_tokens": 20} if path == "/v1/completions" else {"q": "Once"}
        return {"model": language_model, **own} if language_model else None
    if not translator:
        return None
    pair = {"source": source, "target": target}
    tokens = {"model": translator, "read": [5, 6, 7], "written": [8, 9]}
    bodies: dict[str, dict[str, Any]] = {
        "/translate": {"q": SENTENCE, **pair},
        "/detect": {"q": SENTENCE},
        "/suggest": {"q": SENTENCE, "s": "Der Hund sieht ein rotes Haus.", **pair},
        "/api/translate": {"q": SENTENCE, **pair},
        "/api/places": tokens,
        "/api/vectors": tokens,
        "/api/layer": {**tokens, "parts": ["layer", "output"], "position": 1, "top": 3},
        "/api/inside": {**tokens, "place": "decoder.0.cross"},
        "/api/column": {"model": translator, "place": "decoder.0.cross", "matrix": "q"},
    }
    return bodies.get(path)


def _name_in_path(path: str, pool: ModelPool) -> str:
    """Of the first study or model that an address can be about; "" where there is none."""
    if path.startswith("/api/studies/"):
        return next((study.name for study in pool.studies), "")
    return _model_name(pool, causal=path.startswith("/v1/"))


def _model_name(pool: ModelPool, *, causal: bool) -> str:
    """Of the first language model, or of the first translator; "" where there is none."""
    return next((model.name for model in pool.models if (model.is_causal if causal else model.is_translator)), "")
