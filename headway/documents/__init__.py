"""Documents: translate the text of a file and leave everything else unchanged, to the byte.

    report.docx ─ files.py           dispatch by suffix
                    │
    reader          txt html markdown srt vtt po json_values xliff tmx docx pptx xlsx odt epub pdf
                    │                                          bytes → pieces: text, tags, breaks (markup.Piece)
                    │  encodings, xml, zip_archive, office     decoding and containers
                    │  footnotes, range_markers, runs          pieces that move as one
                    │  subtitles, messages, bilingual          what several formats have in common; markdown_inline
                    ▼
    markup.py       collect_segments: pieces → segments, plain text with inline_tags
                    ▼
    segments.py     SegmentQueue: SegmentRequest → a translate function → SegmentResult
                    ▼
    tag_placement.py  place_tags: inline tags → the aligned words of the translation
                    ▼
    writer          markup.write_translated, with the format's own writer (MarkupFormat)

blocks/ reads documents to be searched: headings, paragraphs and code with their places. limits.py bounds what a
document may take; worker.py reads and writes one in a process of its own, for a server.

`translate_file` translates files, `translate_html` a string. Both take a function that translates a list of segments;
`segment_translator(translator)` makes one from a model."""

from headway.documents.files import (
    FORMAT_MODULES,
    available_suffixes,
    document_type,
    output_suffix,
    sample_text,
    translate_file,
)
from headway.documents.html import translate_html
from headway.documents.segments import (
    DocumentCounts,
    SegmentRequest,
    SegmentResult,
    TranslateSegments,
    segment_translator,
)

__all__ = [
    "FORMAT_MODULES",
    "DocumentCounts",
    "SegmentRequest",
    "SegmentResult",
    "TranslateSegments",
    "available_suffixes",
    "document_type",
    "output_suffix",
    "sample_text",
    "segment_translator",
    "translate_file",
    "translate_html",
]
