"""What rows remember from one step to the next, where the objective says that they go on where they stopped."""

from torch import Tensor

from headway.nn.cache.kv import ModelState
from headway.nn.transformer import Transformer


class Carry:
    """A state for each piece of a step. `learns`: the weights change between one step and the next."""

    def __init__(self, model: Transformer, wanted: bool, learns: bool) -> None:
        self.model, self.wanted, self.learns = model, wanted, learns
        self.states: list[ModelState] = []

    def state(self, piece: int, rows: int) -> ModelState | None:
        """What the rows of this piece of a step remember; it is written on while they are read. A step that is cut into
        other pieces than the last begins anew."""
        if not self.wanted:
            return None
        if piece < len(self.states) and len(self.states[piece].lengths) != rows:
            del self.states[piece:]
        if piece == len(self.states):
            self.states.append(self.model.new_state(rows, learns=self.learns))
        return self.states[piece]

    def cut(self) -> None:
        """The step is over: no gradient goes back behind it, and nothing that is no number goes on."""
        for state in self.states:
            state.detach()
            for tensor in state.tensors().values():
                if tensor.is_floating_point():
                    tensor.nan_to_num_(0.0, 0.0, 0.0)

    def forget(self) -> None:
        self.states = []

    def tensors(self) -> dict[str, Tensor]:
        return {f"{piece}.{name}": x for piece, state in enumerate(self.states) for name, x in state.tensors().items()}

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.forget()
        pieces = {int(name.partition(".")[0]) for name in tensors}
        for piece in sorted(pieces):
            own = {name.partition(".")[2]: x for name, x in tensors.items() if name.startswith(f"{piece}.")}
            state = self.model.new_state(len(own["lengths"]), learns=self.learns)
            state.load({name: x.to(self.model.device, copy=True) for name, x in own.items()})
            self.states.append(state)
