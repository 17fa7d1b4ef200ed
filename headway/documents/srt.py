"""SubRip subtitles (.srt)."""

import re

from headway.documents.segments import DocumentCounts, TranslateSegments
from headway.documents.subtitles import SubtitleSyntax, translate_subtitles

TIMESTAMP = r"(\d{1,4}):(\d\d):(\d\d)[,.](\d{1,3})"
SRT = SubtitleSyntax(  # which has few tags, and no entities
    timing=re.compile(rf"\ufeff?\s*{TIMESTAMP}\s*-->\s*{TIMESTAMP}[^\r\n]*"),
    tag=re.compile(r"</?[a-zA-Z][^<>]*>|\{\\[^{}]*\}"),
)


def translate_bytes(data: bytes, name: str, translate: TranslateSegments) -> tuple[bytes, DocumentCounts]:
    return translate_subtitles(data, name, translate, SRT)
