"""Export to GGUF: one file with weights, settings and tokenizer.

format      GGUFFormat: weights one by one, settings
tokenizer   the tokenizer as metadata
"""
