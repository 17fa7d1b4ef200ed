"""Documents that are zip archives of XML, with limits against zip bombs. Other parts are copied unchanged."""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable

from headway.errors import HeadwayError

MAX_MEMBERS = 10_000
MAX_UNPACKED_BYTES = 512 << 20  # of all parts together
MAX_PART_BYTES = 64 << 20  # of a part that is translated, unpacked
MAX_COMPRESSION_RATIO = 200  # XML of real documents rarely reaches 30
MIN_BYTES_FOR_RATIO = 16 << 20  # smaller archives may have any ratio
ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    ValueError,
    OSError,
)


class ZipDocument:
    """The members of a zip file, in order."""

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        try:
            self.zip = zipfile.ZipFile(io.BytesIO(data))
        except ZIP_ERRORS as error:
            raise HeadwayError(
                f"{name} cannot be opened: {error}. Is it a valid .{name.rpartition('.')[2]} document?"
            ) from None
        self.members = self.zip.infolist()
        self.check_limits(len(data))

    def check_limits(self, size: int) -> None:
        """Refuse zip bombs, ambiguous archives and encrypted ones."""
        total = sum(member.file_size for member in self.members)
        if len(self.members) > MAX_MEMBERS:
            raise HeadwayError(f"{self.name} has {len(self.members):,} parts: at most {MAX_MEMBERS:,} are allowed.")
        if total > MAX_UNPACKED_BYTES or (total > MIN_BYTES_FOR_RATIO and total > MAX_COMPRESSION_RATIO * size):
            raise HeadwayError(
                f"{self.name} is refused as a zip bomb: it would unpack from {size:,} to {total:,} bytes."
            )
        if len({member.filename for member in self.members}) < len(self.members):
            raise HeadwayError(f"{self.name} is refused: two of its parts have the same name.")
        if any(member.flag_bits & 1 for member in self.members):
            raise HeadwayError(f"{self.name} is encrypted. Save it without a password first.")

    def read(self, member: zipfile.ZipInfo) -> bytes:
        try:
            return self.zip.read(member)
        except ZIP_ERRORS as error:
            raise HeadwayError(f"{self.name} is damaged: {member.filename}: {error}") from None

    def read_xml(self, member: zipfile.ZipInfo) -> bytes:
        """A part to be parsed as XML."""
        if member.file_size > MAX_PART_BYTES:
            raise HeadwayError(
                f"{self.name}: {member.filename} is larger than {MAX_PART_BYTES >> 20} MiB, the limit for a part."
            )
        return self.read(member)

    def rewrite(self, new_content: Callable[[zipfile.ZipInfo], bytes | None]) -> bytes:
        """The archive with new content where there is some; order, dates and compression are kept."""
        output = io.BytesIO()
        with zipfile.ZipFile(output, "w") as new:
            new.comment = self.zip.comment
            for member in self.members:
                data = new_content(member)
                info = zipfile.ZipInfo(member.filename, member.date_time)
                info.compress_type, info.comment = member.compress_type, member.comment
                info.external_attr, info.create_system = member.external_attr, member.create_system
                new.writestr(info, self.read(member) if data is None else data)
        return output.getvalue()
