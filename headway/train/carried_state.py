"""Decoder state carried from one step to the next, for objectives whose rows continue where they stopped
(Transformer-XL)."""

from torch import Tensor

from headway.nn.cache.kv import DecoderState
from headway.nn.transformer import Transformer


class CarriedState:
    """One DecoderState for each micro-batch of a step. `trainable`: the weights change between steps."""

    def __init__(self, model: Transformer, enabled: bool, trainable: bool) -> None:
        self.model = model
        self.enabled = enabled
        self.trainable = trainable
        self.states: list[DecoderState] = []

    def state_for(self, micro_batch: int, rows: int) -> DecoderState | None:
        """The state of the rows of a micro-batch, extended by the forward pass. It starts empty in the first step, and
        when micro-batches have other sizes than in the step before."""
        if not self.enabled:
            return None
        if micro_batch < len(self.states) and len(self.states[micro_batch].lengths) != rows:
            del self.states[micro_batch:]
        if micro_batch == len(self.states):
            self.states.append(self.model.new_state(rows, trainable=self.trainable))
        return self.states[micro_batch]

    def detach(self) -> None:
        """At the end of a step: gradients stop here, and NaN or infinity is not carried over."""
        for state in self.states:
            state.detach()
            for tensor in state.tensors().values():
                if tensor.is_floating_point():
                    tensor.nan_to_num_(0.0, 0.0, 0.0)

    def reset(self) -> None:
        self.states = []

    def tensors(self) -> dict[str, Tensor]:
        return {
            f"{number}.{name}": x for number, state in enumerate(self.states) for name, x in state.tensors().items()
        }

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.reset()
        numbers = {int(name.partition(".")[0]) for name in tensors}
        for number in sorted(numbers):
            own = {name.partition(".")[2]: x for name, x in tensors.items() if name.startswith(f"{number}.")}
            state = self.model.new_state(len(own["lengths"]), trainable=self.trainable)
            state.load({name: x.to(self.model.device, copy=True) for name, x in own.items()})
            self.states.append(state)
