"""BitNet b1.58: linear layers whose weights are -1, 0 or 1 and whose inputs have eight bits, while training too.

Training changes float weights, rounds them at every step, and lets gradients pass as if nothing had been rounded.
When it is over, the rounded ones are enough: four of them fit a byte.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config.schema import Part, number, slot
from headway.nn.build import build_norm
from headway.nn.layers.linear import Linear

PER_BYTE = 4


def straight_through(rounded: Tensor, x: Tensor) -> Tensor:
    """`rounded` on the way forward, to the bit; on the way back the gradient of x."""
    if not (x.requires_grad and torch.is_grad_enabled()):
        return rounded
    return rounded.detach() + (x - x.detach())


def ternary(weight: Tensor, eps: float = 1e-5) -> tuple[Tensor, Tensor]:
    """T of -1, 0, 1 and one scale γ, the mean of |weight|, with weight ≈ γT. Gradients pass through T."""
    scale = weight.detach().abs().mean().clamp(min=eps)
    scaled = weight / scale
    return straight_through(scaled.round().clamp(-1, 1), scaled), scale


def eight_bits(x: Tensor, eps: float = 1e-5) -> tuple[Tensor, Tensor]:
    """Whole numbers Q and a scale for each vector (…, 1), with x ≈ scale · Q. Gradients pass through Q.

    The largest |x| becomes 127, so nothing has to be cut off, and -128 is never used."""
    scale = x.detach().abs().amax(-1, keepdim=True).clamp(min=eps) / 127
    scaled = x / scale
    return straight_through(scaled.round(), scaled), scale


def bit_linear(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """x · (scale · weight)ᵀ + bias for a ternary weight, x rounded to eight bits.

    The product is one of small whole numbers and is scaled afterwards. Float32 holds its sums exactly up to 2¹⁷ inputs,
    in whatever order they are added, and bfloat16 holds its factors exactly."""
    q, step = eight_bits(at_least_float32(x), eps)
    product = F.linear(q, weight.to(q.dtype))
    narrowed = product.dtype != q.dtype  # by autocast, as it does to any linear layer
    result = product * (step * scale)  # (…, outputs)
    return (result if bias is None else result + bias).to(product.dtype if narrowed else x.dtype)


def at_least_float32(x: Tensor) -> Tensor:
    """Sixteen bits are too few to say which whole number is nearest."""
    return x.float() if x.dtype.itemsize < 4 else x


def pack(weight: Tensor) -> Tensor:
    """Ternary (outputs, inputs) -> bytes (⌈outputs / 4⌉, inputs). Bits 2i and 2i + 1 hold the i-th quarter of the
    rows, plus one, as Hugging Face packs them."""
    rows = -(-len(weight) // PER_BYTE)
    codes = F.pad((weight + 1).to(torch.uint8), (0, 0, 0, PER_BYTE * rows - len(weight)))
    packed = torch.zeros_like(codes[:rows])
    for place, quarter in enumerate(codes.view(PER_BYTE, *packed.shape)):
        packed |= quarter << 2 * place
    return packed


def unpack(packed: Tensor, outputs: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """What was packed, (outputs, inputs)."""
    quarters = [packed >> 2 * place & 3 for place in range(PER_BYTE)]
    return torch.cat(quarters)[:outputs].to(dtype) - 1


class BitLinear(Linear):
    """norm(x) rounded to eight bits, times W rounded to γ · {-1, 0, 1}, plus b"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part):
        kind: str = "bitnet"
        norm: Any = slot("norm", "none")  # of the inputs, before they are rounded
        eps: float = number(1e-5, low=1e-12)  # the least that a mean or a largest value counts
        packed: bool = False  # for use alone: the float weights are gone

        def parameters(self, inputs: int, outputs: int, bias: bool) -> int:
            """Weights, however few bits they have."""
            return int(outputs * (inputs + bias) + self.norm.parameters(inputs))

    def __init__(self, config: Config, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.eps, self.outputs = config.eps, outputs
        self.norm = build_norm(config.norm, inputs)
        if config.packed:
            self.weight = None
            rows = -(-outputs // PER_BYTE)
            self.register_buffer("packed", torch.zeros(rows, inputs, dtype=torch.uint8))
            self.register_buffer("scale", torch.ones(()))
        else:
            self.weight = nn.Parameter(torch.zeros(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def rounded(self) -> tuple[Tensor, Tensor]:
        """The ternary weight and its scale."""
        if self.weight is None:
            return unpack(self.packed, self.outputs), self.scale  # type: ignore[arg-type, return-value]
        return ternary(at_least_float32(self.weight), self.eps)

    def forward(self, x: Tensor) -> Tensor:
        weight, scale = self.rounded()
        return bit_linear(self.norm(x), weight, scale, self.bias, self.eps)


@torch.no_grad()
def packed_state(model: nn.Module) -> dict[str, Tensor]:
    """The state of the same model built with `packed`: of each BitLinear the rounded weights and their scale."""
    state = model.state_dict()
    for name, module in model.named_modules():
        if isinstance(module, BitLinear) and module.weight is not None:
            weight, scale = module.rounded()
            place = f"{name}." if name else ""
            del state[f"{place}weight"]
            state |= {f"{place}packed": pack(weight), f"{place}scale": scale}
    return state
