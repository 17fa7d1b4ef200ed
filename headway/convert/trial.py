"""Try a model that was just written: compute once, in memory no larger than its words and one block."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headway.config.config import Config
from headway.convert.weight_files import SafetensorsSource, WeightSource
from headway.errors import HeadwayError
from headway.nn.frontends.frontend import MediaBatch
from headway.nn.stack import Stack
from headway.nn.transformer import Transformer
from headway.storage.model_dir import WEIGHTS_FILE
from headway.text.tokenizer.pair import Tokenizers

TRIED_TOKENS = 8


@torch.no_grad()
def try_model(folder: Path) -> str:
    """Read a few tokens. Raises HeadwayError if the result is not finite."""
    config, tokenizers = Config.load(folder / "config.json"), Tokenizers.load(folder / "tokenizer.json")
    model = open_lazily(config.model, SafetensorsSource([folder / WEIGHTS_FILE]))
    tokens = torch.arange(TRIED_TOKENS)[None]
    source: Tensor | MediaBatch | None = tokens % tokenizers.source.size if "encoder" in config.model.sides else None
    what = f"{TRIED_TOKENS} tokens"
    if config.model.encoder.layers and config.model.encoder.frontend is not None:
        source = config.model.encoder.frontend.example()
        what = config.model.encoder.frontend.reads
    target = tokens % tokenizers.target.size if "decoder" in config.model.sides else None
    logits = model.logits(model(source, target).hidden)
    if not logits.isfinite().all():
        raise HeadwayError("the model computes values that are not finite: its weights are damaged. Download it again.")
    return f"loaded, and {what} read: all {logits.numel():,} logits are finite"


class KeepUninitialised(TorchFunctionMode):
    """Parameters are allocated and not written: pages that nobody has touched take no memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        target = args[0] if args else kwargs.get("tensor")
        if name.endswith("_") and not name.endswith("__") and isinstance(target, nn.Parameter):
            return target
        if func is torch.zeros and not kwargs:
            return torch.from_numpy(np.zeros(args[0] if isinstance(args[0], tuple) else args, np.float32))
        return func(*args, **kwargs)


def open_lazily(config: Transformer.Config, weights: WeightSource) -> Transformer:
    """A model whose blocks read their weights when they are computed, and drop them again."""
    with KeepUninitialised():
        model = Transformer(config).eval()
    lazy: set[str] = set()
    for path, stack in model.named_modules():
        for n, block in enumerate(stack.blocks if isinstance(stack, Stack) else ()):
            names = {f"{path}.blocks.{n}.{name}": tensor for name, tensor in block.state_dict(keep_vars=True).items()}
            lazy |= names.keys()
            block.register_forward_pre_hook(_make_filler(names, weights))
            block.register_forward_hook(_make_emptier(names))
    for name, tensor in model.state_dict(keep_vars=True).items():
        if name not in lazy:
            tensor.data = weights.read(name).to(tensor.dtype)
    return model


def _make_filler(names: dict[str, Tensor], weights: WeightSource) -> Callable[..., None]:
    def fill(*_: Any) -> None:
        for name, tensor in names.items():
            tensor.data = weights.read(name).to(tensor.dtype)

    return fill


def _make_emptier(names: dict[str, Tensor]) -> Callable[..., None]:
    def empty(*_: Any) -> None:
        for tensor in names.values():
            tensor.data = torch.empty(0)

    return empty
