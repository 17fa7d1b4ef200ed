"""Models on disk.

--model, --from, --to ──► registry ──► a model directory
                                         │ config.json        summary: ModelSummary, without torch
                                         │ model.safetensors  tensor_file: TensorFile, mmap, without torch
                                         │ calibration.json   calibration: confidence scores, without torch
                                         │ README.md          card: front matter
                                         ▼
                             model_dir.load_model ──► LoadedModel: Config, Transformer, Tokenizers

pivots       two installed models in a row, where none has a direction: choose_route
training_history  the log and the checkpoints that a run left, without torch
model_files  notices a directory that is replaced while it is used
packing      smaller copies: ternary weights packed, dense ones in int8
adapter      an adapter directory: what LoRA has trained, over a model that it names by its fingerprint
"""
