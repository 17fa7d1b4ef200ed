"""Small random translators of Hugging Face: Marian, Pegasus and T5, in every form that files of theirs have, with
tokenizers of their own. Attention that whispers keeps them from repeating themselves, and the end token is raised, so
that lengths differ."""

import base64
import functools
import io
import json
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch import Tensor
from transformers import (
    MarianConfig,
    MarianMTModel,
    MT5Config,
    MT5ForConditionalGeneration,
    PegasusConfig,
    PegasusForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
)

from headway.convert.architecture import find_family
from headway.convert.importer import ImportPlan, ImportReport
from headway.convert.weight_files import TensorsSource
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers

SIZE = 96  # of every vocabulary
WORDS = [
    "the", "dog", "sees", "a", "cat", "in", "garden", "and", "house", "with", "small", "red", "bird", "that", "sings",
    "at", "night", "while", "rain", "falls",
]  # fmt: skip
BART = {
    "vocab_size": SIZE, "d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 40, "max_position_embeddings": 64,
    "scale_embedding": True,
}  # fmt: skip
T5 = {
    "vocab_size": SIZE, "d_model": 16, "d_kv": 6, "d_ff": 24, "num_layers": 2, "num_decoder_layers": 1, "num_heads": 4,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20,
}  # fmt: skip
MARIAN_IDS = {"pad_token_id": SIZE - 1, "decoder_start_token_id": SIZE - 1, "eos_token_id": 0}


def make_lines(count: int, seed: int = 0) -> list[str]:
    """Sentences of 1 to 9 words."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 10, (count,), generator=generator).tolist()
    picks = [torch.randint(0, len(WORDS), (length,), generator=generator).tolist() for length in lengths]
    return [" ".join(WORDS[n] for n in pick) for pick in picks]


@torch.no_grad()
def stir(model: Any, seed: int = 0) -> Any:
    """Random weights, in place."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if "embed_positions" in name:
            continue
        deviation = 0.15 if name.endswith(("out_proj.weight", ".o.weight")) else 0.4
        mean = float("norm" in name and name.endswith("weight"))
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * deviation + mean)
    return model.eval()


@torch.no_grad()
def untie(model: Any, scale: float = 0.4) -> Any:
    generator = torch.Generator().manual_seed(5)
    model.lm_head.weight = torch.nn.Parameter(torch.randn(model.lm_head.weight.shape, generator=generator) * scale)
    model.lm_head.weight[model.config.eos_token_id] *= 2.5  # often likely, often not
    return model


@torch.no_grad()
def _raise_end(model: Any, amount: float) -> Any:
    model.final_logits_bias.normal_(0.0, 0.3, generator=torch.Generator().manual_seed(7))
    model.final_logits_bias[:, model.config.eos_token_id] = amount
    return model


def marian(**changes: Any) -> Any:
    config = MarianConfig(**{**BART, **MARIAN_IDS, "forced_eos_token_id": 0, "activation_function": "swish", **changes})
    return _raise_end(stir(MarianMTModel(config)), 2.0)


@torch.no_grad()
def lively_marian(**changes: Any) -> Any:
    """One whose outputs differ from source to source, and in length."""
    model = marian(d_model=32, decoder_layers=2, tie_word_embeddings=False, **changes)
    generator = torch.Generator().manual_seed(2)
    for name, parameter in model.named_parameters():
        if "out_proj.weight" in name:
            parameter.mul_(0.6)
        elif "embed_tokens" in name or "lm_head" in name:
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * (1.0 if "lm_head" in name else 0.7))
    return _raise_end(model, 8.0)


def pegasus(**changes: Any) -> Any:
    config = PegasusConfig(**{**BART, "activation_function": "relu", **changes})
    return _raise_end(stir(PegasusForConditionalGeneration(config)), 2.0)


@torch.no_grad()
def lively_pegasus(**changes: Any) -> Any:
    """One whose outputs differ from source to source, and in length."""
    model = untie(pegasus(d_model=32, decoder_layers=2, **changes), scale=1.0)
    for name, parameter in model.named_parameters():
        if "embed_tokens" in name or "shared" in name:
            parameter.mul_(0.3)
        elif "out_proj.weight" in name:
            parameter.mul_(4.0)
    model.lm_head.weight[model.config.eos_token_id] *= 0.5
    return _raise_end(model, 4.0)


def t5(**changes: Any) -> Any:
    return stir(T5ForConditionalGeneration(T5Config(**{**T5, "decoder_start_token_id": 0, **changes})))


def mt5(**changes: Any) -> Any:
    return stir(MT5ForConditionalGeneration(MT5Config(**{**T5, **changes})))


def separate_marian() -> Any:
    """Two vocabularies of different sizes."""
    return marian(share_encoder_decoder_embeddings=False, decoder_vocab_size=80, **SEPARATE_IDS)


SEPARATE_IDS = {"pad_token_id": 79, "decoder_start_token_id": 79}

FORMS: dict[str, Any] = {
    "Marian": marian,
    "Marian without scale": lambda: marian(scale_embedding=False, activation_function="gelu"),
    "Marian with its own output": lambda: untie(marian(tie_word_embeddings=False)),
    "Marian with two vocabularies": separate_marian,
    "Marian with three matrices": lambda: untie(
        marian(share_encoder_decoder_embeddings=False, tie_word_embeddings=False)
    ),
    "Marian, whose matrices are three in spite of its config": lambda: marian(tie_word_embeddings=False),
    "Pegasus": pegasus,
    "Pegasus with its own output": lambda: untie(pegasus()),
    "T5": t5,
    "T5 1.1": lambda: untie(t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    "T5 1.1, tied": lambda: t5(feed_forward_proj="gated-silu", tie_word_embeddings=False),
    "mT5": lambda: untie(mt5()),
    "mT5, tied": mt5,
}


@functools.cache
def sentencepiece_model(size: int = 60, lines: tuple[str, ...] = (), **settings: Any) -> bytes:
    """Trained on these lines, or on those of make_lines."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines or make_lines(400, seed=9)), model_writer=model, vocab_size=size, minloglevel=9,
        hard_vocab_limit=False, **{"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, **settings},
    )  # fmt: skip
    return model.getvalue()


def make_tokenizer(size: int, special: dict[str, int]) -> ImportedTokenizer:
    model = base64.b64encode(sentencepiece_model()).decode()
    return ImportedTokenizer(
        {"imported": "sentencepiece", "model": model, "special": {"unknown": 2, **special}, "size": size}
    )


def make_plan(model: Any) -> ImportPlan:
    """Of a model in memory, with a tokenizer that has its special ids."""
    c = model.config
    special = {"pad": c.pad_token_id, "start": c.decoder_start_token_id, "end": c.eos_token_id}
    source = make_tokenizer(c.vocab_size, special)
    target_size = getattr(c, "decoder_vocab_size", c.vocab_size)
    target = source if target_size == c.vocab_size else make_tokenizer(target_size, special)
    return ImportPlan(
        architecture=find_family(c.model_type)(json.loads(c.to_json_string(use_diff=False))),
        weights=TensorsSource(model.state_dict()),
        tokenizers=Tokenizers(source, target),
    )


def write(model: Any, out: Path) -> ImportReport:
    return make_plan(model).write(out)


def make_batch(rows: int, size: int, end: int, pad: int, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Random sources of 1 to 12 tokens, each closed by the end token, padded; and which tokens are real."""
    generator = torch.Generator().manual_seed(seed)
    lengths, places = torch.randint(1, 13, (rows, 1), generator=generator), torch.arange(13)
    source = torch.randint(3, size - 1, (rows, 13), generator=generator)
    return source.masked_fill(places == lengths, end).masked_fill(places > lengths, pad), places <= lengths


# Directories, as transformers writes them.
def save_marian(folder: Path, model: Any = None, tags: tuple[str, ...] = (), separate: bool = False) -> Any:
    """With source.spm and target.spm, whose pieces differ; vocab.json holds both, or each side has its own."""
    folder.mkdir(parents=True)
    pieces = []
    for name, settings in (("source", {}), ("target", {"vocab_size": 50, "model_type": "bpe"})):
        content = sentencepiece_model(**{"size": settings.pop("vocab_size", 60), **settings, **MARIAN_PIECES})
        (folder / f"{name}.spm").write_bytes(content)
        processor = sentencepiece.SentencePieceProcessor(model_proto=content)
        own = [processor.IdToPiece(n) for n in range(processor.GetPieceSize())]
        pieces.append([piece for piece in own if piece not in ("<unk>", "<s>", "</s>")])
    spelled = [f">>{tag}<<" for tag in tags]
    sides = pieces if separate else [list(dict.fromkeys([*spelled, *pieces[0], *pieces[1]]))]
    for name, entries in zip(("vocab.json", "target_vocab.json"), sides):
        vocabulary = ["</s>", "<unk>", *entries[: SIZE - 3 if name == "vocab.json" else 77]]
        table = {entry: n for n, entry in enumerate([*vocabulary, "<pad>"])}
        (folder / name).write_text(json.dumps(table))
    last = len(json.loads((folder / ("target_vocab.json" if separate else "vocab.json")).read_text())) - 1
    settings = {"source_lang": "en", "target_lang": "de", "separate_vocabs": separate, "tokenizer_class": MARIAN_CLASS}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    ids = {"pad_token_id": last, "decoder_start_token_id": last}
    if separate:
        ids |= {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 80}
    model = model or lively_marian(**ids)
    model.generation_config.update(bad_words_ids=[[last]], max_length=20, num_beams=4, renormalize_logits=True)
    model.save_pretrained(folder)
    return model


MARIAN_PIECES = {"pad_id": -1, "eos_id": 0, "unk_id": 1, "bos_id": -1}
MARIAN_CLASS = "MarianTokenizer"


def save_t5(folder: Path, model: Any = None, tags: tuple[str, ...] = (), fast: bool = False) -> Any:
    """With spiece.model, or with tokenizer.json if it is `fast`."""
    from transformers import T5Tokenizer

    folder.mkdir(parents=True)
    symbols = {"user_defined_symbols": ",".join(f"<2{tag}>" for tag in tags)} if tags else {}
    (folder / "spiece.model").write_bytes(sentencepiece_model(**symbols))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "T5Tokenizer", "extra_ids": 0}))
    if fast:
        T5Tokenizer.from_pretrained(folder).save_pretrained(folder)
        (folder / "spiece.model").unlink(missing_ok=True)
    model = model or untie(t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False), scale=1.0)
    model.generation_config.update(max_length=20, num_beams=4)
    model.save_pretrained(folder)
    return model
