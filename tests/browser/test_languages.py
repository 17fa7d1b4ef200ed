"""The languages of the interface: all have the same keys, and a further one costs a file and a line."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from serve.conftest import running

from browser.conftest import Look

WEB = ROOT / "web"
WORDS = WEB / "src/words"
NO_PAGE = "globalThis.document = { getElementById: () => null };"
KEYS = """
const keys = (value, at = "") => value && typeof value === "object" && !Array.isArray(value)
  ? Object.entries(value).flatMap(([name, inner]) => keys(inner, `${at}.${name}`))
  : [at + (Array.isArray(value) ? `[${value.length}]` : typeof value === "function" ? "()" : "")];
"""


@pytest.fixture(scope="module")
def node_modules() -> Path:
    if shutil.which("node") is None or not (WEB / "node_modules/esbuild").is_dir():
        pytest.skip("Node or its packages are missing: cd web && npm ci")
    return WEB / "node_modules"


def keys_of(files: list[Path], folder: Path, modules: Path) -> dict[str, list[str]]:
    """The names of all words that each file exports, in one object or several."""
    entry = folder / "entry.ts"
    imports = [f'import * as f{n} from "{path}";' for n, path in enumerate(files)]
    told = ", ".join(f"[{json.dumps(str(path))}, Object.values(f{n})]" for n, path in enumerate(files))
    print_all = f"console.log(JSON.stringify([{told}].map(([name, all]) => [name, all.flatMap((one) => keys(one))])));"
    entry.write_text("\n".join([*imports, KEYS, print_all]))
    out = folder / "entry.mjs"
    bundle = [modules / ".bin/esbuild", entry, "--bundle", "--format=esm", f"--outfile={out}", f"--banner:js={NO_PAGE}"]
    paths = {**os.environ, "NODE_PATH": str(modules)}
    subprocess.run(bundle, check=True, capture_output=True, timeout=60, env=paths)
    done = subprocess.run(["node", out], check=True, capture_output=True, text=True, timeout=60)
    return dict(json.loads(done.stdout))


def test_all_languages_have_the_same_keys(tmp_path: Path, node_modules: Path) -> None:
    english = [path for path in sorted(WORDS.rglob("*.ts")) if re.fullmatch(r"(.*-)?en\.ts", path.name)]
    others = [path.with_name(re.sub(r"en\.ts$", "zh.ts", path.name)) for path in english]
    assert len(english) > 1 and all(path.is_file() for path in others)
    keys = keys_of([*english, *others], tmp_path, node_modules)
    for path, other in zip(english, others):
        assert len(keys[str(path)]) > 5
        assert sorted(keys[str(path)]) == sorted(keys[str(other)]), path


def test_a_third_language_costs_one_file(
    look: Callable[..., Look],
    translator_dir: Path,
    sentences: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    node_modules: Path,
) -> None:
    web = tmp_path / "web"
    shutil.copytree(WEB, web, ignore=shutil.ignore_patterns("node_modules"))
    (web / "node_modules").symlink_to(node_modules)
    (web / "src/words/fr.ts").write_text(
        'import { en } from "./en";\n'
        'import { tourEn } from "./tour/en";\n'
        'export const words = { ...en, tour: "Visite guidée" };\n'
        'export const parts = { tour: { ...tourEn, quiz: "Et vous ?" } };\n'
    )
    index = web / "src/words/index.ts"
    text = index.read_text()
    line = '  fr: { name: "Français", tag: "fr", load: () => import("./fr") },\n'
    index.write_text(text.replace("} satisfies Record", f"{line}}} satisfies Record"))
    static = tmp_path / "static"
    subprocess.run(["node", "build.mjs", str(static)], cwd=web, check=True, timeout=120)
    monkeypatch.setattr("headway.serve.app.STATIC_DIR", static)
    with running(translator_dir) as server:
        seen = look(url=server.url, locale="fr").open(text=sentences[0], tour=4).ended()
        seen.page.wait_for_selector("html[lang=fr]")
        assert seen.page.inner_text("#tour-start") == "Visite guidée"
        seen.page.wait_for_selector("#quiz-question")
        assert seen.page.inner_text("#quiz-question").startswith("Et vous ?")
        assert seen.page.inner_text("#tab-compare") == "Compare"  # what it lacks is English
        told: Any = seen.page.locator("#tongue option").all_inner_texts()
        assert told == ["English", "中文", "Français"]
