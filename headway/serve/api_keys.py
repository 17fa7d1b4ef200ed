"""API keys: a file with one per line, as `KEY` or as `NAME KEY`, perhaps with limits: `requests=60 quota=1000000`.

KEY may be given as sha256:HEX. The file is read again when it changes, so that keys can be added and revoked."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from headway.errors import HeadwayError
from headway.serve.errors import ApiKeyError
from headway.serve.settings import ClientLimits

NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
HASHED_PREFIX = "sha256:"


@dataclass(frozen=True)
class ApiKey:
    name: str  # under which its use is logged and counted
    limits: ClientLimits


class ApiKeys:
    """Knows whose key a request has. Without a file no key is needed."""

    def __init__(
        self,
        path: str | None,
        limits: ClientLimits | None = None,
        option: str = "--api-keys",
        warn: Callable[[str], None] = lambda message: None,
    ) -> None:
        """limits: of a key whose line has none of its own. option: that named the file, for error messages. warn: is
        told once of a file that has changed and cannot be read."""
        self.path = None if path is None else Path(path)
        self.limits = limits or ClientLimits()
        self.option = option
        self.warn = warn
        self._last_fault = ""
        self._keys: dict[bytes, ApiKey] = {}  # by hash
        self._file_version = (0, 0)  # time of change and size, when it was last read
        if self.path is not None:
            self._read(self.path)

    @property
    def required(self) -> bool:
        return self.path is not None

    def identify(self, key: str) -> ApiKey:
        if not key:
            raise ApiKeyError(key_given=False)
        if self.path is not None:
            self._read_if_possible(self.path)
        found = self._keys.get(_hash_key(key))
        if found is None:
            raise ApiKeyError(key_given=True)
        return found

    def _read_if_possible(self, path: Path) -> None:
        """While the file cannot be read, the keys that were last read stay valid."""
        try:
            self._read(path)
            self._last_fault = ""
        except HeadwayError as error:
            if str(error) != self._last_fault:
                self._last_fault = str(error)
                self.warn(f"{error} The keys that were read before stay valid.")

    def read_again(self) -> None:
        if self.path is not None:
            self._file_version = (0, 0)
            self._read(self.path)

    def _read(self, path: Path) -> None:
        try:
            status = path.stat()
            if (version := (status.st_mtime_ns, status.st_size)) == self._file_version:
                return
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise HeadwayError(f"{self.option} {path} cannot be read: {reason}.") from None
        keys: dict[bytes, ApiKey] = {}
        names = 0
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if text and not text.startswith("#"):
                names += 1
                for digest, key in self._parse_line(text, f"{self.option} {path}, line {number}", names).items():
                    if digest in keys:
                        raise HeadwayError(f"{self.option} {path}, line {number}: this key is there already.")
                    keys[digest] = key
        self._keys = keys
        self._file_version = version

    def _parse_line(self, line: str, where: str, number: int) -> dict[bytes, ApiKey]:
        """where: for error messages; they never quote a line, since it has a key. A line of two words may be a name and
        a key, or a key with a space in it: both are valid then."""
        name, key, *options = [*line.split(), "", ""][: max(len(line.split()), 2)]
        if not key or not NAME.fullmatch(name) or not all("=" in option for option in options):
            return {_parse_key(line, where): ApiKey(f"key-{number}", self.limits)}
        given: dict[str, int] = {}
        for option in options:
            limit, _, value = option.partition("=")
            if limit not in asdict(self.limits) or not value.isdecimal() or not 0 < int(value[:19]) < 10**18:
                known = ", ".join(f"{known}=NUMBER" for known in asdict(self.limits))
                raise HeadwayError(f"{where}: after the name and the key only {known} are allowed.")
            given[limit] = int(value)
        named = ApiKey(name, replace(self.limits, **given))
        keys = {_parse_key(key, where): named}
        if not options and not key.lower().startswith(HASHED_PREFIX):
            keys[_hash_key(line)] = named
        return keys


def _parse_key(text: str, where: str) -> bytes:
    if not text.lower().startswith(HASHED_PREFIX):
        return _hash_key(text)
    try:
        digest = bytes.fromhex(text[len(HASHED_PREFIX) :])
    except ValueError:
        digest = b""
    if len(digest) != hashlib.sha256().digest_size:
        raise HeadwayError(f"{where}: after sha256: there must be 64 hexadecimal digits.")
    return digest


def _hash_key(key: str) -> bytes:
    """Keys are compared as hashes, so that the time a comparison takes reveals nothing about them."""
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
