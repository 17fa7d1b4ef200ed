"""Names of downloads: whatever a client calls its file, the header has one name in it, and nothing else."""

import re
from urllib.parse import unquote

import pytest

from headway.serve.download_names import (
    MAX_STEM_CHARACTERS,
    add_download_name,
    clean_stem,
    content_disposition,
    split_download_name,
)
from headway.serve.errors import ApiError

FILE_ID = "0123456789abcdef" * 2
HEADER = re.compile(r"attachment; filename=\"[\w .()+,=@~!#$&'-]+\"(?:; filename\*=UTF-8''[\w%.~-]+)?", re.ASCII)
NAMES = [
    "report.docx", "", ".", "..", "...", "/", "\\", "a/b", "a\\b", "x\r\nSet-Cookie: a=b", "x\0y", "a\u202etxt.exe",
    "ü", "u\u0308", "😀", "%0d%0a", "%", "a%2f..%2fb", '"', "'", ";", "a;b", "CON", "x" * 1000, " x ", "\ud800",
    "\u2028",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_any_name_makes_one_header(name: str) -> None:
    stored, saved_as = split_download_name(unquote(add_download_name(f"{FILE_ID}.docx", name, "de")))
    assert stored == f"{FILE_ID}.docx"
    assert saved_as.endswith("_de.docx")
    assert not re.search(r"[/\\\r\n\0\u202e\u2028]", saved_as)
    assert len(saved_as) <= MAX_STEM_CHARACTERS + len("_de.docx")
    header = content_disposition(saved_as)
    assert HEADER.fullmatch(header), header
    header.encode("ascii")


@pytest.mark.parametrize("name", [FILE_ID, f"{FILE_ID}.", "x.docx", f"{FILE_ID}.a/b", f"../{FILE_ID}.docx", "..", ""])
def test_names_that_no_download_has(name: str) -> None:
    with pytest.raises(ApiError, match="Invalid filename"):
        split_download_name(name)


def test_a_name_in_an_address_is_cleaned_again() -> None:
    assert split_download_name(f"{FILE_ID}.a\r\nX: y.txt") == (f"{FILE_ID}.txt", "a X_ y.txt")
    assert split_download_name(f"{FILE_ID}.txt") == (f"{FILE_ID}.txt", "translated.txt")
    assert clean_stem("\t") == "translated"
