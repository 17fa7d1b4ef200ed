"""M2M100 and NLLB: pre-norm, with sinusoids of other rates than the paper's, counted from 2. Languages are tokens: see
language_tokens.py."""

from dataclasses import replace

from headway.convert.architecture import Architecture, ConversionError, Json, read_size, require
from headway.convert.huggingface.language_tokens import read_multilingual_text
from headway.convert.huggingface.marian import list_readings
from headway.convert.readings import change_readings

TABLES = ("model.encoder.embed_positions.weights", "model.decoder.embed_positions.weights")  # in old files


def read_m2m100(config: Json) -> Architecture:
    pad = config.get("pad_token_id", 1)
    if type(pad) is not int or pad < 0:
        raise ConversionError(f"pad_token_id = {pad!r} in its config.json is not an id, and positions depend on it.")
    position = {"kind": "sinusoidal", "layout": "halves", "spacing": "closed", "first": pad + 1}
    tied = require(config, "tie_word_embeddings", (True, False), True)
    defaults = {"activation_function": "relu", "scale_embedding": True, "max_position_embeddings": 1024}

    def change(reading: Architecture) -> Architecture:
        sides = {side: {**reading.model[side], "position": position} for side in ("encoder", "decoder")}
        unused = (*reading.unused, *TABLES)
        return replace(reading, model={**reading.model, **sides}, unused=unused, read_text=read_multilingual_text)

    size = read_size(config, "vocab_size")
    readings = list_readings("M2M100", {**defaults, **config}, shared=True, tied=tied, target=size, pre_norm=True)
    return change_readings(readings, change)
