"""Compare and format language codes. Imports nothing that takes time."""

CANONICAL_CODES = {"nb": "no", "iw": "he", "in": "id", "ji": "yi", "cmn": "zh", "fil": "tl"}


def primary_language(language: str) -> str:
    """The code without country or script, in its usual form: pt-BR -> pt, nb -> no."""
    code = language.replace("_", "-").lower().partition("-")[0]
    return CANONICAL_CODES.get(code, code)


def languages_match(requested: str, available: str) -> bool:
    """Whether one may be used for the other: de for de_DE, pt for pt-BR, but not pt-PT for pt-BR."""
    one, other = (language.replace("_", "-").lower() for language in (requested, available))
    return one == other or (primary_language(one) == primary_language(other) and ("-" not in one or "-" not in other))


def format_directions(directions: list[tuple[str, str]]) -> str:
    """en ↔ de, en → fr"""
    formatted: list[str] = []
    for source, target in directions:
        if (target, source) not in directions:
            formatted.append(f"{source or '?'} → {target or '?'}")
        elif f"{target} ↔ {source}" not in formatted:
            formatted.append(f"{source} ↔ {target}")
    return ", ".join(formatted)
