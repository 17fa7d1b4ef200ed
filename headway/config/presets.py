"""Presets: named complete configs, and the choice of one by the size of a corpus.

A preset is a table of settings with the lowest priority: a config file, the environment and flags override it.
"""

from typing import Any, NamedTuple

from headway.config.config import Config, read_config
from headway.config.objective_kinds import has_source, reads_pairs
from headway.errors import ConfigError, did_you_mean

Table = dict[str, Any]


def _stack(
    layers: int,
    heads: int,
    hidden: int,
    residual: str = "post",
    position: str = "sinusoidal",
    dropout: float | None = None,
) -> Table:
    """`dropout`: inside attention and feed-forward, if it differs from the model's."""
    inside = "" if dropout is None else f", dropout={dropout}"
    return {
        "layers": layers,
        "mixer": f"attention({heads}{inside})",
        "feedforward": f"relu({hidden}{inside})",
        "residual": residual,
        "position": position,
    }


def _encoder_decoder(d_model: int, stack: Table, dropout: float) -> Table:
    return {"d_model": d_model, "dropout": dropout, "encoder": stack, "decoder": stack}


def _decoder_only(d_model: int, stack: Table, dropout: float) -> Table:
    embedding = {"scale": False}
    return {"d_model": d_model, "dropout": dropout, "encoder": {"layers": 0}, "decoder": stack, "embedding": embedding}


def _encoder_only(d_model: int, stack: Table, dropout: float) -> Table:
    head = {"kind": "pooled", "pooling": "mean", "dense": False}
    return {"d_model": d_model, "dropout": dropout, "encoder": stack, "decoder": {"layers": 0}, "head": head}


def vit_model(
    d_model: int, layers: int, heads: int, hidden: int, patch: int = 16, size: int = 224, dropout: float = 0.1
) -> Table:
    """ViT: a BERT of patches, with a norm before each sub-layer, GELU, and the class token as the whole picture."""
    stack = {**_stack(layers, heads, hidden, "pre", "none"), "feedforward": f"gelu({hidden})"}
    return {
        "d_model": d_model,
        "dropout": dropout,
        "norm": "layernorm(1e-6)",
        "encoder": {**stack, "frontend": f"patches({patch}, {size})"},
        "decoder": {"layers": 0},
        "head": {"kind": "pooled", "classes": 1000, "pooling": "first", "dense": False},
    }


def _gpt2(d_model: int, layers: int, heads: int, rate: float) -> Table:
    """GPT-2's shapes. It publishes no learning rates: these are those of GPT-3 for models of its sizes."""
    stack = _stack(layers, heads, 4 * d_model, "pre", "learned(1024)")
    return {
        "tokenizer": {"kind": "bpe", "size": 50_240},
        "model": _decoder_only(d_model, {**stack, "feedforward": f"gelu_tanh({4 * d_model})"}, 0.1),
        "train": {
            "objective": "causal",
            "batch_tokens": 500_000,
            "max_tokens": 1024,
            "schedule": f"cosine({rate}, warmup=2000)",
            "optimiser": "adamw(0.1, beta2=0.95, eps=1e-8)",
            "label_smoothing": 0.0,
            "average": 1,
            "clip": 1.0,
        },
    }


def _bert(d_model: int, layers: int, heads: int, vocabulary: int = 30_528, **train: Any) -> Table:
    """BERT: masked words and next sentences. The smallest is of Turc 2019, with a vocabulary and steps for little
    text."""
    stack = _stack(layers, heads, 4 * d_model, "post", "learned(512)")
    return {
        "tokenizer": {"kind": "wordpiece", "size": vocabulary, "lowercase": True},
        "model": {
            "d_model": d_model,
            "dropout": 0.1,
            "norm": "layernorm(1e-12)",
            "encoder": {**stack, "feedforward": f"gelu({4 * d_model})"},
            "decoder": {"layers": 0},
            "embedding": {"scale": False, "norm": True, "segments": 2},
            "head": "masked(next_sentence=true)",
        },
        "train": {
            "objective": "masked(next_sentence=true)",
            "batch_tokens": 131_072,
            "max_tokens": 512,
            "schedule": "linear(0.0001, warmup=10000)",
            "optimiser": "adamw(0.01, beta2=0.999, eps=1e-6)",
            "steps": 1_000_000,
            "label_smoothing": 0.0,
            "average": 1,
            "clip": 1.0,
            **train,
        },
    }


def t5_model(d_model: int, layers: int, heads: int, hidden: int, feedforward: str = "relu") -> Table:
    """T5: relative biases, an RMS norm before each sub-layer, no biases, scores that are not scaled. T5 divides its
    logits by √d_model; with the embedding multiplied by it instead, as here, the same weights have the usual size."""
    stack = {
        "layers": layers,
        "position": "t5(32, 128)",
        "mixer": {"kind": "attention", "heads": heads, "d_k": 64, "bias": False, "scale": 1.0},
        "feedforward": {"kind": feedforward, "hidden": hidden, "bias": False},
        "residual": "pre",
    }
    return {**_encoder_decoder(d_model, stack, 0.1), "norm": "rmsnorm(1e-6)"}


PRESETS: dict[str, Table] = {
    "tiny": {
        "model": _encoder_decoder(128, _stack(2, 4, 256, "pre"), 0.1),
        "train": {
            "batch_tokens": 768,
            "schedule": "cosine(0.006, warmup=200)",
            "steps": 4000,
            "validate_every": 500,
            "average": 3,
            "clip": 1.0,
        },
    },
    "small": {
        "tokenizer": {"kind": "bpe", "size": 8000, "dropout": 0.1},
        "model": _encoder_decoder(256, _stack(4, 4, 1024, "pre", dropout=0.1), 0.3),
        "train": {
            "batch_tokens": 16_384,
            "schedule": "cosine(0.003, warmup=1000)",
            "steps": 4000,
            "validate_every": 500,
            "metric": "bleu",
            "ema": 0.999,
            "average": 1,
            "clip": 1.0,
        },
        "search": {"beam_size": 5, "alpha": 1.4},
    },
    "medium": {
        "tokenizer": {"kind": "bpe", "size": 16000},
        "model": _encoder_decoder(512, _stack(6, 8, 1024, "pre"), 0.2),
        "train": {
            "batch_tokens": 16384,
            "schedule": "inverse_sqrt(0.001, warmup=4000)",
            "steps": 40_000,
            "validate_every": 1000,
            "patience": 10,
            "clip": 1.0,
        },
    },
    "base": {
        "tokenizer": {"kind": "bpe", "size": 37_000 // 64 * 64},
        "model": _encoder_decoder(512, _stack(6, 8, 2048), 0.1),
    },
    "big": {
        "tokenizer": {"kind": "bpe", "size": 37_000 // 64 * 64},
        "model": _encoder_decoder(1024, _stack(6, 16, 4096), 0.3),
        "train": {"steps": 300_000, "keep_last": 20, "average": 20},
    },
    "tiny_lm": {
        "model": _decoder_only(128, _stack(4, 4, 512, "pre", "rope"), 0.1),
        "train": {
            "objective": "causal",
            "batch_tokens": 4096,
            "max_tokens": 128,
            "schedule": "cosine(0.002, warmup=100)",
            "steps": 1000,
            "validate_every": 100,
            "label_smoothing": 0.0,
            "average": 1,
            "clip": 1.0,
        },
    },
    "small_lm": {
        "model": _decoder_only(384, _stack(6, 6, 1536, "pre", "rope"), 0.2),
        "train": {
            "objective": "causal",
            "batch_tokens": 16_384,
            "max_tokens": 256,
            "schedule": "cosine(0.001, warmup=200)",
            "optimiser": "adamw(0.1)",
            "steps": 5000,
            "validate_every": 250,
            "patience": 5,
            "label_smoothing": 0.0,
            "average": 1,
            "clip": 1.0,
        },
    },
    "tiny_encoder": {
        "model": _encoder_only(128, _stack(2, 4, 512, "pre", "rope"), 0.1),
        "train": {
            "objective": "classify",
            "batch_tokens": 2048,
            "max_tokens": 128,
            "schedule": "cosine(0.001, warmup=100)",
            "optimiser": "adamw(0.01)",
            "steps": 1500,
            "validate_every": 100,
            "patience": 5,
            "metric": "task",
            "label_smoothing": 0.0,
            "average": 1,
            "clip": 1.0,
        },
    },
    "small_encoder": {
        "tokenizer": {"kind": "bpe", "size": 16000},
        "model": _encoder_only(256, _stack(4, 4, 1024, "pre", "rope"), 0.1),
        "train": {
            "objective": "classify",
            "batch_tokens": 8192,
            "max_tokens": 256,
            "schedule": "cosine(0.0007, warmup=300)",
            "optimiser": "adamw(0.01)",
            "steps": 6000,
            "validate_every": 300,
            "patience": 5,
            "metric": "task",
            "label_smoothing": 0.0,
            "average": 1,
            "clip": 1.0,
        },
    },
    "transnar": {
        "tokenizer": {"kind": "wordpiece", "size": 512},
        "model": {
            **_decoder_only(96, _stack(3, 4, 192, "pre", "none"), 0.0),
            "reasoner": {"kind": "mpnn", "width": 64},
        },
        "train": {
            "objective": "solve",
            "batch_tokens": 4096,
            "max_tokens": 512,
            "schedule": "cosine(0.002, warmup=100)",
            "steps": 3000,
            "validate_every": 250,
            "metric": "task",
            "label_smoothing": 0.0,
            "average": 1,
            "clip": 1.0,
        },
    },
    "gpt2": _gpt2(768, layers=12, heads=12, rate=0.0006),
    "gpt2-medium": _gpt2(1024, layers=24, heads=16, rate=0.0003),
    "gpt2-large": _gpt2(1280, layers=36, heads=20, rate=0.00025),
    "gpt2-xl": _gpt2(1600, layers=48, heads=25, rate=0.0002),
    "bert": _bert(768, layers=12, heads=12),
    "bert-large": _bert(1024, layers=24, heads=16),
    "bert-tiny": _bert(
        128,
        layers=2,
        heads=2,
        vocabulary=8000,
        batch_tokens=2048,
        max_tokens=128,
        schedule="linear(0.002, warmup=100)",
        steps=4000,
        validate_every=250,
    ),
    "t5": {
        "tokenizer": {"kind": "unigram", "size": 32_128},
        "model": t5_model(512, 6, 8, 2048),
        "train": {
            "objective": "span_corruption(0.15, 3, lines=0)",
            "batch_tokens": 65_536,
            "max_tokens": 512,
            "schedule": "inverse_sqrt(0.001, warmup=10000)",
            "steps": 524_288,
            "label_smoothing": 0.0,
            "average": 1,
            "clip": 1.0,
        },
    },
    "xlnet": {
        "tokenizer": {"kind": "unigram", "size": 32_000},
        "model": {
            "d_model": 768,
            "dropout": 0.1,
            "norm": "layernorm(1e-12)",
            "encoder": {"layers": 0},
            "decoder": {
                **_stack(12, 12, 3072, "post", "transformer_xl(tied=false)"),
                "mixer": "attention(12, bias=false)",
                "feedforward": "gelu(3072)",
                "streams": 2,
            },
            "embedding": {"scale": False},
            "head": "logits(bias=true)",
        },
        "train": {
            "objective": "permutation(0.1667, 5)",
            "batch_tokens": 1_048_576,
            "max_tokens": 512,
            "schedule": "linear(0.0004, warmup=40000)",
            "optimiser": "adamw(0.01, beta2=0.999, eps=1e-6)",
            "steps": 500_000,
            "label_smoothing": 0.0,
            "average": 1,
            "clip": 1.0,
        },
    },
    "retro": {
        "tokenizer": {"kind": "bpe", "size": 32_000},
        "model": {
            **_decoder_only(896, {**_stack(12, 16, 3584, "pre", "rope"), "retrieval": "retro(64, 2, 6, 3)"}, 0.1),
            "norm": "rmsnorm",
        },
        "train": {
            "objective": "causal",
            "batch_tokens": 524_288,
            "max_tokens": 2048,
            "schedule": "cosine(0.0002, warmup=7500)",
            "optimiser": "adamw(0.1, beta2=0.95, eps=1e-8)",
            "steps": 419_430,
            "label_smoothing": 0.0,
            "average": 1,
            "clip": 1.0,
        },
    },
    "vit": {
        "tokenizer": "bytes",
        "model": vit_model(768, layers=12, heads=12, hidden=3072),
        "train": {
            "objective": "classify",
            "augmentation": "pictures(0.08)",
            "batch_tokens": 806_912,
            "schedule": "cosine(0.003, warmup=10000)",
            "optimiser": "adamw(0.3, beta2=0.999, eps=1e-8)",
            "steps": 93_600,
            "metric": "task",
            "label_smoothing": 0.0,
            "average": 1,
            "clip": 1.0,
        },
    },
    "vit_tiny": {
        "tokenizer": "bytes",
        "model": vit_model(128, layers=4, heads=4, hidden=256, patch=8, size=64),
        "train": {
            "objective": "classify",
            "augmentation": "pictures(0.5)",
            "batch_tokens": 4096,
            "schedule": "cosine(0.001, warmup=100)",
            "optimiser": "adamw(0.05)",
            "steps": 2000,
            "validate_every": 200,
            "patience": 0,
            "metric": "task",
            "label_smoothing": 0.1,
            "average": 3,
            "clip": 1.0,
        },
    },
    "retnet": {
        "tokenizer": {"kind": "bpe", "size": 50_240},
        "model": _decoder_only(
            2048,
            {
                "layers": 24,
                "mixer": "retention(8)",
                "feedforward": "gelu(4096)",
                "residual": "pre",
                "position": "rope(spacing='closed')",
            },
            0.1,
        ),
        "train": {
            "objective": "causal",
            "batch_tokens": 4_000_000,
            "max_tokens": 2048,
            "schedule": "linear(0.0006, warmup=375)",
            "optimiser": "adamw(0.05, beta2=0.98, eps=1e-8)",
            "steps": 25_000,
            "label_smoothing": 0.0,
            "average": 1,
            "clip": 2.0,
        },
    },
}


class CorpusStatistics(NamedTuple):
    """The size of a corpus, by which a preset is chosen."""

    lines: int
    words: int  # on one side
    characters: int


def find_preset(name: str) -> Table:
    if name not in PRESETS:
        names = ["auto", *PRESETS]
        raise ConfigError(f'there is no preset "{name}".{did_you_mean(name, names)} Choose one of: {", ".join(names)}.')
    return PRESETS[name]


def find_preset_for(name: str, objective: str) -> Table:
    """A preset of translators or language models; of the latter also for masked ones, and those with two streams."""
    if objective == "permutation":
        return _to_two_streams(PRESETS[name])
    return _to_masked(PRESETS[name]) if objective == "masked" else PRESETS[name]


def choose_preset(corpus: CorpusStatistics, objective: str) -> tuple[str, Table, str]:
    """The name, the settings and the reason. The more text there is, the larger the model."""
    size = f"{corpus.lines:,} {'pairs' if reads_pairs(objective) else 'lines'}, about {corpus.words:,} words"
    if not has_source(objective):
        name = "tiny_lm" if corpus.words < 50_000 else "small_lm"
        return name, find_preset_for(name, objective), f"{size}: a larger language model would memorise this text"
    for name, limit, reason in (
        ("tiny", 150_000, "this little text can train only a very small model"),
        (
            "small",
            3_000_000,
            "little text: strong dropout, new random subword splits in every epoch, averaged weights",
        ),
        ("medium", 15_000_000, "enough for a model of half the paper's size"),
        ("base", 0, "enough for the paper's base model"),
    ):
        if corpus.words < limit or not limit:
            return name, PRESETS[name], f"{size}: {reason}"
    raise AssertionError


def choose_task_preset(corpus: CorpusStatistics) -> tuple[str, Table, str]:
    """The same for a task on top of an encoder."""
    size = f"{corpus.lines:,} examples, about {corpus.words:,} words"
    if corpus.words < 3_000_000:
        return "tiny_encoder", PRESETS["tiny_encoder"], f"{size}: a small encoder learns this in minutes"
    return "small_encoder", PRESETS["small_encoder"], f"{size}: enough for a deeper encoder"


def choose_picture_preset(pictures: int, side: int, is_grey: bool) -> tuple[str, Table, str]:
    """The same for labelled pictures; `side`: the usual length of their sides in pixels. Small ones are read at their
    own size, in patches of an eighth of it, by a narrower model in smaller steps."""
    table = PRESETS["vit_tiny"]
    model, train = table["model"], table["train"]
    frontend: Table = {"kind": "patches", "patch": 8, "size": 64, "channels": 1 if is_grey else 3}
    if side < 64:
        patch = max(2, side // 8)
        frontend |= {"patch": patch, "size": max(side // patch, 1) * patch}
        model = vit_model(64, layers=4, heads=4, hidden=128)
        train = {**train, "batch_tokens": 1024, "schedule": "cosine(0.002, warmup=100)"}
    encoder = {**model["encoder"], "frontend": frontend}
    size = f"{pictures:,} pictures of about {side} x {side} pixels"
    reason = f"{size}: read at {frontend['size']} x {frontend['size']} in patches of {frontend['patch']}"
    return "vit_tiny", {**table, "model": {**model, "encoder": encoder}, "train": train}, reason


def _to_masked(table: Table) -> Table:
    """The settings of a causal language model, for a masked one."""
    model = table["model"]
    train = table["train"]
    sides = {"encoder": model["decoder"], "decoder": {"layers": 0}, "head": "masked"}
    return {**table, "model": {**model, **sides}, "train": {**train, "objective": "masked"}}


def _to_two_streams(table: Table) -> Table:
    """The settings of a causal language model, for one that is trained in random orders."""
    model, train = table["model"], table["train"]
    decoder = {**model["decoder"], "streams": 2}
    return {**table, "model": {**model, "decoder": decoder}, "train": {**train, "objective": "permutation"}}


def _build_config(name: str, vocabulary: int | None) -> Config:
    table = find_preset(name)
    return read_config({**table, "model": {**table["model"], **({"vocabulary": vocabulary} if vocabulary else {})}})


def tiny(vocabulary: int | None = None) -> Config:
    return _build_config("tiny", vocabulary)


def small(vocabulary: int | None = None) -> Config:
    return _build_config("small", vocabulary)


def base(vocabulary: int | None = 37_000) -> Config:
    """The paper's base model."""
    return _build_config("base", vocabulary)


def big(vocabulary: int | None = 37_000) -> Config:
    """The paper's big model."""
    return _build_config("big", vocabulary)


def gpt2(vocabulary: int | None = 50_257) -> Config:
    """GPT-2, 124 million parameters."""
    return _build_config("gpt2", vocabulary)


def vit(vocabulary: int | None = None) -> Config:
    """ViT-B/16."""
    return _build_config("vit", vocabulary)


def retnet(vocabulary: int | None = 50_257) -> Config:
    """RetNet, 1.3 billion parameters."""
    return _build_config("retnet", vocabulary)


def t5(vocabulary: int | None = 32_128) -> Config:
    """T5 small, 60 million parameters."""
    return _build_config("t5", vocabulary)


def bert(vocabulary: int | None = 30_522) -> Config:
    """BERT base."""
    return _build_config("bert", vocabulary)


def retro(vocabulary: int | None = 32_000) -> Config:
    """RETRO, the smallest of its sizes."""
    return _build_config("retro", vocabulary)


def xlnet(vocabulary: int | None = 32_000) -> Config:
    """XLNet base."""
    return _build_config("xlnet", vocabulary)
