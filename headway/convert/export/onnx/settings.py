"""config.json of a folder with ONNX graphs: by it optimum and transformers.js know how to drive them.

`model_type` names a family with the same inputs, outputs and shapes of caches. What is computed is in the graphs, so
that every architecture has one: a translator is driven as Marian, or as T5 where its heads are not d_model wide
together; a language model as Llama; an encoder as BERT."""

from typing import Any

from headway.convert.architecture import Json
from headway.convert.export.huggingface.format import token_settings
from headway.convert.export.stored_model import StoredModel
from headway.convert.export.traced.programs import CacheShape, list_cache_shapes
from headway.nn.transformer import Transformer


def make_config(model: StoredModel, transformer: Transformer) -> Json:
    c = transformer.config
    common: Json = {"vocab_size": c.source_vocabulary, "torch_dtype": "float32", **token_settings(model)}
    if not c.decoder.layers:
        mixer: Any = c.encoder.mixer[0]
        return {
            "model_type": "bert",
            "architectures": ["BertForMaskedLM" if c.head.kind != "pooled" else "BertForSequenceClassification"],
            "hidden_size": c.d_model,
            "num_hidden_layers": c.encoder.layers,
            "num_attention_heads": mixer.heads,
            **common,
        }
    shapes = list_cache_shapes(transformer)
    if not c.encoder.layers:
        return {**_language_model(c, shapes), **common}
    return {**_translator(c, shapes), "decoder_vocab_size": c.vocabulary, **common}


def unsupported_by_js(transformer: Transformer) -> str:
    """Why transformers.js, which takes all layers to keep the same, cannot drive this model; "" if it can."""
    if not transformer.config.decoder.layers:
        return ""
    shapes = list_cache_shapes(transformer)
    sizes = {shape[2:] for shape in shapes}
    if len(sizes) > 1:
        return "layers keep keys and values of different sizes"
    if any(shape.key_width != shape.value_width for shape in shapes):
        return "keys and values have different sizes"
    own = [shape for shape in shapes if not shape.is_cross]
    if len(own) < transformer.config.decoder.layers:
        return "several layers share keys and values"
    return ""


def _language_model(c: Any, shapes: list[CacheShape]) -> Json:
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": c.d_model,
        "num_hidden_layers": c.decoder.layers,
        "num_attention_heads": c.decoder.mixer[0].heads,
        "num_key_value_heads": shapes[0].groups,
        "head_dim": shapes[0].key_width,
    }


def _translator(c: Any, shapes: list[CacheShape]) -> Json:
    groups, width = shapes[0].groups, shapes[0].key_width
    if groups * width == c.d_model:
        return {
            "model_type": "marian",
            "architectures": ["MarianMTModel"],
            "d_model": c.d_model,
            "encoder_layers": c.encoder.layers,
            "decoder_layers": c.decoder.layers,
            "encoder_attention_heads": groups,
            "decoder_attention_heads": groups,
        }
    return {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "d_model": c.d_model,
        "num_layers": c.encoder.layers,
        "num_decoder_layers": c.decoder.layers,
        "num_heads": groups,
        "d_kv": width,
    }
