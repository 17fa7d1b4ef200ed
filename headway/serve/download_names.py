"""Names of translated files: report.docx comes back as report_de.docx, as from LibreTranslate.

The name is part of the address, behind the name that the file is stored under, so it need not be stored. Whatever an
address says is cleaned again before it goes into a header."""

import re
import unicodedata
from pathlib import Path
from urllib.parse import quote

from headway.serve.errors import ApiError

DOWNLOAD = re.compile(r"(?P<id>[0-9a-f]{32})\.(?:(?P<stem>.*)\.)?(?P<suffix>[a-z0-9]{1,8})", re.DOTALL)
FORBIDDEN = re.compile(r'[<>:"/\\|?*%;]')  # in file names of some system, or in a header
MAX_STEM_CHARACTERS = 100
MAX_SAVED_CHARACTERS = 150  # with the language
DEFAULT_STEM = "translated"


def clean_stem(name: str, max_characters: int = MAX_STEM_CHARACTERS) -> str:
    """A file name without its folders, controls, invisible characters and what systems do not allow in one."""
    last = re.split(r"[/\\]", name)[-1]
    printable = "".join(
        c if unicodedata.category(c)[0] not in "CZ" else " " for c in unicodedata.normalize("NFC", last)
    )
    stem = " ".join(FORBIDDEN.sub("_", printable).split())[:max_characters]
    return stem.strip(". ") or DEFAULT_STEM


def add_download_name(stored: str, uploaded: str, target: str) -> str:
    """The last part of a file's address, percent-encoded. stored: the name it is stored under; uploaded: the client's
    name for the document; target: a language code."""
    file_id, _, suffix = stored.partition(".")
    stem = f"{clean_stem(Path(uploaded).stem)}_{clean_stem(target)}"
    return quote(f"{file_id}.{stem}.{suffix}", safe="")


def split_download_name(name: str) -> tuple[str, str]:
    """The name that a file is stored under, and the one to save it as, from the last part of its address."""
    match = DOWNLOAD.fullmatch(name)
    if not match:
        raise ApiError(400, "Invalid filename")
    stem = clean_stem(match["stem"], MAX_SAVED_CHARACTERS) if match["stem"] else DEFAULT_STEM
    return f"{match['id']}.{match['suffix']}", f"{stem}.{match['suffix']}"


def content_disposition(name: str) -> str:
    """The header for a file to be saved under this name: in ASCII, and by RFC 5987 where that is not enough."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    plain = re.sub(r"[^\w .()+,=@~!#$&'-]", "_", plain).strip(". ") or DEFAULT_STEM
    header = f'attachment; filename="{plain}"'
    return header if plain == name else f"{header}; filename*=UTF-8''{quote(name, safe='')}"
