"""Install models from the Hugging Face hub by name, or translators of OPUS-MT by direction.

--from fr --to en ── list_opus_names: fr-en, tc-big-fr-en, ROMANCE-en, roa-en … ── the first that the hub has
                                                                                         │
ORG/NAME, opus-mt-fr-en ── download, plan_import ── its languages ── user's models ◄─────┘
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from headway.convert.hub import HubUnreachableError, UnknownModelError, is_hub_name
from headway.convert.importer import ImportPlan, ImportReport
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.errors import ConfigError, HeadwayError
from headway.storage.registry import InstalledModel, check_new_model, list_installed, set_default
from headway.text.language_codes import format_languages, match_languages, primary_language, shorten_codes

OPUS_OWNER = "Helsinki-NLP"
OPUS_KINDS = ("opus-mt", "opus-mt-tc-big")
# Groups of languages that OPUS-MT has models for, the smallest first; in capitals, its own names of groups.
OPUS_GROUPS = {
    "zle": "be ru uk", "zlw": "cs dsb hsb pl sk", "zls": "bg bs hr mk sl sr", "bat": "lt lv",
    "gmq": "da fo is nb nn no sv", "SCANDINAVIA": "da fo is nb nn no sv", "gmw": "af de en fy lb nds nl yi",
    "CELTIC": "br cy ga gd gv kw", "cel": "br cy ga gd gv kw", "dra": "kn ml ta te",
    "NORTH_EU": "af da de fo fy is nb nl nn no sv", "sem": "am ar he mt ti",
    "ROMANCE": "an ast ca co es fr fur gl it lad lij lmo mwl nap oc pt rm ro sc scn vec wa",
    "roa": "an ast ca co es fr gl it lad lij lmo mwl oc pt rm ro sc scn vec wa",
    "itc": "an ast ca co es fr gl it la lad lij lmo mwl oc pt rm ro sc scn vec wa",
    "gem": "af da de en fo fy is lb nb nds nl nn no sv yi", "fiu": "et fi hu se", "urj": "et fi hu se",
    "trk": "az ba crh cv kk ky tk tr tt ug uz", "inc": "as bn gu hi mr ne or pa sd si ur",
    "iir": "as bn fa gu hi ku mr ne or os pa ps sd si tg ur",
    "sla": "be bg bs cs dsb hr hsb mk pl ru sk sl sr uk",
    "bnt": "ln lg ny rn rw sn sw ts tn xh zu",
}  # fmt: skip


def list_opus_names(source: str, target: str) -> Iterator[str]:
    """Where a translator may be: of these two languages, of a group, of groups on both sides, of many languages."""
    first, second = primary_language(source), primary_language(target)
    sources, targets = (
        [group for group, own in OPUS_GROUPS.items() if code in own.split()] for code in (first, second)
    )
    pairs = [(first, second), *((group, second) for group in sources), *((first, group) for group in targets)]
    pairs += [(group, group) for group in sources if group in targets]
    pairs += [("mul", second)] if second == "en" else [(first, "mul")] if first == "en" else []
    for pair in pairs:
        for kind in OPUS_KINDS:
            yield f"{OPUS_OWNER}/{kind}-{pair[0]}-{pair[1]}"


@dataclass(frozen=True)
class HubRequest:
    """A model on the hub: by its name, or one of OPUS-MT by its direction."""

    name: str  # ORG/NAME, or NAME of OPUS-MT; "": by direction
    source: str
    target: str
    options: ImportOptions

    def list_names(self) -> list[str]:
        """Where to look, in order."""
        if not self.name:
            return list(list_opus_names(self.source, self.target))
        return [self.name if is_hub_name(self.name) else f"{OPUS_OWNER}/{self.name}"]


def find_on_hub(request: HubRequest) -> tuple[str, ImportPlan]:
    """The name and the plan of the first that the hub has, and that translates in this direction."""
    names = request.list_names()
    for name in names:
        try:
            plan = name_languages(name, plan_import(name, request.options), request.source, request.target)
        except UnknownModelError:
            if request.name:
                raise
            continue
        except HubUnreachableError as error:
            raise HeadwayError(f"{error} {explain_by_hand(name, request)}") from None
        if has_direction(plan, request):
            return name, plan
        if request.name:
            known = " → ".join(format_languages(side) or "?" for side in (plan.source_languages, plan.target_languages))
            wanted = f"{request.source or '?'} → {request.target or '?'}"
            raise ConfigError(f"{name} translates {known}, not {wanted}. Leave out --from and --to, or choose another.")
    tried = ", ".join(name.removeprefix(f"{OPUS_OWNER}/") for name in names)
    raise HeadwayError(
        f"{OPUS_OWNER} has no translator from {request.source} to {request.target} on the hub. Tried: {tried}. Look "
        "for another model there, and install it by its name: headway models install ORG/NAME"
    )


def has_direction(plan: ImportPlan, request: HubRequest) -> bool:
    sides = ((request.source, plan.source_languages), (request.target, plan.target_languages))
    return all(not language or match_languages(language, known) for language, known in sides)


def explain_by_hand(name: str, request: HubRequest) -> str:
    short = name.partition("/")[2]
    languages = f" --from {request.source} --to {request.target}" if request.source and request.target else ""
    return (
        f"By hand: on a machine with a network, download all files of {name} to a directory {short}; here: headway "
        f"import {short} --out {short}-headway{languages}, then: headway models add {short}-headway --name {short}"
    )


def name_languages(name: str, plan: ImportPlan, source: str, target: str) -> ImportPlan:
    """With the languages of the group that a model is named after, where the model itself says no more, and with short
    codes, where none of its tokens depend on them."""
    reader = plan.tokenizers.source
    sources = _expand_group(name, plan.source_languages, source, -2)
    targets = _expand_group(name, plan.target_languages, target, -1)
    if not (reader.source_prefix or reader.source_suffix):
        sources = tuple(shorten_codes(sources).values())
    if not (reader.tags or plan.tokenizers.target.target_prefix or reader.source_prefix):
        targets = tuple(shorten_codes(targets).values())
    return replace(plan, source_languages=sources, target_languages=targets)


def _expand_group(name: str, known: tuple[str, ...], language: str, place: int) -> tuple[str, ...]:
    parts = name.rpartition("opus-mt-")[2].removeprefix("tc-big-").split("-")
    group = parts[place] if len(parts) > 1 else ""
    says_group = not known or known in ((group,), (group.lower(),))
    if group in OPUS_GROUPS and says_group:
        return tuple(OPUS_GROUPS[group].split())
    return (primary_language(language),) if language and (not known or known == ("mul",)) else known


def install_from_hub(request: HubRequest, name: str, default: bool) -> tuple[InstalledModel, ImportReport]:
    """Download, import and install a model under this name, or its own. default: see set_default."""
    if name:
        check_new_model(name, default)  # before anything is downloaded
    origin, plan = find_on_hub(request)
    name = name or origin.split("/")[1]
    report = plan.write(check_new_model(name, default))
    return (set_default(name) if default else list_installed()[name]), report
