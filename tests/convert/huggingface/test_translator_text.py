"""The text of Marian, Pegasus and T5: languages, what stands before a source, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from convert.translators import pegasus, save_marian, save_t5, t5
from transformers import AutoTokenizer

from headway.convert.architecture import ConversionError
from headway.convert.huggingface.directory import apply_generation
from headway.convert.huggingface.generation import read_search, read_suppressed
from headway.convert.huggingface.marian_text import read_marian_text
from headway.convert.huggingface.model_folder import ModelFolder
from headway.convert.huggingface.t5_text import find_lead, read_t5_text
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.errors import HeadwayError
from headway.text.tokenizer.direction_tokens import find_direction_tokens
from headway.text.tokenizer.special_tokens import special_tokens
from headway.translate.translator import load_translator

TASKS = {
    "translation_en_to_de": {"prefix": "translate English to German: "},
    "translation_en_to_fr": {"prefix": "translate English to French: "},
    "summarization": {"prefix": "summarize: "},
    "translation_en_to_ro": {},
}


def edit(path: Path, **changes: Any) -> None:
    table = json.loads(path.read_text())
    path.write_text(json.dumps({name: value for name, value in {**table, **changes}.items() if value is not None}))


def test_the_tasks_of_t5_are_its_directions(tmp_path: Path) -> None:
    save_t5(tmp_path / "theirs", t5(task_specific_params=TASKS))
    plan_import(str(tmp_path / "theirs"), ImportOptions()).write(tmp_path / "ours")
    translator = load_translator(tmp_path / "ours", device="cpu")
    assert translator.summary.source_languages == ("en",)
    assert translator.summary.target_languages == ("de", "fr")
    original = AutoTokenizer.from_pretrained(tmp_path / "theirs")
    ids = translator.tokenizers.source.encode("the dog")
    wanted = original("translate English to German: the dog").input_ids
    assert translator.direction_tokens(target="de").wrap_source(ids) == wanted
    with pytest.raises(HeadwayError, match="this model translates to de, fr: say which with --to"):
        translator.direction_tokens()
    german = {"translation_en_to_de": TASKS["translation_en_to_de"]}
    edit(tmp_path / "theirs" / "config.json", task_specific_params=german)
    plan_import(str(tmp_path / "theirs"), ImportOptions()).write(tmp_path / "one")
    assert load_translator(tmp_path / "one", device="cpu").direction_tokens().wrap_source(ids) == wanted


def test_a_tokenizer_that_joins_prefix_and_text_is_refused() -> None:
    with pytest.raises(ConversionError, match="does not separate '<2de>' from the text"):
        find_lead(lambda text: [len(text)], "<2de>")


def test_languages_that_a_tag_lacks_are_refused(tmp_path: Path) -> None:
    save_t5(tmp_path / "theirs", tags=("de", "fr"))
    text = read_t5_text(ModelFolder.open(tmp_path / "theirs"))
    with pytest.raises(HeadwayError, match='no token for the target language "it". It knows: de, fr'):
        find_direction_tokens(text.tokenizers, "", "it", tagged=True)
    german = find_direction_tokens(text.tokenizers, "en", "de", tagged=True)
    assert german.source_lead == (text.tokenizers.source.encode("<2de>")[-1],)


def test_pegasus_needs_its_tokenizer_json(tmp_path: Path) -> None:
    save_t5(tmp_path / "theirs", fast=True)
    pegasus().save_pretrained(tmp_path / "theirs")
    report = plan_import(str(tmp_path / "theirs"), ImportOptions()).write(tmp_path / "ours")
    assert report.family == "Pegasus"
    (tmp_path / "theirs" / "tokenizer.json").unlink()
    with pytest.raises(ConversionError, match="has no tokenizer.json, and Pegasus has ids that no other"):
        plan_import(str(tmp_path / "theirs"), ImportOptions())


def test_a_vocabulary_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    save_marian(folder)
    vocabulary = json.loads((folder / "vocab.json").read_text())
    edit(folder / "config.json", vocab_size=20)
    with pytest.raises(ConversionError, match="the vocabulary has .* entries, and the model 20"):
        read_marian_text(ModelFolder.open(folder))
    edit(folder / "config.json", vocab_size=96)
    unknown = {("<nothing>" if entry == "<unk>" else entry): n for entry, n in vocabulary.items()}
    (folder / "vocab.json").write_text(json.dumps(unknown))
    with pytest.raises(ConversionError, match="the vocabulary of source.spm has no <unk>"):
        read_marian_text(ModelFolder.open(folder))
    edit(folder / "tokenizer_config.json", source_lang="ROMANCE", target_lang=None)
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    text = read_marian_text(ModelFolder.open(folder))
    assert (text.source_languages, text.target_languages) == ((), ())


def test_only_what_the_generation_config_bans_is_suppressed(tmp_path: Path) -> None:
    assert read_suppressed({"bad_words_ids": [[5], [6, 7]], "suppress_tokens": [3]}) == (
        [3, 5], ["bad_words_ids of several tokens: 1 of 2"],
    )  # fmt: skip
    assert read_suppressed({"bad_words_ids": None}) == ([], [])
    for wrong in ({"suppress_tokens": 3}, {"bad_words_ids": [3]}):
        with pytest.raises(ConversionError, match="suppress_tokens or bad_words_ids are no lists"):
            read_suppressed(wrong)
    for wrong in ({"suppress_tokens": ["a"]}, {"bad_words_ids": [[-1]]}):
        with pytest.raises(ConversionError, match="suppressed ids must be positive integers"):
            read_suppressed(wrong)
    save_marian(tmp_path / "theirs")
    folder = ModelFolder.open(tmp_path / "theirs")
    text = apply_generation(read_marian_text(folder), folder)
    pad = text.tokenizers.target.pad
    assert special_tokens(text.tokenizers.target).suppress == (pad,)
    own = special_tokens(read_marian_text(folder).tokenizers.target)
    assert pad in own.suppress and own.end not in own.suppress
    folder.generation["forced_bos_token_id"] = 7
    forced = apply_generation(read_marian_text(folder), folder).tokenizers
    assert find_direction_tokens(forced, "en", "de", tagged=False).target_lead == (7,)
    folder.generation["bad_words_ids"] = [[1000]]
    with pytest.raises(HeadwayError, match="names the id 1000, and has 96 entries"):
        apply_generation(read_marian_text(folder), folder)


def test_the_end_of_a_search_is_the_originals() -> None:
    assert read_search({"num_beams": 2, "eos_token_id": 1, "forced_eos_token_id": 1, "early_stopping": "never"}) == (
        {"beam_size": 2, "penalty": "power", "alpha": 1.0, "stopping": "score", "force_end": True},
        ["early_stopping = 'never': it is read as false"],
    )
    search, lost = read_search({"num_beams": 1, "eos_token_id": 1, "forced_eos_token_id": 2})
    assert search["force_end"] is False and "forced_eos_token_id = 2" in lost[0]
    assert "renormalise" not in read_search({"renormalize_logits": True})[0], "greedy search is the same with it"
