"""M2M100, NLLB, mBART, mBART-50 and BART: logits, greedy and beam ids of the original; languages by --from and --to."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from convert.multilingual import CODES, FAMILIES, NLLB_CODES, Original, make_original
from convert.translators import make_lines
from headway.convert.architecture import ConversionError
from headway.convert.options import ImportOptions
from headway.convert.readings import choose_reading
from headway.convert.source import plan_import
from headway.convert.tensor_rules import read_tensor, write_tensor
from headway.errors import ConfigError
from headway.storage.model_dir import load_model
from headway.translate.options import TranslateOptions
from headway.translate.translator import Translator, load_translator


@pytest.fixture(scope="module")
def originals(tmp_path_factory: Any) -> dict[str, Original]:
    found = {family: make_original(family, tmp_path_factory.mktemp(family)) for family in FAMILIES}
    found["NLLB, scaled"] = make_original("NLLB", tmp_path_factory.mktemp("scaled"), scale_embedding=True)
    return found


@pytest.fixture(scope="module")
def imported(originals: dict[str, Original], tmp_path_factory: Any) -> dict[str, Path]:
    folders = {}
    for family, original in originals.items():
        folders[family] = tmp_path_factory.mktemp("imported") / family
        plan_import(str(original.folder), ImportOptions()).write(folders[family])
    return folders


@torch.no_grad()
@pytest.mark.parametrize("family", [*FAMILIES, "NLLB, scaled"])
def test_logits(family: str, originals: dict[str, Original], imported: dict[str, Path]) -> None:
    theirs, ours = originals[family].model, load_model(imported[family]).model
    source = torch.randint(3, 60, (4, 13))
    valid = torch.arange(13) < torch.tensor([[13], [1], [7], [12]])
    source[~valid] = 1
    target = torch.randint(3, 60, (4, 11))
    wanted = theirs(input_ids=source, attention_mask=valid.long(), decoder_input_ids=target).logits
    assert wanted.std() > 0.5
    found = ours.logits(ours(source, target, valid).hidden)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def check_generate(original: Original, translator: Translator, lines: list[str], beam: int) -> None:
    code = CODES[original.family][0]
    rows = [original.encode(line, code) for line in lines]
    settings = {"num_beams": beam, "max_new_tokens": 24, "min_new_tokens": 6, "early_stopping": beam > 1}
    wanted = original.generate(rows, translator.special_tokens.suppress, **settings)
    rules = {"stopping": "count", "force_end": False}
    search = translator.search(beam_size=beam, penalty="power", alpha=1.0, max_length=24, min_length=7, **rules)
    languages = {} if original.family == "BART" else {"source": "en", "target": "de"}
    options = TranslateOptions(**languages, search=search, retry=False, protect=None, split_sentences=False)
    lead = [] if original.forced is None else [original.forced]
    found = [[*lead, *made.guesses[0].tokens] for made in translator.translate(lines, options)]
    pad = translator.special_tokens.pad  # which may be produced, and which `generate` fills its rows with
    assert [[n for n in ids if n != pad] for ids in found] == wanted
    assert len({len(ids) for ids in found}) > 1 and len({tuple(ids) for ids in found}) > 4


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("beam", [1, 4])
def test_greedy_and_beam(family: str, beam: int, originals: dict[str, Original], imported: dict[str, Path]) -> None:
    translator = load_translator(imported[family], device="cpu", engine="torch", compute="float32")
    check_generate(originals[family], translator, make_lines(24, seed=beam), beam)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("beam", [1, 4])
def test_greedy_and_beam_of_200(
    family: str, beam: int, originals: dict[str, Original], imported: dict[str, Path]
) -> None:
    translator = load_translator(imported[family], device="cpu", engine="torch", compute="float32")
    check_generate(originals[family], translator, make_lines(200, seed=10 + beam), beam)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_rules_lose_nothing(family: str, originals: dict[str, Original]) -> None:
    folder = originals[family].folder
    plan = plan_import(str(folder), ImportOptions())
    architecture, weights = choose_reading(plan.architecture, plan.weights)
    for rule in architecture.rules:
        theirs = weights.read(rule.theirs)
        assert torch.equal(write_tensor([rule], [read_tensor(rule, theirs)]), theirs), rule.theirs


TEXTS = [
    *make_lines(40, seed=2),
    "the  dog\tsees",
    " a cat ",
    "Ｔｈｅ ｄｏｇ sees ﬁre",
    "the ☃ sees 你好, Grüße!",
    "",
    "a\u00a0cat\u200b…",
]


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_are_those_of_the_original(family: str, originals: dict[str, Original], imported: dict[str, Path]) -> None:
    translator = load_translator(imported[family])
    original = originals[family]
    for source, target in (("en", "de"), ("de", "en"), ("fr", "de")):
        if family == "BART":
            source = target = ""
        elif family == "mBART" and target != "de":
            continue
        code = {"en": CODES[family][0], "de": CODES[family][1], "fr": FRENCH[family], "": None}[source]
        direction = translator.direction_tokens(source, target)
        for text in TEXTS:
            assert direction.wrap_source(translator.tokenizers.source.encode(text)) == original.encode(text, code), text


FRENCH = {"NLLB": "fra_Latn", "M2M100": "fr", "mBART-50": "fr_XX", "mBART": "fr_XX", "BART": None}


def test_languages_by_their_shortest_codes(imported: dict[str, Path], originals: dict[str, Original]) -> None:
    nllb = load_translator(imported["NLLB"]).summary
    assert nllb.source_languages == nllb.target_languages
    assert nllb.source_languages == ("ace-Arab", "ace-Latn", "en", "de", "fr", "zh-Hans", "zh-Hant")
    assert len(load_translator(imported["M2M100"]).summary.target_languages) == 100
    assert len(load_translator(imported["mBART-50"]).summary.source_languages) == 52
    mbart = load_translator(imported["mBART"])
    assert mbart.summary.target_languages == ("de",) and len(mbart.summary.source_languages) == 24
    assert mbart.tokenizers.target.start == originals["mBART"].tokenizer.convert_tokens_to_ids("de_DE")
    assert load_translator(imported["BART"]).summary.target_languages == ()
    with pytest.raises(ConfigError, match='"zh" may be zh-Hans or zh-Hant: say which with --to'):
        load_translator(imported["NLLB"], source="en", target="zh")
    assert load_translator(imported["NLLB"], source="eng_Latn", target="zh_TW").target == "zh-Hant"


def plan(folder: Path) -> Any:
    return plan_import(str(folder), ImportOptions())


def change_json(path: Path, **changes: Any) -> None:
    table = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({name: value for name, value in {**table, **changes}.items() if value != "gone"}))


@pytest.mark.parametrize("family", ["NLLB", "mBART-50", "mBART"])
def test_files_without_tokenizer_json(family: str, originals: dict[str, Original], tmp_path: Path) -> None:
    """As the first versions were published: sentencepiece, and the languages in special_tokens_map.json, or nowhere."""
    original = originals[family]
    shutil.copytree(original.folder, tmp_path / "old")
    (tmp_path / "old" / "tokenizer.json").unlink()
    shutil.copy(original.folder.parent / "pieces" / "sentencepiece.bpe.model", tmp_path / "old")
    change_json(tmp_path / "old" / "tokenizer_config.json", extra_special_tokens="gone", tokenizer_class="gone")
    codes = NLLB_CODES if family == "NLLB" else []
    if family == "NLLB":
        with pytest.raises(ConversionError, match="no language tokens in its tokenizer files, as NLLB models have"):
            plan(tmp_path / "old")
        change_json(tmp_path / "old" / "special_tokens_map.json", additional_special_tokens=codes)
    elif family == "mBART-50":
        change_json(tmp_path / "old" / "tokenizer_config.json", tokenizer_class="MBart50Tokenizer")
    made = plan(tmp_path / "old").tokenizers.source
    again = plan(original.folder).tokenizers.source
    if family != "NLLB":  # whose files here have the mask before the languages, as no published one has
        assert made.source_prefix == again.source_prefix and made.source_suffix == again.source_suffix
    assert made.encode("the dog sees ☃") == again.encode("the dog sees ☃")


def test_what_a_directory_must_say(originals: dict[str, Original], tmp_path: Path) -> None:
    shutil.copytree(originals["mBART"].folder, tmp_path / "cc25")
    for name in ("config.json", "generation_config.json"):
        change_json(tmp_path / "cc25" / name, decoder_start_token_id=2)
    with pytest.raises(ConversionError, match="which language this mBART model writes: decoder_start_token_id = 2 is"):
        plan(tmp_path / "cc25")
    shutil.copytree(originals["mBART-50"].folder, tmp_path / "one")
    english = originals["mBART-50"].tokenizer.convert_tokens_to_ids("en_XX")
    change_json(tmp_path / "one" / "generation_config.json", forced_bos_token_id=english)
    assert plan(tmp_path / "one").target_languages == ("en",) and "en" not in plan(tmp_path / "one").source_languages
    shutil.copytree(originals["NLLB"].folder, tmp_path / "legacy")
    change_json(tmp_path / "legacy" / "tokenizer_config.json", legacy_behaviour=True)
    suffix = plan(tmp_path / "legacy").tokenizers.source
    assert suffix.source_suffix["en"] == suffix.target_prefix["en"] and not suffix.source_prefix
    shutil.copytree(originals["M2M100"].folder, tmp_path / "wmt21")
    change_json(tmp_path / "wmt21" / "tokenizer_config.json", language_codes="wmt21")
    assert plan(tmp_path / "wmt21").target_languages == ("en", "ha", "is", "ja", "cs", "ru", "zh", "de")
    change_json(tmp_path / "wmt21" / "config.json", pad_token_id="one")
    with pytest.raises(ConversionError, match="pad_token_id = 'one' in its config.json is not an id"):
        plan(tmp_path / "wmt21")
    change_json(tmp_path / "wmt21" / "config.json", model_type="nllb-moe")
    with pytest.raises(ConversionError, match="nllb-moe models cannot be imported"):
        plan(tmp_path / "wmt21")
