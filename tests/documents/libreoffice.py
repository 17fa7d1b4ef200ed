"""What the real program says to a document. It is not always here, and takes seconds to start."""

import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAM = shutil.which("soffice") or shutil.which("libreoffice")
needs_libreoffice = pytest.mark.skipif(
    PROGRAM is None, reason="LibreOffice is missing: apt-get install libreoffice-writer"
)


def opened(path: Path) -> str:
    """Its text, after it has been laid out on pages too. The files lie beside it."""
    for kind in ("pdf", "txt:Text"):
        home = f"-env:UserInstallation={(path.parent / 'home').as_uri()}"
        command = [str(PROGRAM), home, "--headless", "--convert-to", kind, path.name]
        subprocess.run(command, cwd=path.parent, check=True, capture_output=True, timeout=300)
    assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF-")
    return path.with_suffix(".txt").read_text(encoding="utf-8-sig")
