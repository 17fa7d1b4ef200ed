"""Names of languages, compared. Nothing here imports anything that takes time."""

OTHER_NAMES = {"nb": "no", "iw": "he", "in": "id", "ji": "yi", "cmn": "zh", "fil": "tl"}


def primary(language: str) -> str:
    """The language without its country or script, by its usual name: pt-BR -> pt, nb -> no."""
    name = language.replace("_", "-").lower().partition("-")[0]
    return OTHER_NAMES.get(name, name)


def alike(wanted: str, known: str) -> bool:
    """Whether somebody who asks for one may be given the other: de for de_DE, pt for pt-BR, but not pt-PT for pt-BR."""
    one, other = (language.replace("_", "-").lower() for language in (wanted, known))
    return one == other or (primary(one) == primary(other) and ("-" not in one or "-" not in other))


def shown(directions: list[tuple[str, str]]) -> str:
    """en ↔ de, en → fr"""
    told: list[str] = []
    for source, target in directions:
        if (target, source) not in directions:
            told.append(f"{source or '?'} → {target or '?'}")
        elif f"{target} ↔ {source}" not in told:
            told.append(f"{source} ↔ {target}")
    return ", ".join(told)
