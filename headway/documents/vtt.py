"""WebVTT subtitles (.vtt). Notes, styles, regions and settings of cues are kept, and so are the names of speakers."""

import re

from headway.documents.html import unescape_html
from headway.documents.segments import DocumentCounts, TranslateSegments
from headway.documents.subtitles import SubtitleSyntax, translate_subtitles
from headway.errors import HeadwayError

SIGNATURE = re.compile(rb"(?:\xef\xbb\xbf)?WEBVTT(?:[ \t\r\n]|$)")
TIMESTAMP = r"(?:(\d{2,4}):)?(\d\d):(\d\d)\.(\d{3})"
ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\u00a0": "&nbsp;", "\u200e": "&lrm;", "\u200f": "&rlm;"}


def escape_vtt(text: str) -> str:
    return "".join(ESCAPES.get(character, character) for character in text)


VTT = SubtitleSyntax(
    timing=re.compile(rf"\s*{TIMESTAMP}[ \t]+-->[ \t]+{TIMESTAMP}(?:[ \t][^\r\n]*)?"),
    tag=re.compile(r"</?[a-zA-Z][^<>]*>|<\d[\d:.]*>"),
    unescape=unescape_html,
    escape=escape_vtt,
)


def translate_bytes(data: bytes, name: str, translate: TranslateSegments) -> tuple[bytes, DocumentCounts]:
    if not SIGNATURE.match(data):
        raise HeadwayError(f"{name} is not a .vtt file: it does not begin with WEBVTT.")
    return translate_subtitles(data, name, translate, VTT)
