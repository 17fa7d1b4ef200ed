"""The reference search: any model, any setting, and the specification of the faster ones.

beam_search.beam_search
  │  each step:   model.Stepper.step         log-probabilities of what follows
  │               banned_tokens          -inf where a token is not allowed
  │               candidates / constrained_beam   greedy, beam, sampling / constrained decoding
  │               beam_search.classify       which candidates end, run on, are pruned: the stopping rule
  │               beam_search.collect_finished    → hypotheses
  └─ the rows and hypotheses that are left: beam.Beam

model        what a search needs of a model: Stepper; one Transformer: ModelStepper; several: Ensemble
several_ends  a model that ends a text by any of several tokens
"""
