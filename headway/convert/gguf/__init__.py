"""GGUF files, as llama.cpp reads them: one file with metadata, vocabulary and (quantised) tensors.

container       GgufFile: metadata and the table of tensors, with every size checked against the file
dequantisation  blocks of 4 to 8 bits ─► float32
vocabulary      the tokenizer in the metadata ─► ImportedTokenizer
model_file      detect and plan: metadata ─► a Hugging Face config, tensors by their Hugging Face names
"""
