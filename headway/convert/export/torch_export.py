"""TorchExportFormat: programs of torch.export, which PyTorch loads without Headway.

    encoder.pt2    input_ids, attention_mask                -> past: keys and values of all layers, of no token yet
    decoder.pt2    input_ids, encoder_attention_mask, past  -> logits, *past
    model.pt2      input_ids, attention_mask, past          -> logits, *past        a language model
                   input_ids, attention_mask                -> logits               an encoder alone

config.json lists what `past` holds, so that a language model's can be made: zeros of no token."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.convert.export.formats import ExportReport
from headway.convert.export.huggingface.format import token_settings
from headway.convert.export.huggingface.tokenizer import write_tokenizers
from headway.convert.export.stored_model import MAX_POSITIONS, StoredModel
from headway.convert.export.traced import tracing
from headway.convert.export.traced.probe import PARTS, Probe, Run
from headway.convert.export.traced.programs import CrossProgram, DecoderProgram, EncoderProgram, make_traceable
from headway.convert.export.traced.support import describe_lost, unsupported
from headway.convert.json_files import write_json
from headway.nn.transformer import Transformer


class TorchExportFormat:
    """Programs with free batch and lengths, in float32."""

    dtypes = ("float32",)

    def __init__(self, dtype: str = "") -> None:
        self.dtype = dtype

    def unsupported(self, model: StoredModel) -> str:
        return unsupported(model.config)

    def write(self, model: StoredModel, folder: Path) -> ExportReport:
        transformer = model.load().model.float()
        make_traceable(transformer)
        probe = Probe(transformer)
        programs = trace_programs(transformer)
        step = programs.get("decoder") or programs["model"]
        past = {name: list(axes) for name, axes in step.inputs.items() if name.startswith("past_key_values")}
        write_json(folder / "config.json", {**token_settings(model), "past": past})
        for name, traced in programs.items():
            with tracing.quiet():
                torch.export.save(traced.program, folder / f"{name}.pt2")
        checked = probe.check(run_programs(folder))
        lost = [*model.describe_lost(), *describe_lost(model.config), *write_tokenizers(model, folder, MAX_POSITIONS)]
        return ExportReport(
            format="torch.export",
            found=model.describe(),
            checked=(checked,),
            lost=tuple(lost),
            files=tuple(sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())),
        )


def run_programs(folder: Path) -> Run:
    """The programs of a folder, read again, as a probe runs them."""
    with tracing.quiet():
        modules = {path.stem: torch.export.load(path).module() for path in folder.glob("*.pt2")}

    def run(source: Tensor, valid: Tensor, target: Tensor) -> Tensor:
        mask = valid.long()
        if "encoder" in modules:
            step, past = modules["decoder"], modules["encoder"](source, mask)
        else:
            step = modules["model"]
            sizes = json.loads((folder / "config.json").read_text())["past"].values()
            past = [torch.zeros(len(source), size[1], 0, size[3]) for size in sizes]
        if not past:
            logits: Tensor = step(source, mask)
            return logits
        found = []
        for first, last in PARTS:
            logits, *past = step(target[:, first:last], mask if "encoder" in modules else mask[:, :last], past)
            found.append(logits)
        return torch.cat(found, 1)

    return run


def trace_programs(model: Transformer) -> dict[str, tracing.TracedGraph]:
    """By the names of their files."""
    if not model.config.decoder.layers:
        return {"model": tracing.trace_encoder(model)}
    if not model.config.encoder.layers:
        return {"model": tracing.trace_language_model(model)}
    traced = tracing.trace_encoder(model, StartProgram(model))
    return {"encoder": traced, "decoder": tracing.trace_decoder(model, StepProgram(model))}


class StartProgram(nn.Module):
    """What a decoder keeps before its first token: the keys and values of the source, and none of its own."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.encoder, self.cross = EncoderProgram(model), CrossProgram(model)
        self.cache_shapes = DecoderProgram(model).cache_shapes

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> list[Tensor]:
        hidden = self.encoder(input_ids, attention_mask)
        source = iter(self.cross(hidden))
        past = []
        for shape in self.cache_shapes:
            for width in (shape.key_width, shape.value_width):
                empty = (hidden.shape[0], shape.groups, 0, width)
                past.append(next(source) if shape.is_cross else hidden.new_zeros(empty))
        return past


class StepProgram(DecoderProgram):
    """The decoder, which also hands on the keys and values of the source: its whole past for the next step."""

    def forward(self, input_ids: Tensor, encoder_attention_mask: Tensor, past: list[Tensor]) -> list[Tensor]:
        logits, *present = super().forward(input_ids, encoder_attention_mask, past)
        own: Any = iter(present)
        kept = zip([shape for shape in self.cache_shapes for _ in range(2)], past)
        return [logits, *(given.clone() if shape.is_cross else next(own) for shape, given in kept)]
