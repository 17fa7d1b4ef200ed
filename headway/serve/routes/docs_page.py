"""/docs: the OpenAPI description as a page, without scripts and without anything from other servers."""

import json
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; } h2 code { font-size: 1.1rem; } .verb { font-weight: bold; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .25rem .75rem .25rem 0;
vertical-align: top; border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
pre { overflow-x: auto; padding: .75rem; background: color-mix(in srgb, currentColor 7%, transparent); }
"""


def render_docs_page(spec: dict[str, Any]) -> str:
    parts = [_section(path, verb, route) for path, verbs in spec["paths"].items() for verb, route in verbs.items()]
    title = escape(f"{spec['info']['title']} {spec['info']['version']}")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body><h1>{title}</h1>\n"
        '<p>The same for programs: <a href="spec">spec</a> (OpenAPI).</p>\n' + "\n".join(parts) + "\n</body></html>\n"
    )


def _section(path: str, verb: str, route: dict[str, Any]) -> str:
    bodies = route.get("requestBody", {}).get("content", {})
    lines = [f'<h2><span class="verb">{verb.upper()}</span> <code>{escape(path)}</code></h2>']
    lines.append(f"<p>{escape(route.get('description') or route.get('summary', ''))}</p>")
    for schema in [content["schema"] for content in bodies.values()][:1]:
        lines += [f"<p>Body: {escape(', '.join(bodies))}</p>", _table(schema)]
        if "application/json" in bodies:
            lines.append(f"<pre>{escape(_example(path, schema))}</pre>")
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


def _example(path: str, schema: dict[str, Any]) -> str:
    known = {"q": "The dog sees a red house.", "source": "en", "target": "de", "model": "my-lm", "prompt": "Once"}
    body = {name: known[name] for name in schema.get("properties", {}) if name in known}
    return f"curl http://127.0.0.1:5000{path} -H 'Content-Type: application/json' -d '{json.dumps(body)}'"
