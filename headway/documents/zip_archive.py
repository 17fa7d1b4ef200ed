"""Documents that are zip archives of XML, with limits against zip bombs. Other parts are copied unchanged.

What an archive says about the size of its parts is not believed: bytes are counted as they are unpacked, a chunk at a
time."""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator

from headway.documents.limits import current_meter, format_bytes
from headway.errors import HeadwayError

CHUNK_BYTES = 64 << 10
DIRECTORY_ENTRY = b"PK\x01\x02"  # how each entry of an archive's directory begins
COMPRESSION_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those of office documents; others unpack unboundedly
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
        self.meter = current_meter()
        self.unpacked: set[str] = set()  # parts that were counted
        self.check_part_count(data.count(DIRECTORY_ENTRY))  # before an object is made for each
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
        self.check_part_count(len(self.members))
        max_bytes = self.meter.limits.unpacked_bytes
        if total > max_bytes or (total > MIN_BYTES_FOR_RATIO and total > MAX_COMPRESSION_RATIO * size):
            raise HeadwayError(
                f"{self.name} is refused as a zip bomb: it would unpack from {size:,} to {total:,} bytes."
            )
        if len({member.filename for member in self.members}) < len(self.members):
            raise HeadwayError(f"{self.name} is refused: two of its parts have the same name.")
        if any(member.flag_bits & 1 for member in self.members):
            raise HeadwayError(f"{self.name} is encrypted. Save it without a password first.")
        for member in self.members:
            if member.compress_type not in COMPRESSION_METHODS:
                raise HeadwayError(
                    f"{self.name}: {member.filename} is packed by a method that such documents do not use. Save the "
                    "document again."
                )

    def check_part_count(self, count: int) -> None:
        max_count = self.meter.limits.parts
        if count > max_count:
            raise HeadwayError(f"{self.name} has {count:,} parts: at most {max_count:,} are allowed.")

    def read_chunks(self, member: zipfile.ZipInfo) -> Iterator[bytes]:
        """The content of a part. Each chunk is counted against the limit of unpacked bytes."""
        try:
            with self.zip.open(member) as file:
                while chunk := file.read(CHUNK_BYTES):
                    if member.filename not in self.unpacked:  # a part that was parsed may be copied later
                        self.meter.count_unpacked(len(chunk), self.name)
                    yield chunk
        except ZIP_ERRORS as error:
            raise HeadwayError(f"{self.name} is damaged: {member.filename}: {error}") from None
        self.unpacked.add(member.filename)

    def read_xml(self, member: zipfile.ZipInfo) -> bytes:
        """A part to be parsed as XML."""
        max_bytes = self.meter.limits.part_bytes
        content = bytearray()
        for chunk in self.read_chunks(member):
            content += chunk
            if len(content) > max_bytes:
                raise HeadwayError(
                    f"{self.name}: {member.filename} is larger than {format_bytes(max_bytes)}, the limit for a part."
                )
        return bytes(content)

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
                if data is not None:
                    new.writestr(info, data)
                    continue
                info.file_size = member.file_size
                with new.open(info, "w") as copy:
                    for chunk in self.read_chunks(member):
                        copy.write(chunk)
        return output.getvalue()
