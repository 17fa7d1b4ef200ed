"""Split folders into files that can be transferred: a tar file in pieces of at most 16 MiB, with a list of checksums.

    python recipes/en-de/pieces.py split OUT FOLDER...     # OUT.00, OUT.01 … and OUT.sha256
    python recipes/en-de/pieces.py join OUT FOLDER         # unpacked into FOLDER, if all pieces are there and intact

Checkpoints, logs and partial files are left out.
"""

import hashlib
import sys
import tarfile
import tempfile
from pathlib import Path

SIZE = 16 * 2**20
EXCLUDED = ("checkpoints", ".log", ".partial", ".progress", ".lock")


def split(out: Path, folders: list[Path]) -> None:
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for folder in folders:
                tar.add(folder, folder.name, filter=keep_entry)
        file.seek(0)
        sums = list[str]()
        while data := file.read(SIZE):
            piece = out.with_name(f"{out.name}.{len(sums):02}")
            piece.write_bytes(data)
            sums.append(f"{hashlib.sha256(data).hexdigest()}  {piece.name}\n")
    out.with_name(f"{out.name}.sha256").write_text("".join(sums), encoding="utf-8")
    print(f"{len(sums)} pieces", file=sys.stderr)


def keep_entry(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = Path(entry.name).name
    return None if name.endswith(EXCLUDED) or name.startswith(".") else entry


def join(out: Path, folder: Path) -> None:
    with tempfile.TemporaryFile() as file:
        for line in out.with_name(f"{out.name}.sha256").read_text(encoding="utf-8").splitlines():
            known, name = line.split("  ")
            data = out.with_name(name).read_bytes()
            if hashlib.sha256(data).hexdigest() != known:
                sys.exit(f"{name} is not what was sent. Copy it anew.")
            file.write(data)
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            tar.extractall(folder, filter="data")


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in ("split", "join"):
        sys.exit(__doc__)
    if sys.argv[1] == "split":
        split(Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
    else:
        join(Path(sys.argv[2]), Path(sys.argv[3]))
