"""A small random Marian of Hugging Face, and the search's view of it."""

import torch
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

PAD, END = 59, 0


def small_marian(vocabulary: int = PAD + 1) -> MarianMTModel:
    """Random and in float64, so that rounding decides nothing. Random positions and an output layer of its own keep
    it from repeating itself, and its end token is raised, so that lengths differ."""
    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=16,
        encoder_layers=1,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=64,
        init_std=0.7,
        pad_token_id=PAD,
        decoder_start_token_id=PAD,
        eos_token_id=END,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config).double().eval()
    generator = torch.Generator().manual_seed(14)
    places = torch.randn(64, 16, generator=generator, dtype=torch.float64) * 2.0
    head = torch.randn(vocabulary, 16, generator=generator, dtype=torch.float64) * 0.6
    with torch.no_grad():
        model.model.decoder.embed_positions.weight.copy_(places)
        model.lm_head.weight = torch.nn.Parameter(head)
        model.final_logits_bias[:, END] = 5.0
    return model


class Seen:
    """Encoder states and all ids so far. Nothing is cached: the decoder reads everything again at each step."""

    def __init__(self, encoded: Tensor, mask: Tensor) -> None:
        self.encoded, self.mask = encoded, mask  # (N, S, D), (N, S)
        self.ids = torch.zeros(len(mask), 0, dtype=torch.long)  # (N, T), padded on the right
        self.lengths = torch.zeros(len(mask), dtype=torch.long)  # (N,)

    def select(self, rows: Tensor) -> None:
        self.encoded, self.mask, self.ids, self.lengths = (
            part[rows] for part in (self.encoded, self.mask, self.ids, self.lengths)
        )

    def append(self, ids: Tensor, valid: Tensor | None) -> None:
        real = torch.ones_like(ids, dtype=torch.bool) if valid is None else valid
        ends = self.lengths + real.sum(1)
        self.ids = torch.nn.functional.pad(self.ids, (0, int(ends.max()) - self.ids.shape[1]))
        places = torch.arange(self.ids.shape[1])
        self.ids[(places >= self.lengths[:, None]) & (places < ends[:, None])] = ids[real]
        self.lengths = ends


class MarianStepper:
    device = torch.device("cpu")

    def __init__(self, model: MarianMTModel) -> None:
        self.model = model
        self.vocabulary = model.config.vocab_size

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> Seen:
        assert source is not None
        mask = torch.ones_like(source) if valid is None else valid.long()
        return Seen(self.model.get_encoder()(source, attention_mask=mask).last_hidden_state, mask)

    def step(self, state: Seen, ids: Tensor, valid: Tensor | None = None) -> Tensor:
        state.append(ids, valid)
        out = self.model(
            encoder_outputs=(state.encoded,),
            attention_mask=state.mask,
            decoder_input_ids=state.ids,
            use_cache=False,
        )
        last = out.logits[torch.arange(len(state.ids)), state.lengths - 1]  # (N, V)
        return last.float().log_softmax(-1)
