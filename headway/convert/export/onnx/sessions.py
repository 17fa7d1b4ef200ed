"""The graphs in onnxruntime."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.convert.export.traced.probe import PARTS, Run

Arrays = dict[str, NDArray[Any]]
PAST, PRESENT = "past_key_values.", "present."


def open_session(path: Path, threads: int = 1) -> Any:
    """A session on the CPU. `threads`: 0 for as many as there are cores."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


class OnnxDecoder:
    """A decoder graph, and the keys and values that it has so far."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.outputs = [value.name for value in session.get_outputs()]
        self.sizes = {value.name: value.shape for value in session.get_inputs() if value.name.startswith(PAST)}
        self.takes_branch = any(value.name == "use_cache_branch" for value in session.get_inputs())
        self.past: Arrays = {}

    def step(self, ids: NDArray[np.int64], **inputs: NDArray[Any]) -> NDArray[np.float32]:
        """Logits (B, T, V) of new ids (B, T) after all those before."""
        feeds: Arrays = {"input_ids": ids, **inputs}
        if self.takes_branch:
            feeds["use_cache_branch"] = np.array([bool(self.past)])
        empty = {name: np.zeros((len(ids), size[1], 0, size[3]), np.float32) for name, size in self.sizes.items()}
        logits, *present = self.session.run(self.outputs, {**feeds, **(self.past or empty)})
        self.past = dict(zip((name.replace(PRESENT, PAST, 1) for name in self.outputs[1:]), present))
        result: NDArray[np.float32] = logits
        return result

    def select(self, rows: NDArray[np.int64]) -> None:
        """Go on with these rows, as beam search does."""
        self.past = {name: array[rows] for name, array in self.past.items()}


class OnnxState:
    """What a search keeps of a batch between steps."""

    def __init__(self, decoder: OnnxDecoder, hidden: NDArray[np.float32], mask: NDArray[np.int64]) -> None:
        self.decoder, self.hidden, self.mask = decoder, hidden, mask

    def select(self, rows: Tensor) -> None:
        index = rows.numpy()
        self.decoder.select(index)
        self.hidden, self.mask = self.hidden[index], self.mask[index]

    def step(self, ids: Tensor) -> NDArray[np.float32]:
        return self.decoder.step(ids.numpy(), encoder_hidden_states=self.hidden, encoder_attention_mask=self.mask)


class OnnxStepper:
    """A translator's graphs as any search of ours uses a model: see headway.decode.reference.model.Stepper."""

    def __init__(self, folder: Path, suffix: str = "", threads: int = 1) -> None:
        self.encoder = open_session(folder / f"encoder_model{suffix}.onnx", threads)
        self.decoder = open_session(folder / f"decoder_model_merged{suffix}.onnx", threads)
        self.vocabulary: int = self.decoder.get_outputs()[0].shape[-1]
        self.device = torch.device("cpu")

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> OnnxState:
        assert source is not None
        mask = (torch.ones_like(source) if valid is None else valid.long()).numpy()
        hidden = self.encoder.run(None, {"input_ids": source.numpy(), "attention_mask": mask})[0]
        return OnnxState(OnnxDecoder(self.decoder), hidden, mask)

    def step(self, state: OnnxState, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        """Without forced prefixes of different lengths, which would be padded: the graphs take none."""
        assert valid is None
        return torch.from_numpy(state.step(ids)[:, -1]).log_softmax(-1)


def run_graphs(folder: Path, suffix: str = "") -> Run:
    """The graphs of a folder as a probe runs them."""
    if not (folder / f"encoder_model{suffix}.onnx").exists():
        return _run_single(open_session(folder / f"model{suffix}.onnx"))
    stepper = OnnxStepper(folder, suffix)

    def run(source: Tensor, valid: Tensor, target: Tensor) -> Tensor:
        state = stepper.start(source, valid, len(source))
        return torch.from_numpy(np.concatenate([state.step(target[:, first:last]) for first, last in PARTS], 1))

    return run


def _run_single(session: Any) -> Run:
    def run(source: Tensor, valid: Tensor, target: Tensor) -> Tensor:
        mask = valid.long().numpy()
        own = OnnxDecoder(session)
        if not own.sizes:
            return torch.from_numpy(session.run(None, {"input_ids": source.numpy(), "attention_mask": mask})[0])
        steps = [own.step(target[:, first:last].numpy(), attention_mask=mask[:, :last]) for first, last in PARTS]
        return torch.from_numpy(np.concatenate(steps, 1))

    return run
