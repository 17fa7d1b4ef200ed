"""A probe: a random batch with padding, of another size than the one that was traced, and the model's logits for it.
Whatever runs the graphs computes the same in several steps, and is compared."""

from collections.abc import Callable

import torch
from torch import Tensor

from headway.convert.architecture import ConversionError
from headway.nn.transformer import Transformer

ROWS, SOURCE_LENGTH, LENGTH = 3, 9, 6
PARTS = ((0, 3), (3, 4), (4, LENGTH))  # of the tokens, a step each
MAX_DIFFERENCE = 1e-4  # of logits, relative to the largest

Run = Callable[[Tensor, Tensor, Tensor], Tensor]  # source, which of it is real, target -> logits of all its tokens


class Probe:
    """source (B, S) and valid (B, S); target (B, T), which for a model with one side is the source."""

    @torch.no_grad()
    def __init__(self, model: Transformer) -> None:
        generator = torch.Generator().manual_seed(7)
        c = model.config
        length = SOURCE_LENGTH if len(c.sides) == 2 else LENGTH
        self.source = torch.randint(4, c.source_vocabulary or 5, (ROWS, length), generator=generator)
        self.valid = torch.ones_like(self.source, dtype=torch.bool)
        self.valid[1, length // 2 :] = False
        self.target = self.source
        self.real = self.valid
        if len(c.sides) == 2:
            self.target = torch.randint(4, c.vocabulary or 5, (ROWS, LENGTH), generator=generator)
            self.real = torch.ones_like(self.target, dtype=torch.bool)
            hidden = model.decode(self.target, memory=model.encode(self.source, self.valid))
        elif c.decoder.layers:
            hidden = model.decode(self.source, self.valid)
        else:
            hidden = model.encode(self.source, self.valid).values
        self.logits = model.logits(hidden)

    def compare(self, run: Run) -> tuple[float, float]:
        """The largest difference of logits, relative to the largest of them, and the share of tokens for which the most
        probable next one is the same."""
        found = run(self.source, self.valid, self.target)
        want = self.logits
        if want.dim() == 3:
            found, want = found[self.real], want[self.real]
        difference = (found - want).abs().max() / want.abs().max().clamp(min=1)
        return float(difference), float((found.argmax(-1) == want.argmax(-1)).float().mean())

    def check(self, run: Run) -> str:
        """What was checked, as a sentence. Raises ConversionError if the logits are not the model's."""
        difference, _ = self.compare(run)
        if not difference < MAX_DIFFERENCE:
            raise ConversionError(
                f"the exported graphs differ from the model by {difference:.1e} of the largest logit, so nothing was "
                "written. Please report it, with the model's config.json."
            )
        return f"the graphs, run on a random batch with padding: logits differ by {difference:.1e} of the largest"
