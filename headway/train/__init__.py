"""Training: loop, optimiser and schedule, checkpoints."""
