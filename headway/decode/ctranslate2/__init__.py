"""The CTranslate2 engine: its own C++ beam search over models of common parts, on a CPU, without importing torch.

probe.probe_ctranslate2    can it run this model? Ct2Probe, with the reason if not
  └─ model.Ct2Model        a stored model, loaded into CTranslate2 when first needed
       └─ weights          config.json and stored weights → CTranslate2's variables
backend.Ct2Engine          searches: CTranslate2's n-best, ranked by our length penalty
"""
