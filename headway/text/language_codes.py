"""Compare, translate and format language codes. Imports nothing that takes time.

Models of other toolkits have codes of their own (eng_Latn, zh_CN, deu). Ours are as short as they can be (en, de), with
a script or region only where a model tells them apart (zh-Hans); `shorten_codes` makes them. Wherever a user names a
language, all spellings of it are understood: `match_languages`."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

CANONICAL_CODES = {"nb": "no", "iw": "he", "in": "id", "ji": "yi", "cmn": "zh", "fil": "tl"}
# ISO 639-3 to ISO 639-1, also of single languages that stand for a group in multilingual models: arb is Standard
# Arabic, zsm Standard Malay.
ISO_CODES = """
    aar:aa abk:ab afr:af aka:ak als:sq amh:am ara:ar arb:ar arg:an asm:as ava:av aym:ay ayr:ay aze:az azj:az
    bak:ba bam:bm bel:be ben:bn bih:bh bis:bi bod:bo bos:bs bre:br bul:bg cat:ca ces:cs cha:ch che:ce chv:cv
    cmn:zh cor:kw cos:co cym:cy dan:da deu:de div:dv dzo:dz ekk:et ell:el eng:en epo:eo est:et eus:eu ewe:ee
    fao:fo fas:fa fij:fj fin:fi fra:fr fry:fy ful:ff fuv:ff gaz:om gla:gd gle:ga glg:gl glv:gv grn:gn guj:gu
    hat:ht hau:ha hbs:sh heb:he hin:hi hrv:hr hun:hu hye:hy ibo:ig ido:io iku:iu ile:ie ina:ia ind:id ipk:ik
    isl:is ita:it jav:jv jpn:ja kal:kl kan:kn kas:ks kat:ka kau:kr kaz:kk khk:mn khm:km kik:ki kin:rw kir:ky
    kmr:ku knc:kr kom:kv kon:kg kor:ko kur:ku lao:lo lat:la lav:lv lim:li lin:ln lit:lt ltz:lb lug:lg lvs:lv
    mal:ml mar:mr mkd:mk mlg:mg mlt:mt mon:mn mri:mi msa:ms mya:my nau:na nav:nv nbl:nr nde:nd nep:ne nld:nl
    nno:nn nob:nb nor:no npi:ne nya:ny oci:oc oji:oj ori:or orm:om ory:or oss:os pan:pa pbt:ps pes:fa plt:mg
    pol:pl por:pt pus:ps que:qu quy:qu roh:rm ron:ro run:rn rus:ru sag:sg san:sa sin:si slk:sk slv:sl sme:se
    smo:sm sna:sn snd:sd som:so sot:st spa:es sqi:sq srd:sc srp:sr ssw:ss sun:su swa:sw swe:sv swh:sw tah:ty
    tam:ta tat:tt tel:te tgk:tg tgl:tl tha:th tir:ti ton:to tsn:tn tso:ts tuk:tk tur:tr twi:tw uig:ug ukr:uk
    urd:ur uzb:uz uzn:uz ven:ve vie:vi vol:vo wln:wa wol:wo xho:xh ydd:yi yid:yi yor:yo zho:zh zsm:ms zul:zu
"""
TWO_LETTER_CODES = dict(entry.split(":") for entry in ISO_CODES.split())
USUAL_SCRIPTS = {"ar": "arab"}  # where models have others beside it, and the bare code means this one
CHINESE_SCRIPTS = {"zh-cn": "zh-hans", "zh-sg": "zh-hans", "zh-tw": "zh-hant", "zh-hk": "zh-hant"}
MAX_LISTED = 24  # languages, or directions, in a message


def primary_language(language: str) -> str:
    """The code without country or script, in its usual form: pt-BR -> pt, nb -> no, eng_Latn -> en."""
    code = language.replace("_", "-").lower().partition("-")[0]
    code = TWO_LETTER_CODES.get(code, code)
    return CANONICAL_CODES.get(code, code)


def normalise_code(language: str) -> str:
    """One spelling for what means the same: eng_Latn -> en-latn, zh_CN -> zh-hans, en_XX -> en, pt_BR -> pt-br."""
    first, *rest = language.replace("_", "-").lower().split("-")
    code = "-".join([TWO_LETTER_CODES.get(first, first), *(part for part in rest if part != "xx")])
    return CHINESE_SCRIPTS.get(code, code)


def languages_match(requested: str, available: str) -> bool:
    """Whether one may be used for the other: de for de_DE, pt for pt-BR, but not pt-PT for pt-BR."""
    one, other = map(normalise_code, (requested, available))
    return one == other or (primary_language(one) == primary_language(other) and ("-" not in one or "-" not in other))


def match_languages(language: str, known: Sequence[str]) -> list[str]:
    """The known languages that this may be: one if it is spelled exactly so, or means exactly that; none, or several,
    as zh-Hans and zh-Hant for zh."""
    if language in known:
        return [language]
    same = [code for code in known if normalise_code(code) == normalise_code(language)]
    return same or [code for code in known if languages_match(language, code)]


def order_pivots(languages: Iterable[str]) -> list[str]:
    """Languages to translate through, each once, the best first: English, for which most models are made."""
    return sorted(dict.fromkeys(languages), key=lambda language: primary_language(language) != "en")


def shorten_codes(codes: Sequence[str]) -> dict[str, str]:
    """The shortest code of each of a model's languages that tells it from the others: eng_Latn -> en, zho_Hans ->
    zh-Hans beside zho_Hant. A code that cannot be told from another stays as it is."""
    by_language: dict[str, list[str]] = defaultdict(list)
    for code in codes:
        by_language[normalise_code(code).partition("-")[0]].append(code)
    shortened = {}
    for language, group in by_language.items():
        for code in group:
            subtags = normalise_code(code).split("-")[1:]
            usual = len(group) == 1 or not subtags or subtags == [USUAL_SCRIPTS.get(language)]
            shortened[code] = language if usual else "-".join([language, *map(_format_subtag, subtags)])
    counts = list(shortened.values())
    return {code: short if counts.count(short) == 1 else code for code, short in shortened.items()}


def _format_subtag(subtag: str) -> str:
    return subtag.title() if len(subtag) == 4 else subtag.upper()


def format_languages(languages: Sequence[str]) -> str:
    """en, de, fr; of many, the first."""
    listed = ", ".join(languages[:MAX_LISTED])
    return listed if len(languages) <= MAX_LISTED else f"{listed}, … ({len(languages)} in all)"


def format_directions(directions: Sequence[tuple[str, str]]) -> str:
    """en ↔ de, en → fr; of many, the first."""
    known = set(directions)
    formatted: dict[str, None] = {}
    for source, target in directions:
        if (target, source) not in known:
            formatted[f"{source or '?'} → {target or '?'}"] = None
        elif f"{target} ↔ {source}" not in formatted:
            formatted[f"{source} ↔ {target}"] = None
        if len(formatted) > MAX_LISTED:
            return f"{', '.join(list(formatted)[:MAX_LISTED])}, … ({len(known)} directions)"
    return ", ".join(formatted)


def list_directions(sources: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    """Every pair of two languages. Of 200 languages, 40,000."""
    return [(source, target) for source in sources for target in targets if source != target]


def count_directions(sources: Sequence[str], targets: Sequence[str]) -> int:
    """How many those are."""
    return len(sources) * len(targets) - len(set(sources) & set(targets))


def usual_direction(sources: Sequence[str], targets: Sequence[str]) -> tuple[str, str]:
    """One to begin with: the first, or of many English to German, if it is there; "" for both without any."""
    if count_directions(sources, targets) > MAX_LISTED and "en" in sources and "de" in targets:
        return "en", "de"
    return next(((source, target) for source in sources for target in targets if source != target), ("", ""))


def describe_languages(sources: Sequence[str], targets: Sequence[str]) -> str:
    """The directions of a model, or the languages where these are many."""
    if count_directions(sources, targets) <= MAX_LISTED:
        return format_directions(list_directions(sources, targets))
    if set(sources) == set(targets):
        return f"between {format_languages(sources)}"
    return f"{format_languages(sources)} → {format_languages(targets)}"
