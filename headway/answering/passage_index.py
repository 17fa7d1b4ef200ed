"""An index of passages: built from documents, opened to be searched.

    DIR/index.json          kind, settings, counts: see headway.retrieval.index_folder
    DIR/documents.json      the files: names, sizes, times
    DIR/passages.jsonl      a passage a line, and in DIR/passage_ends where each of them ends
    DIR/bm25/               words: see headway.retrieval.bm25
    DIR/vectors             meanings, if there is an encoder: float32 (passages, width), of length 1

Documents are read one after another, and passages are written as they are found. Vectors take far longer: a run that is
interrupted goes on behind the last."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from headway.answering.document_files import DocumentFile, find_documents, find_root
from headway.answering.passages import MAX_WORDS, Passage, Source, cut_passages
from headway.documents.blocks.files import place_unit, read_text_blocks
from headway.errors import HeadwayError
from headway.files.atomic import write_text_atomically
from headway.files.cache import fingerprint
from headway.retrieval.array_file import ArrayWriter, map_array
from headway.retrieval.bm25 import Bm25Index, Bm25Writer
from headway.retrieval.index_folder import ABOUT_FILE, IndexAbout, build_index, read_about

KIND = "passages"
PASSAGES_PER_BATCH = 256  # that an encoder is given at a time
DOCUMENTS_PER_REPORT = 20
PASSAGES_FILE = "passages.jsonl"
DOCUMENTS_FILE = "documents.json"

Embed = Callable[[Sequence[str]], np.ndarray]
Report = Callable[[str], None]


class IndexedDocument(NamedTuple):
    name: str
    size: int
    modified: int


class DocumentList(NamedTuple):
    root: str  # the folder that their names are relative to
    documents: list[IndexedDocument]


class BuiltIndex(NamedTuple):
    documents: int
    passages: int
    skipped: dict[str, str]  # documents in folders that could not be read, and why


def build_passage_index(
    paths: Sequence[str | os.PathLike[str]],
    out: Path,
    encoder: str = "",
    device: str = "auto",
    *,
    overwrite: bool = False,
    report: Report = lambda message: None,
) -> BuiltIndex:
    """Make an index of documents, or go on with one. encoder: a model that makes vectors of texts; "": words alone."""
    files = find_documents(paths)
    given = [[file.name, file.size, file.modified] for file in files]
    settings = {
        "text": fingerprint([json.dumps(given)]),
        "encoder": os.path.abspath(encoder) if encoder and Path(encoder).is_dir() else encoder,
        "max_words": MAX_WORDS,
    }
    with build_index(out, KIND, settings, overwrite=overwrite) as build:
        if build.complete is not None:
            counts = build.complete.counts
            return BuiltIndex(counts["documents"], counts["passages"], {})
        skipped = {} if (out / DOCUMENTS_FILE).exists() else write_passages_or_nothing(out, files, report)
        ends = map_array(out / "passage_ends", 1, "<i8")
        counts = {"documents": len(read_documents(out).documents), "passages": len(ends)}
        if encoder:
            counts["width"] = write_vectors(out, encoder, device, report)
        build.finish(counts)
    return BuiltIndex(counts["documents"], counts["passages"], skipped)


def write_passages_or_nothing(out: Path, files: Sequence[DocumentFile], report: Report) -> dict[str, str]:
    """A run that fails here leaves an empty folder, so that other files can be tried."""
    try:
        return write_passages(out, files, report)
    except BaseException:
        for path in out.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise


def write_passages(out: Path, files: Sequence[DocumentFile], report: Report) -> dict[str, str]:
    """Passages, and the words in them. A document in a folder that cannot be read is left out; one that was named is an
    error. Returns which, and why."""
    skipped: dict[str, str] = {}
    documents: list[DocumentFile] = []
    end = 0
    (out / "passage_ends.partial").unlink(missing_ok=True)  # of an interrupted run
    with (
        Bm25Writer(out / "bm25") as words,
        ArrayWriter(out / "passage_ends", 1, "<i8") as ends,
        (out / PASSAGES_FILE).open("wb") as passages,
    ):
        for number, file in enumerate(files, start=1):
            try:
                blocks = read_text_blocks(file.path)
            except HeadwayError as error:
                if file.named:
                    raise
                skipped[file.name] = str(error)
                continue
            found: list[int] = []
            for passage in cut_passages(blocks, len(documents)):
                line = json.dumps(passage).encode() + b"\n"
                passages.write(line)
                end += len(line)
                found.append(end)
                words.add(f"{file.name}\n{passage.indexed_text}")
            ends.append(np.array(found, np.int64))
            documents.append(file)
            if number % DOCUMENTS_PER_REPORT == 0:
                report(f"read {number:,} of {len(files):,} documents: {ends.rows:,} passages")
        if not end:
            raise HeadwayError("these documents have no text: there is nothing to search.")
        ends.finish()
        words.finish()
    table = {
        "root": find_root([file.path for file in files]),
        "documents": [[file.name, file.size, file.modified] for file in documents],
    }
    write_text_atomically(out / DOCUMENTS_FILE, json.dumps(table, ensure_ascii=False) + "\n")
    return skipped


def write_vectors(out: Path, encoder: str, device: str, report: Report) -> int:
    """The vectors of all passages. Returns how many numbers each has."""
    from headway.retrieval.vector_search import normalise
    from headway.translate.text_vectors import load_embedder

    embed = load_embedder(encoder, device)
    lines = PassageFile(out)
    width = int(embed(["x"]).shape[1])
    if (out / "vectors").exists():
        map_array(out / "vectors", width, "<f4", len(lines))
        return width
    with ArrayWriter(out / "vectors", width, "<f4") as writer:
        for start in range(writer.rows, len(lines), PASSAGES_PER_BATCH):
            batch = [lines.read(n).indexed_text for n in range(start, min(start + PASSAGES_PER_BATCH, len(lines)))]
            writer.append(normalise(embed(batch)))
            report(f"made vectors of {writer.rows:,} of {len(lines):,} passages")
        writer.finish()
    return width


class PassageFile:
    """The passages on disk, by number."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / PASSAGES_FILE
        self.ends = map_array(folder / "passage_ends", 1, "<i8")[:, 0]
        self.data = map_array(self.path, 1, "<u1", int(self.ends[-1]) if len(self.ends) else 0)[:, 0]

    def __len__(self) -> int:
        return len(self.ends)

    def read(self, number: int) -> Passage:
        start, end = int(self.ends[number - 1]) if number else 0, int(self.ends[number])
        try:
            text, document, heading, first, last = json.loads(self.data[start:end].tobytes())
            return Passage(str(text), int(document), str(heading), int(first), int(last))
        except (ValueError, TypeError, RecursionError):
            raise HeadwayError(f"{self.path} is damaged. Build the index again, with --overwrite.") from None


@dataclass
class PassageIndex:
    """An index that is open: next to nothing of it is in memory."""

    folder: Path
    about: IndexAbout
    root: str
    documents: list[IndexedDocument]
    passages: PassageFile
    words: Bm25Index
    vectors: np.ndarray | None  # (passages, width)
    stamp: tuple[int, int]  # of index.json: whether another index has taken its place

    def __len__(self) -> int:
        return len(self.passages)

    @property
    def encoder(self) -> str:
        """The model that made the vectors; "" without any."""
        return str(self.about.settings.get("encoder", ""))

    def read_source(self, number: int) -> Source:
        passage = self.passages.read(number)
        if not 0 <= passage.document < len(self.documents):
            raise HeadwayError(f"{self.passages.path} is damaged. Build the index again, with --overwrite.")
        name = self.documents[passage.document].name
        return Source(name, place_unit(name), passage)

    def find_changed(self, names: Iterable[str]) -> list[str]:
        """Those of the documents that are others now than when they were indexed, or gone."""
        by_name = {document.name: document for document in self.documents}
        return [name for name in names if name in by_name and not is_unchanged(Path(self.root), by_name[name])]

    def has_changed(self) -> bool:
        """Whether it was built again since it was opened."""
        return read_stamp(self.folder) != self.stamp


def open_passage_index(folder: str | os.PathLike[str]) -> PassageIndex:
    folder = Path(folder)
    stamp = read_stamp(folder)
    about = read_about(folder, KIND)
    passages = PassageFile(folder)
    words = Bm25Index(folder / "bm25")
    vectors = None
    if about.settings.get("encoder"):
        vectors = map_array(folder / "vectors", int(about.counts.get("width", 0)) or 1, "<f4", len(passages))
    if len(words) != len(passages):
        raise HeadwayError(f"{folder} is damaged: its files are of several runs. Build it again, with --overwrite.")
    return PassageIndex(folder, about, *read_documents(folder), passages, words, vectors, stamp)


def read_stamp(folder: Path) -> tuple[int, int]:
    try:
        about = (folder / ABOUT_FILE).stat()
    except OSError:
        return 0, 0
    return about.st_ino, about.st_mtime_ns


def is_unchanged(root: Path, document: IndexedDocument) -> bool:
    try:
        about = (root / document.name).stat()
    except OSError:
        return False
    return (about.st_size, about.st_mtime_ns) == (document.size, document.modified)


def read_documents(folder: Path) -> DocumentList:
    try:
        table = json.loads((folder / DOCUMENTS_FILE).read_text(encoding="utf-8"))
        found = [IndexedDocument(str(name), int(size), int(modified)) for name, size, modified in table["documents"]]
        return DocumentList(str(table["root"]), found)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise HeadwayError(f"{folder / DOCUMENTS_FILE} is damaged. Build the index again, with --overwrite.") from None
