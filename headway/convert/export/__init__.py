"""Models of ours for other toolkits.

    a model directory ──► StoredModel ──► ExportFormat.unsupported: the reason, with the kind's name, or ""
      (stored_model)        │  config, tokenizers,          │
                            │  weights one by one           ▼
                            └────────────────► ExportFormat.write ──► a folder, and an ExportReport

formats        ExportFormat, ExportReport, the table FORMATS, export_model
stored_model   StoredModel: what a format reads
traced/        our modules as graphs of tensor operations, for the two formats that trace:
onnx/          onnxruntime, optimum, transformers.js
torch_export   PyTorch without Headway
huggingface/   transformers: Marian, Llama …, with tokenizer, generation config and card
ctranslate2/   ctranslate2: translators and language models
gguf/          llama.cpp: Llama-like models
differences    where two architectures differ
rewrites       a model as another that computes the same
"""
