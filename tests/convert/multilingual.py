"""Small random translators of Hugging Face with language tokens, each a directory with a tokenizer of its own."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BartTokenizer,
    LogitsProcessor,
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MBart50Tokenizer,
    MBartConfig,
    MBartForConditionalGeneration,
    MBartTokenizer,
    NllbTokenizer,
)

from convert.translators import BART, sentencepiece_model, stir
from headway.text.tokenizer.vocabulary import byte_alphabet

FAIRSEQ_IDS = {"pad_id": -1, "unk_id": 0, "bos_id": 1, "eos_id": 2}
NLLB_CODES = ["ace_Arab", "ace_Latn", "eng_Latn", "deu_Latn", "fra_Latn", "zho_Hans", "zho_Hant"]
FAMILIES = ("NLLB", "M2M100", "mBART-50", "mBART", "BART")
CODES = {  # of English and German, as the original has them
    "NLLB": ("eng_Latn", "deu_Latn"), "M2M100": ("en", "de"), "mBART-50": ("en_XX", "de_DE"),
    "mBART": ("en_XX", "de_DE"), "BART": ("", ""),
}  # fmt: skip


# Seed, how likely the end is, how loud the source: values at which outputs differ by source, and in their lengths.
ROUGH = {
    "NLLB": (5, 1.0, 6.0), "M2M100": (0, 3.0, 6.0), "mBART-50": (5, 2.0, 6.0), "mBART": (5, 1.0, 2.0),
    "BART": (1, 3.0, 6.0),
}  # fmt: skip


@dataclass
class Original:
    """A model and its tokenizer, as transformers has them, and the directory that they were saved to."""

    family: str
    folder: Path
    tokenizer: Any
    model: Any

    def encode(self, text: str, source: str | None = None) -> list[int]:
        if self.family != "BART":
            self.tokenizer.src_lang = source or CODES[self.family][0]
        return list(self.tokenizer(text)["input_ids"])

    @property
    def forced(self) -> int | None:
        """The id that an output in German begins with."""
        if self.family == "M2M100":
            return int(self.tokenizer.get_lang_id("de"))
        if self.family in ("NLLB", "mBART-50"):
            return int(self.tokenizer.convert_tokens_to_ids(CODES[self.family][1]))
        return 0 if self.family == "BART" else None

    @torch.no_grad()
    def generate(self, rows: list[list[int]], suppress: tuple[int, ...], **settings: Any) -> list[list[int]]:
        """What it writes after its start token, without padding and end."""
        pad, end = self.model.config.pad_token_id, self.model.config.eos_token_id
        longest = max(map(len, rows))
        ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])
        found = self.model.generate(
            ids,
            attention_mask=torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows]),
            logits_processor=[Suppress(suppress, forced=self.forced is not None)],
            forced_bos_token_id=self.forced,
            forced_eos_token_id=None,
            do_sample=False,
            **settings,
        )
        return [[token for token in row[1:] if token not in (pad, end)] for row in found.tolist()]


class Suppress(LogitsProcessor):
    """Ids that are never written, but for the first if it is forced."""

    def __init__(self, ids: tuple[int, ...], forced: bool) -> None:
        self.ids, self.forced = list(ids), forced

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if input_ids.shape[1] > self.forced:
            scores[:, self.ids] = -torch.inf
        return scores


def save_pieces(folder: Path, kind: str) -> bytes:
    folder.mkdir(parents=True)
    model = sentencepiece_model(60, model_type=kind, **FAIRSEQ_IDS)
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    return model


def make_tokenizer(family: str, folder: Path) -> Any:
    """A tokenizer, with its files in this new folder."""
    if family == "M2M100":
        processor = sentencepiece.SentencePieceProcessor(model_proto=save_pieces(folder, "bpe"))
        pieces = [processor.id_to_piece(n) for n in range(3, processor.get_piece_size())]
        vocabulary = {piece: n for n, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces])}
        (folder / "vocab.json").write_text(json.dumps(vocabulary))
        return M2M100Tokenizer(str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"))
    if family == "NLLB":
        save_pieces(folder, "bpe")
        return NllbTokenizer.from_pretrained(folder, additional_special_tokens=NLLB_CODES)
    if family == "BART":
        folder.mkdir(parents=True)
        letters = list(byte_alphabet())
        vocabulary = {token: n for n, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *letters, "<mask>"])}
        return BartTokenizer(vocab=vocabulary, merges=[])
    save_pieces(folder, "unigram")
    return (MBart50Tokenizer if family == "mBART-50" else MBartTokenizer).from_pretrained(folder)


@torch.no_grad()
def roughen(model: Any, end: float, cross: float) -> None:
    """Keep it from repeating its last token, which pre-norm with tied embeddings does, and let lengths differ."""
    generator = torch.Generator().manual_seed(3)
    stacks = model.model.encoder, model.model.decoder
    for stack in stacks:
        if hasattr(stack.embed_positions, "weight"):
            stack.embed_positions.weight.normal_(0.0, 0.4, generator=generator)
            stack.embed_positions.weight[:2] = 0.0  # never read
    last = getattr(stacks[1], "layer_norm", None) or stacks[1].layers[-1].final_layer_norm
    last.weight.normal_(0.0, 1.0, generator=generator)
    towards_end = model.model.shared.weight[2] / model.model.shared.weight[2].norm()
    last.bias.normal_(0.0, 0.2, generator=generator).add_(end * towards_end)
    for layer in stacks[1].layers:
        layer.encoder_attn.out_proj.weight.mul_(cross)
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias.normal_(0.0, 0.3, generator=generator)


def make_original(family: str, folder: Path, spare: int = 3, **changes: Any) -> Original:
    """spare: words of the model that its tokenizer does not have."""
    seed, end, cross = ROUGH[family]
    tokenizer = make_tokenizer(family, folder / "pieces")
    size = 61 + 100 + 8 if family == "M2M100" else len(tokenizer) + spare
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
    table: dict[str, Any] = {**BART, **ids, "vocab_size": size, "scale_embedding": False, **changes}
    model: Any
    if family in ("NLLB", "M2M100"):
        model = M2M100ForConditionalGeneration(M2M100Config(**{"activation_function": "relu", **table}))
    elif family == "BART":
        model = BartForConditionalGeneration(BartConfig(**table))
    else:
        start = tokenizer.convert_tokens_to_ids("de_DE") if family == "mBART" else 2
        model = MBartForConditionalGeneration(MBartConfig(**{**table, "decoder_start_token_id": start}))
    model = stir(model, seed)
    roughen(model, end, cross)
    model.generation_config.forced_bos_token_id = 0 if family == "BART" else None
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    return Original(family, folder / "model", tokenizer, model)
