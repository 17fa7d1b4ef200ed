"""Find the family that computes exactly what a model does."""

from dataclasses import dataclass

from headway.convert.architecture import Architecture, ConversionError, Json, find_family
from headway.convert.export.differences import build_table, expand_table, find_differences
from headway.convert.export.huggingface.proposals import FAMILIES, Family
from headway.convert.export.rewrites import rewrite_towards
from headway.convert.export.stored_model import StoredModel
from headway.convert.readings import list_readings
from headway.convert.weight_files import WeightSource, count_weights
from headway.errors import ConfigError


@dataclass(frozen=True)
class FamilyMatch:
    """A family, what its reader makes of the config that was proposed, and where that differs from the model."""

    family: Family
    config: Json  # its config.json
    architecture: Architecture | None
    weights: WeightSource  # rewritten as the family writes them
    differences: tuple[str, ...]  # none: it computes the same


def match_families(model: StoredModel) -> list[FamilyMatch]:
    """All families for such an objective, the nearest first."""
    found = [match_family(model, family) for family in FAMILIES[model.objective]]
    return sorted(found, key=lambda match: len(match.differences))


def match_family(model: StoredModel, family: Family) -> FamilyMatch:
    table = model.config.model.to_dict()
    ours = expand_table(table)
    if table["source_vocabulary"] != table["vocabulary"] and not family.two_vocabularies:
        return FamilyMatch(family, {}, None, model.weights, ("it has one vocabulary for both sides",))
    pad = model.tokenizers.target.pad
    proposed = family.propose({**table, "pad_token_id": pad, "max_positions": model.max_positions})
    sizes = {"vocab_size": table["source_vocabulary"], "pad_token_id": pad}
    config = {"model_type": family.model_type, **proposed, **sizes}
    try:
        architectures = [*list_readings(find_family(family.model_type)(config))]
        tables = [build_table(one, table["vocabulary"], table["source_vocabulary"]) for one in architectures]
    except (ConversionError, ConfigError) as error:
        return FamilyMatch(family, config, None, model.weights, (str(error),))
    found = []
    for architecture, theirs in zip(architectures, map(expand_table, tables)):
        rewritten, weights = rewrite_towards(theirs, ours, model.weights)
        differences = tuple(find_differences(rewritten, theirs))
        found.append(FamilyMatch(family, config, architecture, weights, differences))
    return min(found, key=lambda match: (len(match.differences), count_weights(match.weights)))
