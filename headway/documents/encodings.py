"""Bytes as text and back, without a change to a byte that nobody touched."""

import codecs
import re
from typing import NamedTuple

from headway.errors import HeadwayError

MARKS = {  # the longer first: one begins like the other
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
    codecs.BOM_UTF8: "utf-8",
}
# What pages and catalogues are written in; Python knows others, some of which are no encodings of text.
KNOWN = re.compile(
    r"utf-?8|utf-?16(le|be)?|(us-)?ascii|(iso-?|latin)[\d-]+|windows-125\d|cp125\d|koi8-[ru]|shift_jis|euc-(jp|kr)|big5|"
    r"gb(2312|k|18030)",
    re.I,
)


class Encoded(NamedTuple):
    text: str  # with its byte order mark, if it has one
    encoding: str

    def bytes(self, unknown: str = "strict") -> bytes:
        """unknown: what becomes of letters that the encoding does not have, as Python names it."""
        try:
            return self.text.encode(self.encoding, unknown)
        except UnicodeEncodeError as error:
            letter = self.text[error.start]
            raise HeadwayError(
                f'the translation has the letter "{letter}", which cannot be written in {self.encoding}. Convert the file to '
                "UTF-8 first."
            ) from None


def decoded(data: bytes, name: str, declared: str = "") -> Encoded:
    """Text by its byte order mark, else as it says of itself, else UTF-8."""
    marked = next((encoding for mark, encoding in MARKS.items() if data.startswith(mark)), None)
    if marked is None and declared and not KNOWN.fullmatch(declared):
        raise HeadwayError(f'{name} says that it is written in "{declared}", which is not known. Convert it to UTF-8.')
    encoding = marked or declared or "utf-8"
    try:
        text = data.decode(encoding)
    except LookupError:
        raise HeadwayError(
            f'{name} says that it is written in "{declared}", which is not known. Convert it to UTF-8.'
        ) from None
    except UnicodeDecodeError as error:
        raise HeadwayError(
            f"{name}: byte 0x{data[error.start]:02x} at offset {error.start} is not {encoding.upper()}. Convert the file "
            "first, for example with: iconv -f latin1 -t utf-8"
        ) from None
    found = Encoded(text, encoding)
    if found.bytes("replace") != data:
        raise HeadwayError(f"{name} is written in {encoding}, in a way that cannot be kept. Convert it to UTF-8.")
    return found
