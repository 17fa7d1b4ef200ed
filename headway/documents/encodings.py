"""Decode bytes to text and encode it again, so that unchanged text gives the same bytes."""

import codecs
import re
from typing import NamedTuple

from headway.errors import HeadwayError

BYTE_ORDER_MARKS = {  # longest first: UTF-32-LE begins like UTF-16-LE
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
    codecs.BOM_UTF8: "utf-8",
}
# Encodings of real pages and catalogues. Python knows others, some of which are not text encodings.
KNOWN_ENCODINGS = re.compile(
    r"utf-?8|utf-?16(le|be)?|(us-)?ascii|(iso-?|latin)[\d-]+|windows-125\d|cp125\d|koi8-[ru]|shift_jis|euc-(jp|kr)|big5|"
    r"gb(2312|k|18030)",
    re.I,
)


class DecodedText(NamedTuple):
    text: str  # with its byte order mark, if it has one
    encoding: str

    def encode(self, errors: str = "strict") -> bytes:
        """errors: Python's error handler for characters that the encoding does not have."""
        try:
            return self.text.encode(self.encoding, errors)
        except UnicodeEncodeError as error:
            character = self.text[error.start]
            raise HeadwayError(
                f'the translation contains "{character}", which {self.encoding} cannot encode. Convert the file to '
                "UTF-8 first."
            ) from None


def decode_text(data: bytes, name: str, declared: str = "") -> DecodedText:
    """Decode by the byte order mark, else the declared encoding, else UTF-8."""
    by_mark = next((encoding for mark, encoding in BYTE_ORDER_MARKS.items() if data.startswith(mark)), None)
    if by_mark is None and declared and not KNOWN_ENCODINGS.fullmatch(declared):
        raise HeadwayError(f'{name} declares the encoding "{declared}", which is not supported. Convert it to UTF-8.')
    encoding = by_mark or declared or "utf-8"
    try:
        text = data.decode(encoding)
    except LookupError:
        raise HeadwayError(
            f'{name} declares the encoding "{declared}", which is not supported. Convert it to UTF-8.'
        ) from None
    except UnicodeDecodeError as error:
        raise HeadwayError(
            f"{name}: byte 0x{data[error.start]:02x} at offset {error.start} is not {encoding.upper()}. Convert the "
            "file first, for example with: iconv -f latin1 -t utf-8"
        ) from None
    decoded = DecodedText(text, encoding)
    if decoded.encode("replace") != data:
        raise HeadwayError(f"{name}: its {encoding} bytes cannot be reproduced exactly. Convert it to UTF-8.")
    return decoded
