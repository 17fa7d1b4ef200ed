"""The index of passages that a server answers questions from: opened at the start, and again when another one has taken
its place."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.answering.passage_index import Embed, PassageIndex, open_passage_index
from headway.errors import HeadwayError
from headway.serve.errors import ApiError
from headway.serve.settings import Log

if TYPE_CHECKING:
    from headway.serve.settings import ServerSettings


class ServedIndex:
    """Clients know the names of its documents, never where they lie."""

    def __init__(self, settings: "ServerSettings", log: Log) -> None:
        assert settings.index is not None
        self.folder = Path(settings.index)
        self.device = settings.device
        self.log = log
        self._lock = threading.Lock()
        self._index = open_passage_index(self.folder)  # one that cannot be opened is said so at the start
        self._embed: Embed | None = None
        self._embed_name = ""

    def open(self) -> tuple[PassageIndex, Embed | None]:
        """The index as it is now, and its encoder. Takes seconds where the encoder is loaded: in a thread."""
        with self._lock:
            if self._index.has_changed():
                try:
                    self._index = open_passage_index(self.folder)
                except HeadwayError as error:
                    self.log(f"the index cannot be opened: {error}", "error")
                    raise ApiError(503, "the index is being built. Try again later.", {"Retry-After": "30"}) from None
                self.log("opened the index again: it has changed")
            if self._index.encoder != self._embed_name:
                self._embed_name = self._index.encoder
                self._embed = self._load_encoder(self._embed_name)
            return self._index, self._embed

    def _load_encoder(self, name: str) -> Embed | None:
        from headway.translate.text_vectors import load_embedder

        try:
            return load_embedder(name, self.device) if name else None
        except HeadwayError as error:
            self.log(f"the index is searched by words alone: {error}", "warning")
            return None

    def hide_path(self, message: str) -> str:
        """A message without the path of the index on the host."""
        return message.replace(str(self.folder.resolve()), "the index").replace(str(self.folder), "the index")

    def describe(self) -> dict[str, Any]:
        index = self._index
        return {"documents": len(index.documents), "passages": len(index), "vectors": index.vectors is not None}
