"""From text to settings: what is chosen, who wins, what cannot be."""

from pathlib import Path
from typing import Any

import pytest

from headway.config.sources import Layer, compose, parse_assignment
from headway.data.corpora import parallel_from_memory, text_from_memory
from headway.errors import ConfigError, HeadwayError
from headway.train.dataset import ParallelDataset
from headway.train.lm_dataset import WholeTextDataset
from headway.train.setup import collect_layers, compose_with_vocabulary, load_tokenizers, make_datasets, make_tokenizers
from headway.train.sources import TrainingFiles, TrainingTexts

LINES = [f"Sentence number {n}." for n in range(40)]
PAIRS = TrainingTexts(
    [parallel_from_memory(LINES, LINES, "en", "de")], [parallel_from_memory(LINES[:4], LINES[:4], "en", "de")]
)
RUNNING = TrainingTexts(text=text_from_memory(LINES), valid_text=text_from_memory(["held out"]))


def upper(*assignments: str) -> list[Layer]:
    return [Layer(f"flag --set {text}", parse_assignment(text)) for text in assignments]


def chosen(
    texts: TrainingTexts, preset: str = "auto", *assignments: str, **files: Any
) -> tuple[Any, dict[str, str], str]:
    layers, reason = collect_layers(texts, TrainingFiles(**files), preset, upper(*assignments))
    config, origins = compose(layers)
    return config, origins, reason


def test_auto_chooses_by_the_text_and_says_why() -> None:
    config, origins, reason = chosen(PAIRS)
    assert reason.startswith("preset tiny: 40 pairs, about 120 words: ")
    assert origins["model.d_model"] == "preset tiny (auto)"
    assert config.train.objective.kind == "translation"


@pytest.mark.parametrize(
    ("words", "preset"), [(1000, "tiny"), (200_000, "small"), (5_000_000, "medium"), (20_000_000, "base")]
)
def test_more_text_a_larger_model(words: int, preset: str) -> None:
    from headway.config.presets import CorpusStatistics, choose_preset

    name, table, reason = choose_preset(CorpusStatistics(words // 10, words, words * 6), "translation")
    assert name == preset
    assert f"{words // 10:,} pairs, about {words:,} words" in reason
    compose([Layer("preset", table)])


def test_languages_are_the_files_unless_flags_name_them() -> None:
    config, origins, _ = chosen(PAIRS)
    assert (config.source_languages, config.target_languages) == (("en",), ("de",))
    assert origins["source_languages"] == "the files' names"
    texts = TrainingTexts([parallel_from_memory(LINES, LINES, "sv", "fi")], [])
    config, origins, _ = chosen(texts, "auto", "target_languages=['xx']", target_languages=["fi"])
    assert config.target_languages == ("fi",)
    assert (origins["source_languages"], origins["target_languages"]) == ("the files' names", "flag --to")


def test_text_alone_is_a_language_model_unless_something_else_is_said() -> None:
    assert chosen(RUNNING)[0].train.objective.kind == "causal"
    assert chosen(RUNNING)[2].startswith("preset tiny_lm: 40 lines, about 120 words")
    config, _, _ = chosen(RUNNING, "auto", "train.objective=masked(share=0.3)")
    assert (config.train.objective.kind, config.train.objective.share) == ("masked", 0.3)
    assert (config.model.encoder.layers, config.model.decoder.layers, config.model.head.kind) == (4, 0, "masked")


def test_a_presets_own_objective_is_kept() -> None:
    config, origins, reason = chosen(RUNNING, "bert")
    assert config.train.objective.kind == "masked"
    assert origins["train.objective.kind"] == "preset bert"
    assert reason == "preset bert, as requested"


@pytest.mark.parametrize(
    ("texts", "preset", "assignments", "message"),
    [
        (PAIRS, "gpt2", [], "the objective causal learns from --text, not from pairs"),
        (PAIRS, "auto", ["train.objective=masked"], "the objective masked learns from --text"),
        (
            RUNNING,
            "auto",
            ["train.objective=translation"],
            "translation learns from --source and --target, or --pairs, not from --text",
        ),
        (RUNNING, "tiny", [], "a language model has a decoder only. Set model.encoder.layers = 0"),
        (RUNNING, "auto", ["train.objective=maskd"], '"maskd" is not a kind of objective. Did you mean "masked"?'),
        (PAIRS, "tinny", [], 'there is no preset "tinny". Did you mean "tiny"? Choose one of: auto, tiny, small'),
    ],
)
def test_an_objective_that_the_text_does_not_serve_is_refused(
    texts: TrainingTexts, preset: str, assignments: list[str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        chosen(texts, preset, *assignments)
    assert message in str(caught.value)


def test_one_vocabulary_for_both_sides() -> None:
    layers, _ = collect_layers(PAIRS, TrainingFiles(), "tiny", upper("tokenizer=bpe(384)"))
    tokenizers = make_tokenizers(compose(layers)[0], PAIRS)
    assert tokenizers.shared
    config, origins = compose_with_vocabulary(layers, tokenizers)
    assert config.model.vocabulary == config.model.source_vocabulary == tokenizers.target.size
    assert origins["model.vocabulary"] == "tokenizer"


def test_separate_vocabularies() -> None:
    texts = TrainingTexts([parallel_from_memory(LINES, ["ганц андерс"] * 40, "en", "ru")], [])
    layers, _ = collect_layers(texts, TrainingFiles(), "tiny", upper("vocabularies=separate", "tokenizer=characters"))
    tokenizers = make_tokenizers(compose(layers)[0], texts)
    assert not tokenizers.shared
    config, _ = compose_with_vocabulary(layers, tokenizers)
    assert config.model.embedding.tied == "target"
    own_output = [*layers, Layer("test", {"model": {"embedding": {"tied": "inputs"}}})]
    assert compose_with_vocabulary(own_output, tokenizers)[0].model.embedding.tied == "none"
    assert config.model.source_vocabulary == tokenizers.source.size
    assert config.model.vocabulary == tokenizers.target.size


def test_tags_are_learned_with_the_vocabulary() -> None:
    texts = TrainingTexts([parallel_from_memory(LINES, LINES, "en", code) for code in ("de", "fr")], [])
    for vocabularies in ("shared", "separate"):
        layers, _ = collect_layers(
            texts, TrainingFiles(), "tiny", upper(f"vocabularies={vocabularies}", "tokenizer=bytes")
        )
        config, _ = compose(layers)
        assert config.tags == ("de", "fr")
        assert list(make_tokenizers(config, texts).source.tags) == ["de", "fr"]


def test_a_model_of_one_language_has_no_tags() -> None:
    config, _, _ = chosen(PAIRS)
    assert config.tags == ()


def test_corpora_for_training_and_validation(tmp_path: Path) -> None:
    layers, _ = collect_layers(PAIRS, TrainingFiles(), "tiny", upper("tokenizer=bpe(384, dropout=0.1)"))
    tokenizers = make_tokenizers(compose(layers)[0], PAIRS)
    training, valid = make_datasets(compose_with_vocabulary(layers, tokenizers)[0], PAIRS, tokenizers, tmp_path)
    assert isinstance(training, ParallelDataset) and isinstance(valid, ParallelDataset)
    assert (training.size, valid.size) == (40, 4)
    assert training.epoch_encoder is not None and training.epoch_encoder.dropout == 0.1 and valid.epoch_encoder is None
    layers, _ = collect_layers(RUNNING, TrainingFiles(), "auto", upper("tokenizer=bytes"))
    tokenizers = make_tokenizers(compose(layers)[0], RUNNING)
    training, valid = make_datasets(compose_with_vocabulary(layers, tokenizers)[0], RUNNING, tokenizers, tmp_path)
    assert isinstance(valid, WholeTextDataset)
    assert training.size == sum(len(f"{line}\n") for line in LINES)  # every byte is guessed, and nothing else


def test_the_committed_multi30k_config_is_what_auto_picks() -> None:
    root = Path(__file__).parents[2]
    from headway.config.config import Config
    from headway.config.presets import small

    committed = Config.load(root / "configs" / "multi30k-en-de.toml")
    assert committed == small()
    quick = Config.load(root / "configs" / "speedrun-en-de.toml")
    assert quick.model == committed.model  # the same model, sooner
    assert quick.train.steps < committed.train.steps


def test_the_tokenizer_of_another_model(tmp_path: Path) -> None:
    layers, _ = collect_layers(PAIRS, TrainingFiles(), "tiny", upper("tokenizer=bpe(384)", "vocabularies=separate"))
    config, _ = compose(layers)
    make_tokenizers(config, PAIRS).save(tmp_path / "tokenizer.json")
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        tokenizers, layer = load_tokenizers(path, config)
        assert (tokenizers.target.size, layer.values) == (320, {"vocabularies": "separate"})
    assert load_tokenizers(Path("en-de"), config)[0].shared, "an installed model's, by its name"
    with pytest.raises(HeadwayError, match=r'there is no model "en-qq"'):
        load_tokenizers(Path("en-qq"), config)
    with pytest.raises(HeadwayError, match=r"none.json does not exist"):
        load_tokenizers(Path("none.json"), config)
    other, _ = compose([*layers, *upper("tokenizer=bytes")])
    assert load_tokenizers(tmp_path, other)[1].values["tokenizer"] == "bpe"
    tagged, _ = compose([*layers, *upper("target_languages=['de', 'fr']")])
    with pytest.raises(ConfigError, match=r"tokenizer.json has no tag for de, fr: it was made for other languages"):
        load_tokenizers(tmp_path, tagged)
