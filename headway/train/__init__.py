"""Training: from text files to a model directory.

sources        the files given, paired, with languages          ─► TrainingTexts
overlap        validation text that is in the training text, too
setup          config layers, tokenizers, datasets              ─► Config, Tokenizers, Dataset
run            TrainingRun: the loop around Trainer; validation, budgets, checkpoints, the final weights
trainer        Trainer: one optimiser step (optimizer.step); its state

dataset        sentence pairs      ┐
lm_dataset     running text        ┴ EpochShard ─► loader (padded or packed batches) ─► MicroBatches ─► Trainer
objectives     what a batch and its labels are: translation, causal, masked
loss           cross-entropy, auxiliary losses, guided_alignment (with alignment_links)
optimisers     by name, muon; schedules: the learning rate; finite_guard: skips steps with NaN
cuda_graphs    steps captured and replayed; carried_state: rows that continue from step to step; prewarm
distributed    several processes (torchrun, DDP); signals: Ctrl-C between two steps
validation     loss, BLEU, chrF; progress, history: what is shown and logged
checkpoints    atomic, locked; resume: what may change between two runs
placeholders   ⟦0⟧ in training pairs; shortlist; model_card
config         TrainConfig: the [train] section
"""
