"""XLIFF 1.2 and 2.x (.xliff, .xlf), the exchange format of translation tools.

Units without a target, or with an empty one or one in the state "new", get a target that is marked as one to be
reviewed. Units that are translated or must not be are kept."""

from headway.documents.bilingual import (
    BilingualFile,
    MissingTarget,
    collect_text,
    find_attribute,
    find_child,
    indent_before,
    local_name,
    set_attribute,
    translate_bilingual,
)
from headway.documents.segments import DocumentCounts, TranslateSegments
from headway.documents.xml import XmlNode
from headway.errors import HeadwayError
from headway.text.language_codes import languages_match

UNTRANSLATED_STATES = ("new", "needs-translation", "initial")
# Inline elements around text of the sentence; all others stand for codes.
PAIRED_ELEMENTS = frozenset(["g", "mrk", "pc"])


def translate_bytes(data: bytes, name: str, translate: TranslateSegments) -> tuple[bytes, DocumentCounts]:
    return translate_bilingual(
        data, name, translate, lambda root, text, language: find_missing(root, text, language, name), is_pair
    )


def is_pair(node: XmlNode) -> bool:
    return local_name(node) in PAIRED_ELEMENTS and find_attribute(node, "translate") != "no"


def find_missing(root: XmlNode, text: str, language: str, name: str) -> BilingualFile:
    top = find_child(root, "xliff")
    if top is None:
        raise HeadwayError(f"{name} is not an XLIFF file: it has no <xliff>.")
    found = BilingualFile([], [], [])
    if find_attribute(top, "version").startswith("2"):
        check_language(top, "trgLang", language, text, found)
        walk_units(top, ("file", "group", "unit"), "segment", text, found)
    else:
        for file in top.children:
            if local_name(file) == "file":
                check_language(file, "target-language", language, text, found)
        walk_units(top, ("file", "body", "group"), "trans-unit", text, found)
    return found


def check_language(node: XmlNode, attribute: str, language: str, text: str, found: BilingualFile) -> None:
    """A file that names no target language gets ours; one that names another gets a warning."""
    declared = find_attribute(node, attribute)
    if language and not declared:
        found.edits.append(set_attribute(node, text, attribute, language))
    elif language and not languages_match(declared, language):
        found.warnings.append(f'the file says that its targets are in "{declared}", and they are in "{language}" now')


def walk_units(
    node: XmlNode, containers: tuple[str, ...], unit: str, text: str, found: BilingualFile, translate: bool = True
) -> None:
    """Find the units below `node`; an outer translate="no" holds until an inner one says yes."""
    for child in node.children:
        kind = local_name(child)
        if kind not in (*containers, unit):
            continue
        stated = find_attribute(child, "translate")
        wanted = translate if not stated else stated == "yes"
        if kind != unit:
            walk_units(child, containers, unit, text, found, wanted)
        elif wanted:
            missing = find_target(child, text)
            found.missing.extend([missing] if missing else [])


def find_target(unit: XmlNode, text: str) -> MissingTarget | None:
    source, target = find_child(unit, "source"), find_child(unit, "target")
    if source is None:
        return None
    state = find_attribute(target, "state") if target is not None else ""
    if target is not None and collect_text(target).strip() and state not in UNTRANSLATED_STATES:
        return None
    content = find_child(unit, "seg-source") or source
    is_version_1 = local_name(unit) == "trans-unit"
    if not is_version_1 and find_attribute(unit, "state") not in ("", *UNTRANSLATED_STATES):
        return None
    prefix = source.name.removesuffix("source")
    attributes = ' state="needs-review-translation"' if is_version_1 else ""
    before, after = f"<{prefix}target{attributes}>", f"</{prefix}target>"
    if target is not None:
        return MissingTarget(content, target.start, target.end, before, after)
    return MissingTarget(content, content.end, content.end, indent_before(text, content.start) + before, after)
