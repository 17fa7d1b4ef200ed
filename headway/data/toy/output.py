"""Write synthetic text: to new files, or to files that hold it already."""

from pathlib import Path

from headway.errors import HeadwayError


def write_texts(folder: str | Path, texts: dict[str, list[str]]) -> list[Path]:
    """Write the lines of each file name; return the files. Raises HeadwayError if one is there with other text."""
    files = {Path(folder) / name: "".join(f"{line}\n" for line in lines).encode() for name, lines in texts.items()}
    different = [path.name for path, text in files.items() if path.exists() and not _has_content(path, text)]
    if different:
        raise HeadwayError(
            f"{folder} already has {', '.join(different)} with other text, which is never overwritten. Choose another "
            "folder."
        )
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_bytes(text)
    return list(files)


def _has_content(path: Path, text: bytes) -> bool:
    """Whether a file holds just what would be written: the same command may be run twice."""
    return path.is_file() and path.stat().st_size == len(text) and path.read_bytes() == text
