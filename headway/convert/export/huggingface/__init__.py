"""Export to Hugging Face: a folder that `AutoModel…` and `AutoTokenizer` load without Headway.

proposals       a family's config.json for a config of ours, as near as it can be
match           the family that computes what a model does: its reader must make our config of the proposal
tensors         our weights under their names, one by one
tokenizer       tokenizer.json with our ids, tokenizer_config.json
marian_files    source.spm, target.spm, vocab.json of an imported Marian model
generation      generation_config.json
card            README.md
format          HuggingFaceFormat: all of it
"""
