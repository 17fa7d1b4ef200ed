"""Presets are complete, have the papers' sizes, and can be built."""

import pytest
import torch
from transformers import BertConfig, BertForPreTraining, GPT2Config, GPT2LMHeadModel

from headway.config import presets
from headway.config.config import read_config
from headway.config.presets import PRESETS, CorpusStatistics, choose_preset, find_preset
from headway.errors import ConfigError
from headway.nn.transformer import Transformer


def paper(vocabulary: int, d: int, hidden: int, layers: int = 6) -> int:
    """Section 3 of the paper, by hand: shared embedding, projections with biases, norms with gain and bias."""
    attention = 4 * (d * d + d)
    feedforward = d * hidden + hidden + hidden * d + d
    norm = 2 * d
    encoder = attention + feedforward + 2 * norm
    decoder = 2 * attention + feedforward + 3 * norm
    return vocabulary * d + layers * (encoder + decoder)


def test_base_has_the_papers_size() -> None:
    assert presets.base().model.parameter_count() == paper(37_000, 512, 2048) == 63_082_496


def test_big_has_the_papers_size() -> None:
    assert presets.big().model.parameter_count() == paper(37_000, 1024, 4096) == 214_245_376


@pytest.mark.parametrize(
    ("name", "width", "layers", "heads", "parameters"),
    [
        ("gpt2", 768, 12, 12, 124_439_808),  # "117M" in the paper: it counted 117 million where there are 124
        ("gpt2-medium", 1024, 24, 16, 354_823_168),  # "345M"
        ("gpt2-large", 1280, 36, 20, 774_030_080),  # "762M"
        ("gpt2-xl", 1600, 48, 25, 1_557_611_200),  # "1542M"
    ],
)
def test_gpt2_has_its_sizes(name: str, width: int, layers: int, heads: int, parameters: int) -> None:
    """Counted by hand, by transformers, and by ours when it is built: on the meta device, without memory."""
    table = find_preset(name)
    config = read_config({**table, "model": {**table["model"], "vocabulary": 50_257}})
    assert config.model.parameter_count() == parameters
    with torch.device("meta"):
        ours = Transformer(config.model)
        theirs = GPT2LMHeadModel(GPT2Config(n_embd=width, n_layer=layers, n_head=heads))
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters()) == parameters
    layer = 4 * (width**2 + width) + 2 * 4 * width**2 + 5 * width + 4 * width
    assert 50_257 * width + 1024 * width + layers * layer + 2 * width == parameters


def test_gpt2_is_the_smallest() -> None:
    assert presets.gpt2().model.parameter_count() == 124_439_808


@pytest.mark.parametrize(
    ("name", "width", "layers", "heads", "parameters"),
    [
        ("bert", 768, 12, 12, 110_106_428),
        ("bert-large", 1024, 24, 16, 336_226_108),
        ("bert-tiny", 128, 2, 2, 4_433_468),  # with BERT's vocabulary; the preset's own is smaller
    ],
)
def test_bert_has_its_sizes(name: str, width: int, layers: int, heads: int, parameters: int) -> None:
    table = find_preset(name)
    config = read_config({**table, "model": {**table["model"], "vocabulary": 30_522}})
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    with torch.device("meta"):
        ours = Transformer(config.model)
        theirs = BertForPreTraining(BertConfig(intermediate_size=4 * width, **sizes))
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters()) == parameters
    assert config.model.parameter_count() == parameters


def test_bert_is_the_base_model() -> None:
    assert presets.bert().model.parameter_count() == 110_106_428


def test_retnet_has_its_size() -> None:
    d, hidden, vocabulary = 2048, 4096, 50_257
    retention, feedforward = 8 * d * d, 2 * d * hidden + hidden + d  # queries and keys d², the other three 2d²
    expected = vocabulary * d + 24 * (retention + feedforward + 2 * 2 * d) + 2 * d
    assert presets.retnet().model.parameter_count() == expected == 1_311_234_048


def test_base_trains_and_searches_as_in_the_paper() -> None:
    config = presets.base()
    train = config.train
    assert (train.optimiser.kind, train.optimiser.beta1, train.optimiser.beta2) == ("adam", 0.9, 0.98)
    assert (train.schedule.kind, train.schedule.warmup) == ("noam", 4000)
    assert (train.label_smoothing, train.batch_tokens, train.steps, train.average) == (0.1, 25_000, 100_000, 5)
    assert (config.model.dropout, config.model.embedding.tied, config.vocabularies) == (0.1, "all", "shared")
    assert config.model.encoder.residual.kind == config.model.decoder.residual.kind == "post"
    search = config.search
    assert (search.beam_size, search.penalty, search.alpha, search.max_ratio, search.max_extra) == (
        4,
        "paper",
        0.6,
        1,
        50,
    )
    big = presets.big()
    assert (big.model.dropout, big.train.average, big.train.keep_last, big.train.steps) == (0.3, 20, 20, 300_000)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_config(name: str) -> None:
    config = read_config(find_preset(name))
    assert config == config.resolved()


def test_a_vocabulary_may_be_given() -> None:
    assert presets.tiny(640).model.vocabulary == 640
    assert presets.tiny().model.vocabulary is None
    assert presets.small(640).model.parameter_count() > presets.tiny(640).model.parameter_count()


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        find_preset("bases")
    assert str(caught.value) == (
        'there is no preset "bases". Did you mean "base"? Choose one of: auto, tiny, small, medium, base, big, '
        "tiny_lm, small_lm, tiny_encoder, small_encoder, transnar, gpt2, gpt2-medium, gpt2-large, gpt2-xl, bert, "
        "bert-large, bert-tiny, t5, xlnet, retro, vit, vit_tiny, retnet."
    )


@pytest.mark.parametrize("objective", ["causal", "masked"])
@pytest.mark.parametrize(("words", "name"), [(1000, "tiny_lm"), (100_000, "small_lm")])
def test_auto_for_text_alone(objective: str, words: int, name: str) -> None:
    chosen, table, reason = choose_preset(CorpusStatistics(10, words, 6 * words), objective)
    config = read_config(table)
    assert (chosen, config.train.objective.kind) == (name, objective)
    assert "10 lines" in reason


def test_choosing_changes_no_preset() -> None:
    before = repr(PRESETS)
    choose_preset(CorpusStatistics(1, 1, 1), "masked")
    presets.base(128)
    assert repr(PRESETS) == before


@pytest.mark.parametrize("kind", ["relu", "gated-gelu"])
@pytest.mark.parametrize(("name", "sizes"), [("small", (512, 6, 8, 2048)), ("base", (768, 12, 12, 3072))])
def test_t5_has_the_size_of_the_original(name: str, sizes: tuple[int, int, int, int], kind: str) -> None:
    """Against transformers, on the meta device; with the gated feed-forward of version 1.1 too."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    d_model, layers, heads, hidden = sizes
    theirs = T5Config(
        vocab_size=32_128, d_model=d_model, num_layers=layers, num_heads=heads, d_ff=hidden, feed_forward_proj=kind
    )  # fmt: skip
    with torch.device("meta"):
        original = T5ForConditionalGeneration(theirs)
    shared = {id(parameter): parameter.numel() for parameter in original.parameters()}
    table = presets.t5_model(d_model, layers, heads, hidden, "relu" if kind == "relu" else "geglu_tanh")
    ours = read_config({"model": {**table, "vocabulary": 32_128}}).model
    assert ours.parameter_count() == sum(shared.values())
    if (name, kind) == ("small", "relu"):
        assert presets.t5().model.parameter_count() == ours.parameter_count() == 60_506_624
