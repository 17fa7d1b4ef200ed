"""A model as a specification of CTranslate2: its weights under their names there."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.convert.architecture import Json
from headway.convert.export.ctranslate2.kinds import FEEDFORWARDS
from headway.nn.sequence import positions_from_start
from headway.nn.transformer import Transformer

MAX_POSITIONS = 1024  # of a table for positions that have no limit here


def build_specification(model: Transformer, table: Json) -> Any:
    """The specification of a model whose expanded table is supported; without vocabularies and config."""
    from ctranslate2.specs import TransformerDecoderModelSpec, TransformerSpec

    writer = SpecificationWriter(model, table)
    if not table["encoder"]["layers"]:
        return TransformerDecoderModelSpec(writer.write_decoder())
    return TransformerSpec(writer.write_encoder(), writer.write_decoder())


class SpecificationWriter:
    def __init__(self, model: Transformer, table: Json) -> None:
        self.model = model
        self.table = table
        self.weights = {name: tensor.detach() for name, tensor in model.state_dict().items()}
        self.has_rms_norm = table["norm"]["kind"] == "rmsnorm"

    def write_encoder(self) -> Any:
        from ctranslate2.specs import TransformerEncoderSpec

        spec = TransformerEncoderSpec(**self._settings("encoder"))
        self._write_stack("encoder", spec, spec.embeddings[0])
        return spec

    def write_decoder(self) -> Any:
        from ctranslate2.specs import TransformerDecoderSpec

        side, embedding, head = self.table["decoder"], self.table["embedding"], self.table["head"]
        position = side["position"][0]
        rotary = {}
        if position["kind"] == "rope":
            rotary = {
                "rotary_dim": 0,  # all channels
                "rotary_interleave": position["layout"] == "interleaved",
                "rotary_base": position["base"],
            }
        spec = TransformerDecoderSpec(
            **self._settings("decoder"), **rotary, with_encoder_attention=bool(self.table["encoder"]["layers"])
        )
        self._write_stack("decoder", spec, spec.embeddings)
        tied = embedding["tied"] in ("all", "target")
        spec.projection.weight = self._words("decoder") if tied else self.weights["head.weight"]
        if head["bias"]:
            spec.projection.bias = self.weights["head.bias"]
        if head.get("scale") not in (None, 1.0):
            spec.scale_outputs = True
        return spec

    def _settings(self, side: str) -> Json:
        from ctranslate2.specs import Activation

        table = self.table[side]
        mixer, feedforward = table["mixer"][0], table["feedforward"][0]
        return {
            "num_layers": table["layers"],
            "num_heads": mixer["heads"],
            "pre_norm": table["residual"]["kind"] == "pre",
            "activation": Activation[FEEDFORWARDS[feedforward["kind"]]],
            "layernorm_embedding": self.table["embedding"]["norm"],
            "ffn_glu": feedforward["kind"] == "swiglu",
            "rms_norm": self.has_rms_norm,
            "num_heads_kv": mixer["groups"] if mixer["groups"] != mixer["heads"] else None,
            "head_dim": mixer["d_k"] if mixer["heads"] * mixer["d_k"] != self.table["d_model"] else None,
            "qk_norm": mixer.get("qk_norm") is not None,
        }

    def _words(self, side: str) -> Tensor:
        table: Any = self.model.embeddings[side].table
        words: Tensor = table.weight.detach()
        return words

    def _write_stack(self, side: str, spec: Any, words: Any) -> None:
        table = self.table[side]
        words.weight = self._words(side)
        spec.scale_embeddings = self.table["embedding"]["scale"]
        if hasattr(spec, "position_encodings"):
            spec.position_encodings.encodings = self._position_table(side)
        if self.table["embedding"]["norm"]:
            self._write_norm(spec.layernorm_embedding, f"embeddings.{side}.norm")
        if table["residual"]["kind"] == "pre":
            self._write_norm(spec.layer_norm, f"stacks.{side}.ends.norm")
        for number, layer in enumerate(spec.layer):
            ours = f"stacks.{side}.blocks.{number}"
            self._write_attention(layer.self_attention, ours, "self", table["mixer"][number])
            if hasattr(layer, "attention"):
                self._write_attention(layer.attention, ours, "cross", table["cross"][number])
            where = f"{ours}.sublayers.feedforward"
            gated = table["feedforward"][number]["kind"] == "swiglu"
            self._write_linear(layer.ffn.linear_0, where, "gate" if gated else "inner")
            if gated:
                self._write_linear(layer.ffn.linear_0_noact, where, "inner")
            self._write_linear(layer.ffn.linear_1, where, "outer")
            self._write_norm(layer.ffn.layer_norm, f"{ours}.residuals.feedforward.norm")

    def _position_table(self, side: str) -> Tensor:
        """What the positions add to the input, for each of them."""
        stack: Any = self.model.stacks[side]
        length = self.table[side]["position"][0].get("max_positions", MAX_POSITIONS)
        zeros = torch.zeros(1, length, self.table["d_model"])
        found: Tensor = stack.add_positions(zeros, positions_from_start(length, None, zeros.device))[0].detach()
        return found

    def _write_attention(self, spec: Any, ours: str, which: str, mixer: Json) -> None:
        where = f"{ours}.sublayers.{which}"
        together = [("query", "key", "value")] if which == "self" else [("query",), ("key", "value")]
        for linear, names in zip(spec.linear, [*together, ("output",)]):
            self._write_linear(linear, where, *names)
        spec.queries_scale = np.dtype("float32").type(mixer["scale"])
        if mixer.get("qk_norm") is not None:
            for norm, name in ((spec.q_norm, "query_norm"), (spec.k_norm, "key_norm")):
                norm.gamma = self.weights[f"{where}.{name}.gain"]
        self._write_norm(spec.layer_norm, f"{ours}.residuals.{which}.norm")

    def _write_linear(self, spec: Any, where: str, *names: str) -> None:
        """Several of our layers, one below the other, are one of theirs."""
        spec.weight = torch.cat([self.weights[f"{where}.{name}.weight"] for name in names])
        if f"{where}.{names[0]}.bias" in self.weights:
            spec.bias = torch.cat([self.weights[f"{where}.{name}.bias"] for name in names])

    def _write_norm(self, spec: Any, ours: str) -> None:
        spec.gamma = self.weights[f"{ours}.gain"]
        if not self.has_rms_norm:
            spec.beta = self.weights[f"{ours}.bias"]
