"""Imported translators write what the originals' `generate` writes, token for token: greedily, and with the beam of
their generation config, with its length penalty, its stopping rule, its forced end and its banned words."""

from pathlib import Path
from typing import Any

import pytest
from convert.translators import lively_pegasus, make_lines, marian, mt5, save_marian, save_t5, t5, untie
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.nn.ops import native
from headway.storage.model_dir import load_model
from headway.text.tokenizer.pair import Tokenizers
from headway.translate.translator import Translator, load_translator

QUICK = 16
FOLDERS: dict[str, Any] = {
    "Marian": save_marian,
    "Marian, tied": lambda folder: save_marian(folder, marian()),
    "Marian with tags": lambda folder: save_marian(folder, tags=("fra", "deu")),
    "Marian with two vocabularies": lambda folder: save_marian(folder, separate=True),
    "T5, tied": lambda folder: save_t5(folder, t5()),
    "T5 1.1": save_t5,
    "MADLAD": lambda folder: save_t5(folder, tags=("de", "fr"), fast=True),
    "MADLAD without tokenizer.json": lambda folder: save_t5(folder, tags=("de", "fr")),
    "Pegasus": lambda folder: save_t5(folder, lively_pegasus(), fast=True),
    "mT5": lambda folder: save_t5(folder, untie(mt5(), scale=1.0)),
}
TAGS = {"Marian with tags": ("deu", ">>deu<< {}")} | {name: ("fr", "<2fr> {}") for name in FOLDERS if "MADLAD" in name}


@pytest.fixture(scope="module", params=FOLDERS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Path]:
    """A name, a directory of Hugging Face, and the same imported."""
    folder = tmp_path_factory.mktemp("models")
    FOLDERS[request.param](folder / "theirs")
    plan_import(str(folder / "theirs"), ImportOptions()).write(folder / "ours")
    return request.param, folder / "theirs", folder / "ours"


def write_theirs(folder: Path, lines: list[str], **settings: Any) -> list[list[int]]:
    """The ids of each output, without start, end and padding."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    batch = tokenizer(lines, return_tensors="pt", padding=True)
    found = model.generate(**batch, **settings).tolist()
    end = model.generation_config.eos_token_id
    results = []
    for ids in found:
        ids = ids[1:]
        results.append(ids[: ids.index(end)] if end in ids else ids)
    return results


def write_ours(translator: Translator, lines: list[str], target: str, **settings: Any) -> list[list[int]]:
    direction = translator.direction_tokens(target=target)
    rows = [direction.wrap_source(ids) for ids in translator.tokenizers.source.encode_batch(lines)]
    search = translator.search(**settings)
    found = translator.engines.choose(search).search(rows, search)
    return [hypothesis.ids for row in found for hypothesis in row]


def check(pair: tuple[str, Path, Path], count: int) -> None:
    name, theirs, ours = pair
    language, form = TAGS.get(name, ("", "{}"))
    translator = load_translator(ours, device="cpu")
    lines = make_lines(count, seed=3)
    tagged = [form.format(line) for line in lines]
    greedy = write_ours(translator, lines, language, beam_size=1)
    assert greedy == write_theirs(theirs, tagged, num_beams=1)
    assert len(set(map(tuple, greedy))) > (0 if "tied" in name else count / 8), "tied models repeat themselves"
    beam = write_ours(translator, lines, language)
    assert beam == write_theirs(theirs, tagged)
    assert len(set(map(len, beam))) > (0 if "tied" in name else 2), "some end, and some reach the maximum length"
    early = {"early_stopping": True, "length_penalty": 0.7, "num_return_sequences": 3}
    listed = write_ours(translator, lines, language, stopping="count", alpha=0.7, n_best=3)
    assert listed == write_theirs(theirs, tagged, **early)


def test_outputs_are_those_of_generate(pair: tuple[str, Path, Path]) -> None:
    check(pair, QUICK)


@pytest.mark.slow
def test_two_hundred_outputs_are_those_of_generate(pair: tuple[str, Path, Path]) -> None:
    check(pair, 200)


def test_marian_runs_natively_in_int8(tmp_path: Path) -> None:
    """With SiLU, and with the search of its generation config: the same as torch's int8 search, to the bit."""
    save_marian(tmp_path / "theirs")
    plan_import(str(tmp_path / "theirs"), ImportOptions()).write(tmp_path / "ours")
    by_native, by_torch = (
        load_translator(tmp_path / "ours", device="cpu", compute="int8", engine=name) for name in ("auto", "torch")
    )
    search = by_native.search()
    assert (search.stopping, search.force_end, search.renormalise) == ("score", True, True)
    own, theirs = by_native.engines.choose(search), by_torch.engines.choose(search)
    if native.load_library() is not None:
        assert (own.name, theirs.name) == ("native", "torch")
    direction = by_native.direction_tokens()
    rows = [direction.wrap_source(ids) for ids in by_native.tokenizers.source.encode_batch(make_lines(60, seed=4))]
    for settings in ({}, {"n_best": 4}, {"beam_size": 1}, {"beam_size": 2, "stopping": "count"}, {"max_length": 3}):
        search = by_native.search(**settings)
        found = own.search(rows, search)
        assert found == theirs.search(rows, search), settings
        assert len({tuple(row[0].ids) for row in found}) > 10


def test_ids_are_the_originals(pair: tuple[str, Path, Path]) -> None:
    name, theirs, ours = pair
    original, own = AutoTokenizer.from_pretrained(theirs), Tokenizers.load(ours / "tokenizer.json")
    lines = [*make_lines(50), "Grüße ☃  und ", "", " a", "ﬁne １２ Ⅷ\u00a0x", "a\tb", "«x» — “y”…"]
    for line in lines:
        assert [*own.source.encode(line), own.source.end] == original(line).input_ids
        assert [*own.target.encode(line), own.target.end] == original(text_target=line).input_ids
    loaded = load_model(ours)
    texts = ["the dog sees a cat", "small bird"]
    for text in texts:
        ids = own.target.encode(text)
        assert own.target.decode(ids) == original.decode(ids, skip_special_tokens=True) == text
    languages = ("fra", "deu") if "tags" in name else ("de",) if "Marian" in name else ("de", "fr")
    assert loaded.config.target_languages == (languages if "Marian" in name or "MADLAD" in name else ())
