"""Documents that are zip archives of XML. Parts that nobody translates are copied, unopened."""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable

from headway.errors import HeadwayError

MOST_MEMBERS = 10_000
MOST_BYTES = 512 << 20  # unpacked, all together
MOST_TEXT = 64 << 20  # unpacked, a part that is read
MOST_RATIO = 200  # unpacked to packed, from RATIO_FROM on: XML of real documents seldom reaches 30
RATIO_FROM = 16 << 20
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    ValueError,
    OSError,
)


class Archive:
    """The members of a zip file, in order."""

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        try:
            self.zip = zipfile.ZipFile(io.BytesIO(data))
        except BROKEN as error:
            raise HeadwayError(
                f"{name} cannot be opened: {error}. Is it really a {name.rpartition('.')[2]} file?"
            ) from None
        self.members = self.zip.infolist()
        self.refuse(len(data))

    def refuse(self, size: int) -> None:
        """Archives that would grow without bound, or that hide something."""
        total = sum(member.file_size for member in self.members)
        if len(self.members) > MOST_MEMBERS:
            raise HeadwayError(f"{self.name} has {len(self.members):,} parts, more than {MOST_MEMBERS:,}: refused.")
        if total > MOST_BYTES or (total > RATIO_FROM and total > MOST_RATIO * size):
            raise HeadwayError(
                f"{self.name} would unpack {size:,} bytes to {total:,}, which no document does: refused."
            )
        if len({member.filename for member in self.members}) < len(self.members):
            raise HeadwayError(f"{self.name} has two parts of the same name: refused.")
        if any(member.flag_bits & 1 for member in self.members):
            raise HeadwayError(f"{self.name} is encrypted. Save it without a password first.")

    def read(self, member: zipfile.ZipInfo) -> bytes:
        try:
            return self.zip.read(member)
        except BROKEN as error:
            raise HeadwayError(f"{self.name} is damaged: {member.filename}: {error}") from None

    def text(self, member: zipfile.ZipInfo) -> bytes:
        """A part that is to be read as XML."""
        if member.file_size > MOST_TEXT:
            raise HeadwayError(f"{self.name}: {member.filename} has more than {MOST_TEXT >> 20} MiB: refused.")
        return self.read(member)

    def written(self, changed: Callable[[zipfile.ZipInfo], bytes | None]) -> bytes:
        """The archive again, with other content where there is some; order, dates and packing as they were."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as new:
            new.comment = self.zip.comment
            for member in self.members:
                data = changed(member)
                info = zipfile.ZipInfo(member.filename, member.date_time)
                info.compress_type, info.comment = member.compress_type, member.comment
                info.external_attr, info.create_system = member.external_attr, member.create_system
                new.writestr(info, self.read(member) if data is None else data)
        return out.getvalue()
