"""What .docx and .odt have in common: parts of an archive, each translated as pieces."""

import re
import zipfile
from collections.abc import Callable, Sequence

from headway.documents.encodings import Encoded
from headway.documents.markup import Dialect, Piece, gather, written
from headway.documents.segments import Counts, Translate, Work
from headway.documents.xml import text_of
from headway.documents.zip_archive import Archive
from headway.errors import HeadwayError

Read = Callable[[str, str], tuple[Sequence[Piece], Dialect]]  # the text of a part and its name


def translate_archive(
    data: bytes, name: str, translate: Translate, parts: re.Pattern[str], main: str, read: Read
) -> tuple[bytes, Counts]:
    """parts: the names of those that are translated; main: the one that must be there."""
    archive = Archive(data, name)
    names = [member.filename for member in archive.members]
    if main not in names:
        raise HeadwayError(f"{name} has no {main} in it: this is no {name.rpartition('.')[2]} file.")
    work = Work()
    found = {}
    for member in archive.members:
        if parts.fullmatch(member.filename):
            shown = f"{name}: {member.filename}"
            source = text_of(archive.text(member), shown)
            pieces, dialect = read(source.text, shown)
            found[member.filename] = source, gather(pieces, work, dialect), dialect
    work.run(translate)

    def changed(member: zipfile.ZipInfo) -> bytes | None:
        if member.filename not in found:
            return None
        source, gathered, dialect = found[member.filename]
        new, is_new = written(gathered, work, dialect)
        return Encoded(new, source.encoding).bytes("xmlcharrefreplace") if is_new else None

    return archive.written(changed), work.counts()
