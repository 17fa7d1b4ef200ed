"""Engines that know only some kinds refuse all others, by name: nothing is computed as if it were something else."""

import json
from pathlib import Path

import pytest
from nn.building import NN_ENTRIES, named, with_kind, written

from headway.config import catalogue
from headway.decode.ctranslate2.weights import Ct2LayoutBuilder
from headway.decode.native.model import NativeModel
from headway.decode.stored_config import SUPPORTED_FIELDS, UnsupportedModelError
from headway.storage.tensor_file import TensorFile

UNKNOWN = [entry for entry in NN_ENTRIES if named(entry) not in SUPPORTED_FIELDS]


@pytest.mark.parametrize("entry", UNKNOWN, ids=named)
def test_a_kind_is_refused_by_name(entry: catalogue.Entry, translator_dir: Path) -> None:
    stored = TensorFile(translator_dir / "model.safetensors")
    model = json.loads((translator_dir / "config.json").read_text(encoding="utf-8"))["model"]
    with_it = with_kind(entry).resolved().to_dict()
    if entry.slot in with_it:
        model[entry.slot] = with_it[entry.slot]
    elif entry.slot == "rope_scaling":  # a setting of the position
        for side in ("encoder", "decoder"):
            model[side] |= {"position": with_it[side]["position"]}
    else:
        for side in ("encoder", "decoder"):
            model[side] |= {entry.slot: with_it[side].get(entry.slot, model[side].get(entry.slot))}
    assert f'"{entry.kind}"' in json.dumps(model), written(entry)
    slot = entry.slot.replace("_", " ")
    for build in (lambda: Ct2LayoutBuilder(model, stored, positions=8).build(), lambda: NativeModel(model, stored)):
        reason = rf"{entry.slot} {entry.kind}\b|{slot} (?:are|is) not supported"
        if entry.slot == "rope_scaling":
            reason = "position rope is not supported"
        with pytest.raises(UnsupportedModelError, match=reason):
            build()


def test_most_kinds_are_unknown_to_them() -> None:
    assert len(UNKNOWN) > 40 and "mixer attention" in SUPPORTED_FIELDS
