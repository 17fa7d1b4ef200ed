"""constraints.txt: a tool that floats breaks a build that nobody touched."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_our_own_set_up_is_pinned() -> None:
    """Whatever the extra dev names, itself or by other extras."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    own, *named = extras["dev"]
    named += [one for extra in re.findall(r"\w+", own)[1:] for one in extras[extra]]
    names = {re.split(r"[<>=\[]", one)[0] for one in named}
    pinned = re.findall(r"^([\w-]+)==[\d.]+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert set(pinned) == names | {"torch"}
    assert len(names) > 15
