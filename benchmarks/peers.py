"""The models that train_gpu.py compares with Headway: the same Transformer in torch.nn, Hugging Face and by hand."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.train.objectives import Batch

PAD = 0
DROPOUT = SMOOTHING = 0.1
Step = Callable[[Batch], Tensor]


class Size(NamedTuple):
    d_model: int
    hidden: int
    heads: int
    layers: int  # on each side
    vocabulary: int
    length: int  # tokens a row, on each side
    rate: float = 1e-4  # any that does not spoil the weights: it costs nothing


SIZES = {
    "base": Size(512, 2048, 8, 6, 10_000, 64),
    "big": Size(1024, 4096, 16, 6, 10_000, 64),
    "tiny": Size(32, 64, 4, 2, 96, 16, 1e-2),
}


def make_step(model: nn.Module, size: Size, device: torch.device, compiled: bool) -> Step:
    """A complete step: forward, loss, backward, optimiser. Returns the loss, on the device."""
    model.to(device).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=size.rate, betas=(0.9, 0.98), eps=1e-9, fused=True)
    fast = device.type == "cuda"

    def loss_of(batch: Batch) -> Tensor:
        logits = model(batch.source, batch.source_valid, batch.inputs)  # (B, T, V)
        return F.cross_entropy(
            logits.flatten(0, 1).float(), batch.labels.flatten(), ignore_index=IGNORE_INDEX, label_smoothing=SMOOTHING
        )

    if compiled:
        loss_of = torch.compile(loss_of, dynamic=False, backend="inductor" if fast else "aot_eager")

    def step(batch: Batch) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=fast):
            loss = loss_of(batch)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return loss.detach()

    return step


class TiedEmbedding(nn.Module):
    """Tied embeddings, scaled at the input, with sinusoidal positions."""

    waves: Tensor

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.table = nn.Embedding(size.vocabulary, size.d_model)
        nn.init.normal_(self.table.weight, std=size.d_model**-0.5)
        self.scale, self.dropout = math.sqrt(size.d_model), nn.Dropout(DROPOUT)
        place = torch.arange(size.length)[:, None]
        angle = place * torch.exp(torch.arange(0, size.d_model, 2) * (-math.log(10_000) / size.d_model))
        waves = torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)  # (T, d)
        self.register_buffer("waves", waves, persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.dropout(self.table(ids) * self.scale + self.waves[: ids.shape[1]])
        return x

    def logits(self, x: Tensor) -> Tensor:
        return F.linear(x, self.table.weight)


class TorchModel(nn.Module):
    """torch.nn.Transformer as its documentation uses it; post-LN."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = TiedEmbedding(size)
        self.model = nn.Transformer(
            size.d_model, size.heads, size.layers, size.layers, size.hidden, DROPOUT, batch_first=True
        )
        later = torch.triu(torch.ones(size.length, size.length, dtype=torch.bool), diagonal=1)
        self.register_buffer("later", later, persistent=False)

    def forward(self, source: Tensor, valid: Tensor | None, inputs: Tensor) -> Tensor:
        hidden = None if valid is None else ~valid
        x = self.model(
            self.embedding(source), self.embedding(inputs), tgt_mask=self.later, tgt_is_causal=True,
            src_key_padding_mask=hidden, memory_key_padding_mask=hidden,
        )  # fmt: skip
        return self.embedding.logits(x)


class MarianModel(nn.Module):
    """Hugging Face's translation model; post-LN. Its own loss has no label smoothing, so only its logits are used."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        sides: dict[str, Any] = {}
        for side in ("encoder", "decoder"):
            sides |= {f"{side}_layers": size.layers, f"{side}_attention_heads": size.heads}
            sides |= {f"{side}_ffn_dim": size.hidden}
        config = MarianConfig(
            vocab_size=size.vocabulary, d_model=size.d_model, max_position_embeddings=size.length, **sides,
            dropout=DROPOUT, attention_dropout=DROPOUT, activation_dropout=DROPOUT, activation_function="relu",
            scale_embedding=True, use_cache=False, pad_token_id=PAD, decoder_start_token_id=1, eos_token_id=2,
            forced_eos_token_id=None,
        )  # fmt: skip
        self.model = MarianMTModel(config)

    def forward(self, source: Tensor, valid: Tensor | None, inputs: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=source, attention_mask=valid, decoder_input_ids=inputs).logits
        return logits


class PlainModel(nn.Module):
    """What a good engineer writes in an afternoon for speed: pre-LN, projections fused, PyTorch's fused attention."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = TiedEmbedding(size)
        self.encoder = nn.ModuleList(PlainLayer(size, cross=False) for _ in range(size.layers))
        self.decoder = nn.ModuleList(PlainLayer(size, cross=True) for _ in range(size.layers))
        self.norms = nn.ModuleList(nn.LayerNorm(size.d_model) for _ in range(2))

    def forward(self, source: Tensor, valid: Tensor | None, inputs: Tensor) -> Tensor:
        # Targets are padded at the end, where the causal mask hides it from every label that counts.
        seen = None if valid is None else valid[:, None, None]  # (B, 1, 1, S)
        memory, x = self.embedding(source), self.embedding(inputs)
        for layer in self.encoder:
            memory = layer(memory, seen)
        memory = self.norms[0](memory)
        for layer in self.decoder:
            x = layer(x, seen, memory)
        return self.embedding.logits(self.norms[1](x))


class PlainLayer(nn.Module):
    def __init__(self, size: Size, cross: bool) -> None:
        super().__init__()
        d = size.d_model
        self.heads, self.dropout = size.heads, nn.Dropout(DROPOUT)
        self.qkv, self.out = _linear(d, 3 * d, 3), _linear(d, d)
        self.up, self.down = _linear(d, size.hidden), _linear(size.hidden, d)
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(3 if cross else 2))
        if cross:
            self.q, self.kv, self.cross_out = _linear(d, d), _linear(d, 2 * d, 2), _linear(d, d)

    def forward(self, x: Tensor, seen: Tensor | None, memory: Tensor | None = None) -> Tensor:
        q, k, v = self._split(self.qkv(self.norms[0](x)), 3)
        x = x + self.dropout(self.out(self._attend(q, k, v, None if memory is not None else seen, memory is not None)))
        if memory is not None:
            (q,), (k, v) = self._split(self.q(self.norms[1](x)), 1), self._split(self.kv(memory), 2)
            x = x + self.dropout(self.cross_out(self._attend(q, k, v, seen, False)))
        hidden = self.dropout(F.relu(self.up(self.norms[-1](x))))
        result: Tensor = x + self.dropout(self.down(hidden))
        return result

    def _split(self, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        """(B, T, parts · d) -> parts times (B, H, T, D)"""
        split: tuple[Tensor, ...] = x.unflatten(2, (parts, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        return split

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, causal: bool) -> Tensor:
        share = DROPOUT if self.training else 0.0
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, dropout_p=share, is_causal=causal)
        return x.transpose(1, 2).flatten(2)  # (B, T, d)


def _linear(inside: int, outside: int, parts: int = 1) -> nn.Linear:
    """`parts` projections in one, each initialised as it would be by itself."""
    layer = nn.Linear(inside, outside)
    for block in layer.weight.data.chunk(parts):
        nn.init.xavier_uniform_(block)
    nn.init.zeros_(layer.bias)
    return layer


class Peer(NamedTuple):
    model: type[nn.Module]
    compiled: bool


PEERS = {  # the fastest first: a run that is cut short has it
    "plain-compiled": Peer(PlainModel, True),
    "torch-compiled": Peer(TorchModel, True),
    "torch": Peer(TorchModel, False),
    "marian": Peer(MarianModel, False),
    "marian-compiled": Peer(MarianModel, True),
}
