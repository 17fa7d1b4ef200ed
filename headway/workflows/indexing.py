"""Index texts: documents ─► token chunks with their vectors, for RETRO. See headway.retrieval.chunk_index."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.data.corpora import TextCorpus
    from headway.text.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class ChunkIndexRequest:
    """What `headway index --kind chunks` was asked for."""

    files: Sequence[str]
    out: Path
    documents: Literal["auto", "blank", "lines"] = "auto"
    chunk_tokens: int = 64
    width: int = 512  # of vectors that need no model
    tokenizer: Path | None = None  # a model, or its tokenizer.json; None: learned from the text
    vocabulary: int | None = None  # entries of a tokenizer that is learned
    model: str = ""  # that makes vectors; "": a hashed bag of n-grams
    device: str = "auto"
    approximate: bool = False  # search by faiss
    overwrite: bool = False


def index_chunks(
    request: ChunkIndexRequest,
    log: Callable[[str], None] = lambda message: None,
    on_chunks: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, int]:
    """Build the index. Returns how many tokens, documents and chunks it has."""
    from headway.data.corpora import open_text
    from headway.retrieval.chunk_index import ChunkIndexSettings, ChunkIndexSource, build_chunk_index
    from headway.retrieval.indexed_text import find_document_rule

    text = open_text(request.files)
    if not text.counts.nonempty:
        raise HeadwayError(f"{' and '.join(request.files)}: there is no text to index.")
    rule = find_document_rule(text.read()) if request.documents == "auto" else request.documents
    embedder = None
    if request.model:
        from headway.translate.text_vectors import load_embedder

        embedder = load_embedder(request.model, request.device)
    settings = ChunkIndexSettings(
        request.chunk_tokens, request.width, name_model(request.model) or "ngrams", request.approximate
    )
    source = ChunkIndexSource(text.identity, text.read, find_tokenizer(request, text, log), rule)
    return build_chunk_index(
        request.out, source, settings, embedder, overwrite=request.overwrite, log=log, on_chunks=on_chunks
    )


def name_model(model: str) -> str:
    """A directory by its absolute path, an installed model by its name."""
    return str(Path(model).resolve()) if model and Path(model).is_dir() else model


def find_tokenizer(request: ChunkIndexRequest, text: "TextCorpus", log: Callable[[str], None]) -> "Tokenizer":
    """The one that is given, or one learned from the text: the same that a language model of this text would have."""
    from headway.config.config import read_config
    from headway.train.setup import load_tokenizers, make_tokenizers
    from headway.train.sources import TrainingTexts

    config = read_config({"tokenizer": {"kind": "bpe", **({"size": request.vocabulary} if request.vocabulary else {})}})
    if request.tokenizer is not None:
        return load_tokenizers(request.tokenizer, config)[0].target
    return make_tokenizers(config, TrainingTexts(text=text), log).target
