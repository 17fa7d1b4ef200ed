"""Draw the pictures of pages again, by the Python on them: python docs/draw.py retention longnet

Each page is run in an empty folder; what it writes there and links to as pictures/NAME goes to docs/pictures/."""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SNIPPET = re.compile(
    r"(?<!-->\n)^```python\n(.*?)^```", re.DOTALL | re.MULTILINE
)  # one marked as not run has --> above
PICTURE = re.compile(r"\(pictures/([\w.-]+)\)")


def draw_page(page: Path, pictures: Path = HERE / "pictures") -> list[Path]:
    """Run the Python of a page and keep the pictures that it shows; returns their paths."""
    text = page.read_text(encoding="utf-8")
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            exec(compile("\n".join(SNIPPET.findall(text)), str(page), "exec"), {"__name__": "docs"})
        finally:
            os.chdir(before)
        drawn = [name for name in dict.fromkeys(PICTURE.findall(text)) if (Path(folder) / name).exists()]
        return [Path(shutil.copy(Path(folder) / name, pictures / name)) for name in drawn]


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("Usage: python docs/draw.py PAGE …, as in: python docs/draw.py retention")
    for name in sys.argv[1:]:
        page = HERE / f"{name.removesuffix('.md')}.md"
        if not page.exists():
            sys.exit(f"there is no page {page}.")
        drawn = draw_page(page)
        print("\n".join(map(str, drawn)) or f"{page} shows no picture that its Python writes.")


if __name__ == "__main__":
    main()
