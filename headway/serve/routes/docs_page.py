"""/docs: the OpenAPI description as a page, without scripts and without anything from other servers."""

from html import escape
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse

from headway.serve.examples import make_examples
from headway.serve.state import ServerState

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; } h2 code { font-size: 1.1rem; } .verb { font-weight: bold; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .25rem .75rem .25rem 0;
vertical-align: top; border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
pre { overflow-x: auto; padding: .75rem; background: color-mix(in srgb, currentColor 7%, transparent); }
"""


def make_router(state: ServerState) -> APIRouter:
    router = APIRouter()

    @router.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        spec = request.app.openapi()
        examples = make_examples(spec["paths"], str(request.base_url), state.pool, key_required=state.keys.required)
        if not state.suggestions.enabled:
            examples.pop("/suggest", None)
        return HTMLResponse(render_docs_page(spec, examples))

    return router


def render_docs_page(spec: dict[str, Any], examples: dict[str, str]) -> str:
    """examples: a command by path."""
    parts = [
        _section(path, verb, route, examples.get(path, ""))
        for path, verbs in spec["paths"].items()
        for verb, route in verbs.items()
    ]
    title = escape(f"{spec['info']['title']} {spec['info']['version']}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body><h1>{title}</h1>\n"
        '<p>The same for programs: <a href="spec">spec</a> (OpenAPI).</p>\n' + "\n".join(parts) + "\n</body></html>\n"
    )


def _section(path: str, verb: str, route: dict[str, Any], example: str) -> str:
    bodies = route.get("requestBody", {}).get("content", {})
    lines = [f'<h2><span class="verb">{verb.upper()}</span> <code>{escape(path)}</code></h2>']
    lines.append(f"<p>{escape(route.get('description') or route.get('summary', ''))}</p>")
    for schema in [content["schema"] for content in bodies.values()][:1]:
        lines += [f"<p>Body: {escape(', '.join(bodies))}</p>", _table(schema)]
    if example:
        lines.append(f"<pre>{escape(example)}</pre>")
    codes = ", ".join(f"{code} {response['description']}" for code, response in route["responses"].items())
    return "\n".join([*lines, f"<p>Responses: {escape(codes)}</p>"])


def _table(schema: dict[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{escape(name)}</code>{' (required)' * (name in schema.get('required', []))}</td>"
        f"<td>{escape(_type_name(part))}</td><td>{escape(part.get('description', ''))}</td></tr>"
        for name, part in schema.get("properties", {}).items()
    ]
    return f"<table><tr><th>field</th><th>value</th><th></th></tr>{''.join(rows)}</table>"


def _type_name(part: dict[str, Any]) -> str:
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(_type_name(one) for one in part["anyOf"] if one.get("type") != "null"))
    kind = str(part.get("type", "anything"))
    low, high = part.get("minimum"), part.get("maximum")
    return f"{kind}, {low} to {high}" if low is not None and high is not None else kind
