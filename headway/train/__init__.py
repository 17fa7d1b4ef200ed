"""Training: from text to a model directory. The package can be called:

    result = headway.train(pairs, out="my-model", preset="tiny", seconds=60)    see docs/training-in-python.md

training       train(): the one way in, for Python and the command line; prepare(), for a loop of one's own
options        TrainOptions: the keywords of train(); python_data: what it is given ─► TrainingTexts
callbacks      functions that are told of steps, validations, checkpoints and the end, and may stop the run
training_setup TrainingSetup: model, batches and loss, for a loop of one's own; result: TrainingResult

sources        the files given, paired, with languages          ─► TrainingTexts
overlap        validation text that is in the training text, too
setup          config layers, tokenizers, datasets              ─► Config, Tokenizers, Dataset
run            TrainingRun: the loop around Trainer; validation, budget, checkpoints, the final weights
trainer        Trainer: one optimiser step (optimizer.step); its state

dataset        sentence pairs      ┐
lm_dataset     running text        ┴ EpochShard ─► loader (padded or packed batches) ─► MicroBatches ─► Trainer
objectives     what a batch and its labels are: translation, causal, masked
denoising      likewise, with noise: span_corruption, denoising; line_dataset: text by lines
masked_targets likewise, for targets that are written all at once: masked_target
loss           cross-entropy, auxiliary losses, guided_alignment (with alignment_links)
optimisers     by name, muon; schedules: the learning rate; finite_guard: skips steps with NaN
cuda_graphs    steps captured and replayed; carried_state: rows that continue from step to step; prewarm
distributed    several processes (torchrun, DDP); signals: Ctrl-C between two steps
validation     loss, BLEU, chrF; validator: in a time budget; progress, history, description: shown and logged
loggers        TensorBoard, W&B, MLflow, CSV: a small protocol
checkpoints    atomic, locked; resume: what may change between two runs
placeholders   ⟦0⟧ in training pairs; shortlist; model_card
config         TrainConfig: the [train] section
"""

import inspect
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.train.result import TrainingResult


class CallableModule(ModuleType):
    """`headway.train` is this package and, when called, its function: a function of the same name in `headway` would
    be replaced by the package as soon as anything imports from it."""

    def __call__(self, *given: Any, **keywords: Any) -> "TrainingResult":
        from headway.train.training import train

        return train(*given, **keywords)

    @property
    def __signature__(self) -> inspect.Signature:
        """For help() and editors: the keywords one by one."""
        from headway.train.options import TrainOptions
        from headway.train.training import train

        own = inspect.signature(train)
        data, out, *_ = own.parameters.values()
        keywords = [known for known in inspect.signature(TrainOptions).parameters.values() if known.name != "flags"]
        return own.replace(parameters=[data, out, *keywords])


sys.modules[__name__].__class__ = CallableModule
