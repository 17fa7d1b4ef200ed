"""BitNet b1.58: linear layers with ternary weights (-1, 0, 1) and 8-bit inputs, in training too.

Training updates float weights, rounds them at every step, and passes gradients straight through the rounding. After
training only the rounded weights are needed: four of them fit into a byte.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part, number, slot
from headway.errors import ConfigError
from headway.nn.build import build_norm
from headway.nn.layers.linear import Linear

WEIGHTS_PER_BYTE = 4


def straight_through(rounded: Tensor, x: Tensor) -> Tensor:
    """`rounded` in the forward pass, bit for bit; the gradient of x in the backward pass."""
    if not (x.requires_grad and torch.is_grad_enabled()):
        return rounded
    return rounded.detach() + (x - x.detach())


def round_to_ternary(weight: Tensor, eps: float = 1e-5) -> tuple[Tensor, Tensor]:
    """T of -1, 0, 1, and one scale γ, the mean of |weight|, with weight ≈ γT. Gradients pass through T."""
    scale = weight.detach().abs().mean().clamp(min=eps)
    scaled = weight / scale
    return straight_through(scaled.round().clamp(-1, 1), scaled), scale


def round_to_int8(x: Tensor, eps: float = 1e-5) -> tuple[Tensor, Tensor]:
    """Integers Q and a scale for each vector (…, 1), with x ≈ scale · Q. Gradients pass through Q.

    The largest |x| becomes 127, so nothing is clipped, and -128 is never used."""
    scale = x.detach().abs().amax(-1, keepdim=True).clamp(min=eps) / 127
    scaled = x / scale
    return straight_through(scaled.round(), scaled), scale


def bit_linear(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """x · (scale · weight)ᵀ + bias for a ternary weight, x rounded to 8 bits.

    The product is one of small integers and is scaled afterwards. Float32 holds its sums exactly up to 2¹⁷ inputs, in
    whatever order they are added, and bfloat16 holds its factors exactly."""
    q, step = round_to_int8(widen_to_float32(x), eps)
    product = F.linear(q, weight.to(q.dtype))
    narrowed = product.dtype != q.dtype  # by autocast, as it does to any linear layer
    result = product * (step * scale)  # (…, outputs)
    return (result if bias is None else result + bias).to(product.dtype if narrowed else x.dtype)


def widen_to_float32(x: Tensor) -> Tensor:
    """16-bit floats are too coarse to round to the nearest integer."""
    return x.float() if x.dtype.itemsize < 4 else x


def pack_ternary(weight: Tensor) -> Tensor:
    """Ternary (outputs, inputs) -> bytes (⌈outputs / 4⌉, inputs). Bits 2i and 2i + 1 hold the i-th quarter of the
    rows, plus one, as Hugging Face packs them."""
    rows = -(-len(weight) // WEIGHTS_PER_BYTE)
    codes = F.pad((weight + 1).to(torch.uint8), (0, 0, 0, WEIGHTS_PER_BYTE * rows - len(weight)))
    packed = torch.zeros_like(codes[:rows])
    for i, quarter in enumerate(codes.view(WEIGHTS_PER_BYTE, *packed.shape)):
        packed |= quarter << 2 * i
    return packed


def unpack_ternary(packed: Tensor, outputs: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """The ternary weight that was packed, (outputs, inputs)."""
    quarters = [packed >> 2 * i & 3 for i in range(WEIGHTS_PER_BYTE)]
    return torch.cat(quarters)[:outputs].to(dtype) - 1


class BitLinear(Linear):
    """norm(x) rounded to 8 bits, times W rounded to γ · {-1, 0, 1}, plus b"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "bitnet"
        norm: Any = slot("norm", "none")  # of the inputs, before they are rounded
        eps: float = number(1e-5, low=1e-12)  # lower bound of the scales
        packed: bool = False  # for inference only: without the float weights

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.norm.streams_only:
                raise ConfigError(
                    f'a linear layer normalises single vectors, and "{self.norm.kind}" is a norm of the residual '
                    'stream. Choose "layernorm", "rmsnorm" or "none".',
                    "norm",
                )

        def parameters(self, inputs: int, outputs: int, bias: bool) -> int:
            """Numbers, whatever their bits."""
            return int(outputs * (inputs + bias) + self.norm.parameters(inputs))

    def __init__(self, config: Config, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.eps, self.outputs = config.eps, outputs
        self.norm = build_norm(config.norm, inputs)
        if config.packed:
            self.weight = None
            rows = -(-outputs // WEIGHTS_PER_BYTE)
            self.register_buffer("packed", torch.zeros(rows, inputs, dtype=torch.uint8))
            self.register_buffer("scale", torch.ones(()))
        else:
            self.weight = nn.Parameter(torch.zeros(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def ternary_weight(self) -> tuple[Tensor, Tensor]:
        """The rounded weight and its scale."""
        if self.weight is None:
            return unpack_ternary(self.packed, self.outputs), self.scale  # type: ignore[arg-type, return-value]
        return round_to_ternary(widen_to_float32(self.weight), self.eps)

    def forward(self, x: Tensor) -> Tensor:
        weight, scale = self.ternary_weight()
        return bit_linear(self.norm(x), weight, scale, self.bias, self.eps)


@torch.no_grad()
def packed_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """The state dict of the same model built with `packed`: for each BitLinear the rounded weights and their scale."""
    state = model.state_dict()
    for name, module in model.named_modules():
        if isinstance(module, BitLinear) and module.weight is not None:
            weight, scale = module.ternary_weight()
            prefix = f"{name}." if name else ""
            del state[f"{prefix}weight"]
            state |= {f"{prefix}packed": pack_ternary(weight), f"{prefix}scale": scale}
    return state
