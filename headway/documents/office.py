"""What .docx and .odt have in common: XML parts of a zip archive, each translated as pieces."""

import re
import zipfile
from collections.abc import Callable, Sequence

from headway.documents.encodings import DecodedText
from headway.documents.markup import MarkupFormat, Piece, collect_segments, write_translated
from headway.documents.segments import DocumentCounts, SegmentQueue, TranslateSegments
from headway.documents.xml import decode_xml
from headway.documents.zip_archive import ZipDocument
from headway.errors import HeadwayError

ParsePart = Callable[[str, str], tuple[Sequence[Piece], MarkupFormat]]  # takes the text of a part and its name


def translate_archive(
    data: bytes, name: str, translate: TranslateSegments, parts: re.Pattern[str], main: str, parse: ParsePart
) -> tuple[bytes, DocumentCounts]:
    """parts: the names of the parts to translate; main: the one that must exist."""
    archive = ZipDocument(data, name)
    if main not in [member.filename for member in archive.members]:
        raise HeadwayError(f"{name} is not a valid .{name.rpartition('.')[2]} document: it has no {main}.")
    queue = SegmentQueue()
    parsed = {}
    for member in archive.members:
        if parts.fullmatch(member.filename):
            part_name = f"{name}: {member.filename}"
            source = decode_xml(archive.read_xml(member), part_name)
            pieces, markup_format = parse(source.text, part_name)
            parsed[member.filename] = source, collect_segments(pieces, queue, markup_format), markup_format
    queue.translate_all(translate)

    def translated_part(member: zipfile.ZipInfo) -> bytes | None:
        if member.filename not in parsed:
            return None
        source, segments, markup_format = parsed[member.filename]
        text, changed = write_translated(segments, queue, markup_format)
        return DecodedText(text, source.encoding).encode("xmlcharrefreplace") if changed else None

    return archive.rewrite(translated_part), queue.counts()
