"""What every kind of a model's parts must keep to, as checks that run on small models: `headway check-kind`, and the
tests over the catalogue.

kind (slot, form) ──► cases, placements: small models with it ──► checks ──► passed │ failed: expected …, found … │
                                                                             not applicable: why
states     decoding in chunks, reordered, truncated, restored is one whole pass; gradients too
padding    padding and the other rows of a batch change nothing
promises   masks, positions, the linear kind, residual outputs and the size of the cache are as the config says
masks      the fields of a mask say what its rule does
costs      parameters and FLOPs are what the config says
learning   it learns running text and a toy translation, and uses its context
cases      a small decoder with one kind in it
results    ContractError, CheckResult
check_kind all checks that a slot has
"""
