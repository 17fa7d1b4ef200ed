"""Front ends: what a stack reads beside tokens. Each turns a picture or a sound into vectors and their positions.

frontend.py   FrontEnd: the contract; PatchBatch and FrameBatch: what is read
patches.py    pictures as patches (ViT): a linear layer, learned or sinusoidal 2-D positions, a class token
mel.py        sound as log-mel frames (Whisper): two convolutions; also chunk by chunk
log_mel.py    from samples to log-mel frames

pixels ─ headway.data.pictures ─► PatchBatch ─┐
                                              ├─ FrontEnd ─► Memory (B, S, d) ─ Stack ─► encoder output
samples ─ log_mel ──────────────► FrameBatch ─┘

ids (B, T) go through headway.nn.layers.embedding instead, the front end of the kind "tokens"; vectors of another front
end can take the place of some of them there: `InsertedVectors`.
"""
