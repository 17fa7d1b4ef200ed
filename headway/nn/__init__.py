"""The network: tensors in, tensors out. Knows nothing of text, files or HTTP."""
