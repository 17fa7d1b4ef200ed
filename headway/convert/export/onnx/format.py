"""OnnxFormat: a folder that onnxruntime, optimum and transformers.js run without Headway."""

import importlib.util
from pathlib import Path

import torch

from headway.convert.export.formats import ExportReport
from headway.convert.export.huggingface.generation import describe_lost_search, make_generation_config
from headway.convert.export.huggingface.tokenizer import write_tokenizers
from headway.convert.export.stored_model import MAX_POSITIONS, StoredModel
from headway.convert.export.traced.probe import Probe
from headway.convert.export.traced.programs import make_traceable
from headway.convert.export.traced.support import describe_lost, unsupported
from headway.convert.json_files import write_json
from headway.errors import HeadwayError
from headway.nn.transformer import Transformer

NEEDED = ("onnx", "onnxruntime", "onnxscript")


class OnnxFormat:
    """Graphs in onnx/, with optimum's names, and what runtimes need around them."""

    dtypes = ("float32", "int8")

    def __init__(self, dtype: str = "") -> None:
        self.dtype = dtype

    def unsupported(self, model: StoredModel) -> str:
        return unsupported(model.config)

    def write(self, model: StoredModel, folder: Path) -> ExportReport:
        for name in NEEDED:
            if importlib.util.find_spec(name) is None:
                raise HeadwayError(
                    f"the export to ONNX needs the package {name}. Install it: pip install headway[onnx]"
                )
        from headway.convert.export.onnx.settings import make_config, unsupported_by_js

        transformer = model.load().model.float()
        make_traceable(transformer)
        (folder / "onnx").mkdir()
        with torch.no_grad():
            checked = self._write_graphs(transformer, folder / "onnx")
        config = make_config(model, transformer)
        if any((folder / "onnx").glob("*_data")):
            config["transformers.js_config"] = {"use_external_data_format": True}
        write_json(folder / "config.json", config)
        if model.objective != "masked":
            write_json(folder / "generation_config.json", _generation_config(model))
        lost = [*model.describe_lost(), *describe_lost(model.config), *write_tokenizers(model, folder, MAX_POSITIONS)]
        if model.objective == "translation":
            lost += describe_lost_search(model)
        if reason := unsupported_by_js(transformer):
            lost.append(f"transformers.js cannot run it: {reason}. onnxruntime can")
        return ExportReport(
            format=f"ONNX ({'int8' if self.dtype == 'int8' else 'float32'})",
            found=model.describe(),
            checked=checked,
            lost=tuple(lost),
            files=tuple(sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())),
        )

    def _write_graphs(self, transformer: Transformer, folder: Path) -> tuple[str, ...]:
        """Write the graphs, and run them: what was checked."""
        from headway.convert.export.onnx.graphs import delete_graph
        from headway.convert.export.onnx.int8 import SUFFIX, quantise_graph
        from headway.convert.export.onnx.sessions import run_graphs

        probe = Probe(transformer)
        names = write_float_graphs(transformer, folder)
        checked = [probe.check(run_graphs(folder))]
        if self.dtype == "int8":
            for name in names:
                path = folder / f"{name}.onnx"
                quantise_graph(path, folder / f"{name}{SUFFIX}.onnx")
                delete_graph(path)
            difference, agreement = probe.compare(run_graphs(folder, SUFFIX))
            checked.append(
                f"the same in int8: logits differ by {difference:.1e} of the largest, and {agreement:.0%} of the most "
                "probable tokens are the same (of random text: measure it on yours)"
            )
        return tuple(checked)


def write_float_graphs(transformer: Transformer, folder: Path) -> list[str]:
    """The graphs of a model in float32; returns the names of their files, without .onnx."""
    from headway.convert.export.onnx.graphs import convert_graph, save_graph
    from headway.convert.export.onnx.merged import merge_decoder
    from headway.convert.export.traced import tracing

    sides = transformer.config.sides
    if len(sides) == 1:
        traced = (tracing.trace_encoder if sides == ["encoder"] else tracing.trace_language_model)(transformer)
        save_graph(convert_graph(traced), folder / "model.onnx")
        return ["model"]
    save_graph(convert_graph(tracing.trace_encoder(transformer)), folder / "encoder_model.onnx")
    step, cross = tracing.trace_decoder(transformer), tracing.trace_cross(transformer)
    merged = merge_decoder(convert_graph(step), convert_graph(cross), step, cross)
    save_graph(merged, folder / "decoder_model_merged.onnx")
    return ["encoder_model", "decoder_model_merged"]


def _generation_config(model: StoredModel) -> dict[str, object]:
    """transformers.js knows tokens that are never written only as bad words."""
    config = make_generation_config(model, MAX_POSITIONS)
    return {**config, "bad_words_ids": [[n] for n in config["suppress_tokens"]]}
