"""atrous, longformer, prefix and document against attn-gym's masks, and what their configs refuse."""

import re

import pytest
import torch
from golden_files import golden
from nn.building import small

from headway.config.config import read_config
from headway.config.schema import make_part
from headway.errors import ConfigError
from headway.nn.masks.masks import BoundMask, dense_mask, make_mask
from headway.nn.masks.sparse import atrous
from headway.nn.masks.texts import documents
from headway.nn.sequence import PackedPositions, PackedTexts, positions_from_start
from headway.nn.transformer import Transformer


def test_they_are_attn_gyms() -> None:
    tensors, config = golden("attn_gym_masks")
    tested = set()
    for name, wanted in tensors.items():
        if found := re.fullmatch(r"out\.(atrous|longformer|prefix)_([\d_]+)", name):
            kind, numbers = found[1], tuple(map(int, found[2].split("_")))
            rule = {"atrous": f"atrous{numbers}", "prefix": f"prefix({numbers[0]})"}.get(
                kind, f"longformer({numbers[0]}, {numbers[1:]})"
            )
            assert torch.equal(dense_mask(make_mask(rule), config["n"]), wanted), name
            tested.add(kind)
    assert tested == {"atrous", "longformer", "prefix"}


def test_packed_texts_see_what_attn_gyms_documents_see() -> None:
    tensors, _ = golden("attn_gym_masks")
    ids, wanted = tensors["in.documents"], tensors["out.document_causal"]
    _, index, counts = ids.unique_consecutive(return_inverse=True, return_counts=True)
    ends = counts.cumsum(0)
    places = torch.arange(len(ids)) - (ends - counts)[index]
    texts = PackedTexts(index[None].int(), (ends - counts).int(), ends.int())
    packed = PackedPositions(places[None], torch.ones(1, len(ids), dtype=torch.bool), texts, int(counts.max()))
    tokens = positions_from_start(len(ids), packed, torch.device("cpu"))
    for rule in ("causal & document", "causal"):  # packed texts never see each other
        assert torch.equal(BoundMask(make_mask(rule), tokens, tokens, 1).dense(1)[0, 0], wanted)
    whole = positions_from_start(len(ids), None, torch.device("cpu"))
    by_ids = BoundMask(make_mask("causal") & documents(ids[None]), whole, whole, 1)
    assert torch.equal(by_ids.dense(1)[0, 0], wanted)


def test_what_is_known_of_them() -> None:
    assert atrous(3, 10).lookback == 10 and make_mask("causal & atrous(3, 10)").lookback == 10
    assert make_mask("longformer(4, (7, 0, 7))").global_tokens == (0, 7)
    assert make_mask("causal & longformer(4)").hides_future and make_mask("longformer(4)").lookback is None
    assert make_mask("prefix(3)").hides_future is False
    assert make_mask("document & local(3)").splits_texts and not make_mask("local(3)").splits_texts
    assert make_mask("longformer(3, (0, 1)) | longformer(3, (5,))").global_tokens == (0, 1, 5)


def test_a_dilated_window_bounds_the_cache() -> None:
    config = small(encoder=0, decoder={"mask": "causal & atrous(2, 6)"})
    assert config.kv_bytes_per_token() == 0 and config.costs()["decoder"].cached_per_text > 0


def test_what_they_refuse() -> None:
    with pytest.raises(ConfigError, match="global_tokens are positions, counted from 0, and -1 is none"):
        make_mask("longformer(4, (0, -1))")
    with pytest.raises(ConfigError, match='a decoder must not see the future, and the mask "prefix\\(8\\)" shows it'):
        small(encoder=0, decoder={"mask": "prefix(8)"}).resolved()
    lm = {"vocabulary": 29, "encoder": {"layers": 0}, "decoder": {"layers": 1, "mask": "causal & document"}}
    with pytest.raises(
        ConfigError, match=r"model\.decoder\.mask: running text has no documents that a mask could keep"
    ):
        read_config({"model": lm, "train": {"objective": "causal"}})


@torch.no_grad()
def test_global_tokens_connect_all_in_two_layers() -> None:
    """A change at one end of the text reaches the other by way of the global token, and without it does not."""
    ids, near = torch.randint(4, 29, (1, 40)), {}
    for rule in ("longformer(3)", "local(3)"):
        torch.manual_seed(1)
        model = Transformer(small(decoder=0, encoder={"mask": rule})).double().eval()
        other = ids.clone()
        other[0, 39] = 3
        near[rule] = torch.equal(model.encode(ids).values[0, 10], model.encode(other).values[0, 10])
    assert near == {"longformer(3)": False, "local(3)": True}


def test_a_config_reads_lists_of_positions() -> None:
    part = make_part("mask", {"kind": "longformer", "window": 5, "global_tokens": [0, 9]})
    assert part == make_part("mask", "longformer(5, (0, 9))") == make_part("mask", "longformer(5, [0, 9])")
