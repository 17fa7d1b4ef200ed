"""TMX (.tmx), the exchange format of translation memories: units without the target language get it.

A memory to translate with is headway.text.translation_memory."""

from headway.documents.bilingual import (
    BilingualFile,
    MissingTarget,
    collect_text,
    find_attribute,
    find_child,
    indent_before,
    local_name,
    require_language,
    translate_bilingual,
)
from headway.documents.segments import DocumentCounts, TranslateSegments
from headway.documents.xml import XmlNode, escape_xml
from headway.errors import HeadwayError
from headway.text.language_codes import languages_match

ALL_LANGUAGES = "*all*"  # any of the languages can be the source


def translate_bytes(data: bytes, name: str, translate: TranslateSegments) -> tuple[bytes, DocumentCounts]:
    return translate_bilingual(
        data, name, translate, lambda root, text, language: find_missing(root, text, language, name), is_pair
    )


def is_pair(node: XmlNode) -> bool:
    return local_name(node) == "hi"


def find_missing(root: XmlNode, text: str, language: str, name: str) -> BilingualFile:
    top = find_child(root, "tmx")
    body = find_child(top, "body") if top is not None else None
    if top is None or body is None:
        raise HeadwayError(f"{name} is not a TMX file: it has no <tmx> with a <body>.")
    header = find_child(top, "header")
    language = require_language(language, name)
    default = find_attribute(header, "srclang") if header is not None else ""
    found = BilingualFile([], [], [])
    for unit in body.children:
        if local_name(unit) != "tu":
            continue
        variants = {find_language(child): child for child in unit.children if local_name(child) == "tuv"}
        if any(languages_match(known, language) and has_text(variants[known]) for known in variants):
            continue
        source_language = find_attribute(unit, "srclang") or default
        chosen = [
            variant
            for known, variant in variants.items()
            if source_language in ("", ALL_LANGUAGES) or languages_match(known, source_language)
        ]
        segment = find_child(chosen[0], "seg") if chosen else None
        if segment is None:
            continue
        before = f'{indent_before(text, chosen[0].start)}<tuv xml:lang="{escape_xml(language)}"><seg>'
        found.missing.append(MissingTarget(segment, chosen[0].end, chosen[0].end, before, "</seg></tuv>"))
    return found


def find_language(variant: XmlNode) -> str:
    return find_attribute(variant, "xml:lang") or find_attribute(variant, "lang")


def has_text(variant: XmlNode) -> bool:
    segment = find_child(variant, "seg")
    return segment is not None and bool(collect_text(segment).strip())
