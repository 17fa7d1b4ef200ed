"""What a mixer and a feed-forward promise by the configs they accept: nothing is ignored silently."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headway.config import catalogue
from headway.config.schema import from_dict
from headway.contracts.results import require
from headway.errors import ConfigError, HeadwayError
from headway.nn.layers.linear import Dense, Linear
from headway.nn.masks.masks import Mask, make_mask
from headway.nn.positions.positions import NoPosition
from headway.nn.sequence import PackedPositions, PackedTexts
from headway.nn.transformer import Transformer

T = 12  # tokens of a text
SHORT, LONG = 64, 256  # tokens after which a cache is measured
MASKS = (  # in which a text of a dozen tokens sees a difference
    "full", "causal", "local(3)", "prefix(3)", "document", "atrous(2, 4)", "longformer(2, (0, 4))", "strided(3)",
    "fixed(4, 1)", "bigbird(2, random=1, max_positions=32)", "segments(4, 3)",
)  # fmt: skip
LAYER = {"position": "none", "feedforward": "relu(24)", "residual": "pre"}


class Placement(NamedTuple):
    """Where a mixer stands: one layer for each part of it."""

    mixer: tuple[str, ...]
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


def placements(mixer: tuple[str, ...], masks: Sequence[str] = (), positions: Sequence[str] = ()) -> list[Placement]:
    """Where this mixer is accepted: on each side under each of these masks, or the first that it takes there; and with
    each of these positions, or the first that it takes."""
    found = []
    for side in ("encoder", "decoder"):
        at_side: list[Placement] = []
        for mask in dict.fromkeys(for_side(side, mask) for mask in masks or MASKS):
            tried = positions or ["none", *catalogue.kinds("position")]
            taken = (one for one in (Placement(mixer, side, mask, name) for name in tried) if one.accepted)
            at_side += taken if positions else list(itertools.islice(taken, 1))
            if at_side and not masks:
                break
        found += at_side
    return found


def for_side(side: str, mask: str) -> str:
    return mask if side == "encoder" or mask == "causal" else f"causal & ({mask})"


@torch.no_grad()
def run(model: Transformer, ids: Tensor) -> Tensor:
    output: Tensor = model.encode(ids).values if "encoder" in model.config.sides else model.decode(ids)
    return output


def check_mask(placement: Placement) -> None:
    """Another token in place of a key changes the output of a query only if the mask shows it; and where the mask shows
    the future, some of it has an effect."""
    model, mask = placement.model(), make_mask(placement.mask)
    ids = torch.randint(28, (1, T))
    others = torch.where(torch.eye(T, dtype=torch.bool), 28, ids)  # (keys, T): each row with one other token
    changed = ((run(model, others) - run(model, ids)).abs().amax(-1) > 1e-11).T  # (queries, keys)
    shown = visible(mask, model, placement)
    require(bool(changed.diagonal().all()), "an output that depends on its own token", "some that do not")
    hidden = [(q, k) for q, k in (changed & ~shown).nonzero().tolist()]
    require(not hidden, f'nothing of what "{mask.name}" hides', f"an effect of (query, key): {hidden}")
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    if (shown & future).any():
        require(bool((changed & future).any()), f'some of the future that "{mask.name}" shows', "no effect of it")


def visible(mask: Mask, model: Transformer, placement: Placement) -> Tensor:
    """(queries, keys) through all layers, by any head."""
    stack = getattr(model.config, placement.side)
    heads = max(getattr(mixer, "heads", 1) for mixer in stack.mixer)
    axes = (torch.zeros(()).long(), torch.arange(heads)[:, None, None], torch.arange(T)[:, None], torch.arange(T))
    one = mask(*axes).expand(heads, T, T).any(0) | torch.eye(T, dtype=torch.bool)
    reached: Tensor = torch.linalg.matrix_power(one.double(), stack.layers)
    return reached > 0


@torch.no_grad()
def check_packed(placement: Placement) -> None:
    """Texts that are packed into one row come out as they do alone; or are refused."""
    model, lengths = placement.model(), torch.tensor([5, 3, 4])
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
    near = torch.allclose(together, alone, rtol=0, atol=1e-9)
    require(near, "each packed text as it is alone, or an error that names packing", "an effect of its neighbours")


def check_position(placement: Placement) -> None:
    """Without its position the same model computes something else."""
    model, ids = (
        placement.model(norm="rmsnorm"),
        torch.randint(29, (2, T)),
    )  # others hide what all channels have in common
    before = run(model, ids)
    stack: Any = model.stacks[placement.side]
    scope: Any = None  # of which it needs nothing
    stack.positions = nn.ModuleList(NoPosition(NoPosition.Config(), scope) for _ in stack.positions)
    same = torch.allclose(run(model, ids), before, rtol=0, atol=1e-9)
    require(not same, f"another output with {placement.position} than without", "the same: it changes nothing")


def check_linear_layers(placement: Placement, **changes: Any) -> None:
    """Every linear layer is of the config's kind, but for those that a module lists in `keep_float`."""
    model = placement.model(linear="bitnet", **changes)
    found = [name for part in sublayers(model, placement.side) for name in plain_matrices(part)]
    require(
        not found,
        "linear layers of the config's kind, or in keep_float",
        f"not made by make_linear: {', '.join(found)}",
    )


def sublayers(model: Transformer, side: str) -> list[nn.Module]:
    stack: Any = model.stacks[side]
    shared = [] if stack.shared is None else [stack.shared]
    return [*(part for block in stack.blocks for part in block.sublayers.values()), *shared]


def plain_matrices(module: nn.Module, path: str = "") -> Iterator[str]:
    """Paths of dense linear layers and of matrices, which are parameters with two axes: one that is no matrix has a
    third, or Muon would take it for one."""
    kept = getattr(module, "keep_float", ())
    missing = [name for name in kept if not hasattr(module, name)]
    require(not missing, f"what keep_float of {type(module).__name__} names", f"no {', '.join(missing)}")
    for name, parameter in module.named_parameters(recurse=False):
        if parameter.dim() == 2 and name not in kept and not isinstance(module, (Linear, nn.Embedding)):
            yield path + name
    for name, child in module.named_children():
        if name not in kept:
            if type(child) is Dense or isinstance(child, nn.Linear):
                yield path + name
            else:
                yield from plain_matrices(child, f"{path}{name}.")


def check_residual_outputs(placement: Placement, sublayer: str, **changes: Any) -> None:
    """A tenth of the weights that a sub-layer names in `residual_outputs` makes its output about a tenth or less: twice
    that where a function between them is not linear. It may name none if its output is hardly any smaller with a tenth
    of all its linear layers."""
    model, ids, outputs = placement.model(**changes), torch.randint(29, (2, T)), []
    stack: Any = model.stacks[placement.side]
    part = stack.blocks[-1].sublayers[sublayer]
    names = getattr(part, "residual_outputs", ())
    layers = [part.get_submodule(name) for name in names]
    layers = layers or [module for module in part.modules() if isinstance(module, Linear)]
    require(all(isinstance(layer, Linear) for layer in layers), "linear layers in residual_outputs", "others")
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
        name = type(part).__name__
        require(small > 0.5 * whole, f"residual_outputs of {name}", "none, and linear layers scale its output")
        return
    share = f"{small / whole:.3g} of it"
    require(0 < small <= 0.2 * whole, f"about a tenth of the output with a tenth of {', '.join(names)}", share)


@torch.no_grad()
def check_cache(placement: Placement) -> None:
    """What decoding keeps after a short and a long text is what the config says: bounded or not, and how much."""
    model = placement.model()
    state, kept, size = model.new_state(2), [], []
    for tokens in (SHORT, LONG - SHORT):
        for chunk in torch.randint(29, (2, tokens)).split(SHORT, dim=1):
            model.decode(chunk, state=state)
        size.append(state.bytes)
        kept.append(sum(x.numel() for x in state.tensors().values() if x.is_floating_point()))
    decoder, cost = model.config.decoder, model.config.costs()["decoder"]
    bounded = all(mixer.bounded(make_mask(mask)) for mixer, mask in zip(*map(decoder.tiled, ("mixer", "mask"))))
    sizes = f"{size[0]} bytes after {SHORT} tokens and {size[1]} after {LONG}"
    require(bounded == (size[0] == size[1]), f"a cache by bounded() = {bounded}", sizes)
    grown, expected = kept[1] - kept[0], 2 * (LONG - SHORT) * cost.cached_per_token
    require(grown == expected, f"{expected} numbers more by cost().cached_per_token", grown)
