"""What a mixer and a feed-forward promise by the configs they accept, each as a check that raises AssertionError."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from contracts.combining import Value, forms
from headway.config import catalogue
from headway.config.schema import from_dict
from headway.errors import ConfigError, HeadwayError
from headway.nn.layers.linear import Dense, Linear
from headway.nn.masks.masks import Mask, make_mask
from headway.nn.positions.positions import NoPosition
from headway.nn.sequence import PackedPositions, PackedTexts
from headway.nn.transformer import Transformer

T = 12  # tokens of a text
SHORT, LONG = 64, 256  # tokens after which a cache is measured
LAYER = {"position": "none", "feedforward": "relu(24)", "residual": "pre"}


class Place(NamedTuple):
    """Where a mixer stands: one layer for each part of it."""

    mixer: Value
    side: str
    mask: str
    position: str

    def config(self, **changes: Any) -> Transformer.Config:
        own = LAYER | {name: changes.pop(name) for name in LAYER if name in changes}
        own |= {"layers": len(self.mixer), "mixer": list(self.mixer), "mask": self.mask, "position": self.position}
        table = {"d_model": 16, "vocabulary": 29, "dropout": 0.0, "encoder": {"layers": 0}, "decoder": {"layers": 0}}
        table |= {"norm": "rmsnorm"}  # which, unlike layernorm, shows what is added to all channels alike
        if self.side == "encoder":
            changes = {"head": "masked"} | changes
        return from_dict(Transformer.Config, table | {self.side: own} | changes)

    def model(self, **changes: Any) -> Transformer:
        """With chance in every parameter, so that none is without effect because of its first value."""
        torch.manual_seed(1)
        model = Transformer(self.config(**changes)).double().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        return model

    @property
    def accepted(self) -> bool:
        try:
            self.config().resolved()
        except ConfigError:
            return False
        return True


def places(mixer: Value, masks: list[str] | None = None, positions: list[str] | None = None) -> list[Place]:
    """Where this mixer is accepted: on each side under each of these masks, or the first that it takes there; and with
    each of these positions, or the first that it takes."""
    found = []
    for side in ("encoder", "decoder"):
        tried = [
            as_side_takes(side, mask) for mask in masks or ["full", "causal", *(form for (form,) in forms("mask"))]
        ]
        at_side = []
        for mask in dict.fromkeys(tried):
            each = (Place(mixer, side, mask, name) for name in positions or ["none", *catalogue.kinds("position")])
            taken = (place for place in each if place.accepted)
            at_side += taken if positions else [place for place in [next(taken, None)] if place]
            if at_side and not masks:
                break
        found += at_side
    return found


def as_side_takes(side: str, mask: str) -> str:
    return mask if side == "encoder" or mask == "causal" else f"causal & ({mask})"


@torch.no_grad()
def run(model: Transformer, ids: Tensor) -> Tensor:
    return model.encode(ids).values if "encoder" in model.config.sides else model.decode(ids)


def check_mask(place: Place) -> None:
    """Another token in place of a key changes what comes out at a query only if the mask shows it; and where the mask
    shows the future, some of it is heard."""
    model, mask = place.model(), make_mask(place.mask)
    ids = torch.randint(28, (1, T))
    others = torch.where(torch.eye(T, dtype=torch.bool), 28, ids)  # (keys, T): each row with one other token
    heard = ((run(model, others) - run(model, ids)).abs().amax(-1) > 1e-11).T  # (queries, keys)
    shown = visible(mask, model, place)
    assert heard.diagonal().all()
    unseen = [(q, k) for q, k in (heard & ~shown).nonzero().tolist()]
    assert not unseen, f'"{mask.name}" hides what was heard (query, key): {unseen}'
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    if (shown & future).any():
        assert (heard & future).any(), f'"{mask.name}" shows the future, and nothing of it is heard'


def visible(mask: Mask, model: Transformer, place: Place) -> Tensor:
    """(queries, keys) through all layers, by any head."""
    stack = getattr(model.config, place.side)
    heads = max(getattr(mixer, "heads", 1) for mixer in stack.mixer)
    axes = (torch.zeros(()).long(), torch.arange(heads)[:, None, None], torch.arange(T)[:, None], torch.arange(T))
    one = mask(*axes).expand(heads, T, T).any(0) | torch.eye(T, dtype=torch.bool)
    return torch.linalg.matrix_power(one.double(), stack.layers) > 0


@torch.no_grad()
def check_packed(place: Place) -> None:
    """Texts that are packed into one row come out as they do alone; or are refused."""
    model, lengths = place.model(), torch.tensor([5, 3, 4])
    ends = lengths.cumsum(0)
    texts = PackedTexts(
        torch.arange(3).repeat_interleave(lengths)[None].int(), (ends - lengths).int(), ends.int()
    )  # (1, T), (texts,), (texts,)
    positions = torch.cat([torch.arange(int(length)) for length in lengths])[None]
    packed = PackedPositions(positions, torch.ones(1, T, dtype=torch.bool), texts, 5)
    ids = torch.randint(29, (1, T))
    encodes = "encoder" in model.config.sides
    try:
        together = model.encode(ids, packed).values if encodes else model.decode(ids, packed)
    except HeadwayError as error:
        if "packed" not in str(error):
            raise
        return
    alone = torch.cat([run(model, part) for part in ids.split(lengths.tolist(), dim=1)], dim=1)
    assert torch.allclose(together, alone, rtol=0, atol=1e-9), "a packed text is heard by its neighbours"


def check_position(place: Place) -> None:
    """Without its position the same model computes something else."""
    model, ids = place.model(norm="rmsnorm"), torch.randint(29, (2, T))  # others hide what all channels have in common
    heard = run(model, ids)
    stack: Any = model.stacks[place.side]
    stack.positions = nn.ModuleList(NoPosition(NoPosition.Config(), None) for _ in stack.positions)
    assert not torch.allclose(run(model, ids), heard, rtol=0, atol=1e-9), f"{place.position} changes nothing"


def check_linear_layers(place: Place, **changes: Any) -> None:
    """Every linear layer is of the config's kind, but for those that a module lists in `keep_float`."""
    model = place.model(linear="bitnet", **changes)
    found = [name for part in sublayers(model, place.side) for name in plain_matrices(part)]
    assert not found, f"not made by make_linear: {', '.join(found)}"


def sublayers(model: Transformer, side: str) -> list[nn.Module]:
    stack: Any = model.stacks[side]
    shared = [] if stack.shared is None else [stack.shared]
    return [*(part for block in stack.blocks for part in block.sublayers.values()), *shared]


def plain_matrices(module: nn.Module, path: str = "") -> Iterator[str]:
    """Paths of dense linear layers and of matrices, which are parameters with two axes: one that is no matrix has a
    third, or Muon would take it for one."""
    kept = getattr(module, "keep_float", ())
    missing = [name for name in kept if not hasattr(module, name)]
    assert not missing, f"keep_float names {missing}, which {type(module).__name__} does not have"
    for name, parameter in module.named_parameters(recurse=False):
        if parameter.dim() == 2 and name not in kept and not isinstance(module, (Linear, nn.Embedding)):
            yield path + name
    for name, child in module.named_children():
        if name not in kept:
            if type(child) is Dense or isinstance(child, nn.Linear):
                yield path + name
            else:
                yield from plain_matrices(child, f"{path}{name}.")


def check_residual_outputs(place: Place, sublayer: str, **changes: Any) -> None:
    """A tenth of the weights that a sub-layer names in `residual_outputs` makes its output about a tenth or less: twice
    that where a function between them is not linear. It may name none if its output is hardly any smaller with a tenth
    of all its linear layers."""
    model, ids, outputs = place.model(**changes), torch.randint(29, (2, T)), []
    stack: Any = model.stacks[place.side]
    part = stack.blocks[-1].sublayers[sublayer]
    names = getattr(part, "residual_outputs", ())
    layers = [part.get_submodule(name) for name in names]
    layers = layers or [module for module in part.modules() if isinstance(module, Linear)]
    assert all(isinstance(layer, Linear) for layer in layers), "residual_outputs are linear layers"
    part.register_forward_hook(lambda module, inputs, output: outputs.append(float(output.norm())))
    with torch.no_grad():
        for layer in layers:
            if getattr(layer, "bias", None) is not None:
                layer.bias.zero_()
        run(model, ids)
        for layer in layers:
            layer.weight.mul_(0.1)
        run(model, ids)
    whole, small = outputs
    if not names:
        assert small > 0.5 * whole, (
            f"{type(part).__name__} names no residual_outputs, and linear layers scale its output"
        )
        return
    assert 0 < small <= 0.2 * whole, f"with a tenth of {', '.join(names)} the output is {small / whole:.3g} of it"


@torch.no_grad()
def check_cache(place: Place) -> None:
    """What decoding keeps after a short and a long text is what the config says: bounded or not, and how much."""
    model = place.model()
    state, kept, size = model.new_state(2), [], []
    for tokens in (SHORT, LONG - SHORT):
        for chunk in torch.randint(29, (2, tokens)).split(SHORT, dim=1):
            model.decode(chunk, state=state)
        size.append(state.bytes)
        kept.append(sum(x.numel() for x in state.tensors().values() if x.is_floating_point()))
    decoder, cost = model.config.decoder, model.config.costs()["decoder"]
    bounded = all(mixer.bounded(make_mask(mask)) for mixer, mask in zip(*map(decoder.tiled, ("mixer", "mask"))))
    assert bounded == (size[0] == size[1]), f"bounded is {bounded}, and it keeps {size[0]} bytes, then {size[1]}"
    grown = kept[1] - kept[0]
    assert grown == 2 * (LONG - SHORT) * cost.cached_per_token, f"{grown} numbers more, not what cost() says"
