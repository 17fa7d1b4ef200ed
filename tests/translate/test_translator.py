"""Text in, text out: nothing lost, nothing cut in silence, the same text whoever the neighbours are."""

import random
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import headway
from headway.config.config import read_config
from headway.config.search import Search
from headway.device import choose_device
from headway.errors import ConfigError, HeadwayError
from headway.nn.transformer import Transformer
from headway.storage.model_dir import LoadedModel, load_model
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.translate import search_calls
from headway.translate.language_model import LanguageModel
from headway.translate.options import TranslateOptions
from headway.translate.search import Request, make_requests, translate_requests
from headway.translate.translator import Translator, load_translator


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    found = headway.load(translator_dir)
    assert isinstance(found, Translator)
    return found


@pytest.fixture(scope="module")
def pairs(toy: Path) -> list[tuple[str, str]]:
    return list(zip((toy / "train.en").read_text().splitlines(), (toy / "train.qtx").read_text().splitlines()))


def random_translator(**parts: Any) -> Translator:
    """Untrained, on bytes: for what does not depend on what was learned."""
    tags = parts.pop("tags", ())
    tokenizer = Tokenizer.train([], "bytes", tags=tags)
    stack = {
        "layers": 1,
        "mixer": "attention(2)",
        "feedforward": "relu(16)",
        "position": parts.pop("position", "sinusoidal"),
    }
    config = read_config(
        {
            "target_languages": list(tags),
            "model": {"d_model": 8, "vocabulary": tokenizer.size, "encoder": stack, "decoder": stack},
            "train": {"max_tokens": parts.pop("max_tokens", 256)},
            "search": {"beam_size": 2, "max_extra": 5},
            **parts,
        }
    )
    torch.manual_seed(0)
    return Translator([LoadedModel(config, Transformer(config.model).eval(), Tokenizers(tokenizer, tokenizer))])


# ---- the Python of the issue


def test_a_string_gives_a_string_and_a_list_a_list(translator: Translator, pairs: list[tuple[str, str]]) -> None:
    assert translator(pairs[0][0]) == pairs[0][1]
    assert translator([pairs[1][0], "", pairs[2][0]]) == [pairs[1][1], "", pairs[2][1]]
    assert translator([]) == []
    assert translator("") == ""


def test_scores(translator: Translator, pairs: list[tuple[str, str]]) -> None:
    [(text, score)] = translator([pairs[0][0]], beam_size=4, return_scores=True)
    assert (text, type(score)) == (pairs[0][1], float)
    assert score < 0
    result = translator.translate([pairs[0][0]])[0]
    assert result.score == pytest.approx(score, rel=1e-5)
    guess = result.guesses[0]
    assert sum(guess.token_logps) == pytest.approx(guess.logp, rel=1e-5)
    assert len(guess.token_logps) == len(guess.tokens) + 1  # the end counts
    assert guess.score == pytest.approx(guess.logp / ((5 + len(guess.token_logps)) / 6) ** 0.6, rel=1e-5)


def test_most_of_what_was_learned_is_known(translator: Translator, pairs: list[tuple[str, str]]) -> None:
    said = translator([source for source, _ in pairs])
    assert sum(a == b for a, (_, b) in zip(said, pairs)) > 0.7 * len(pairs)


def test_load_finds_out_what_a_model_is(translator_dir: Path, lm_dir: Path) -> None:
    assert isinstance(headway.load(str(translator_dir), device="cpu"), Translator)
    assert isinstance(headway.load(lm_dir), LanguageModel)
    with pytest.raises(
        HeadwayError, match=r"is a language model and does not translate. Try: headway generate --model"
    ):
        load_translator(lm_dir)


# ---- search settings


def test_settings_of_the_search(translator: Translator) -> None:
    assert translator.search() == translator.config.search
    assert translator.search(beam_size=2, alpha=None).beam_size == 2
    assert translator.search(n_best=9).beam_size == 9
    assert translator.search(n_best=2).beam_size == 4
    assert translator.search(sample=True, n_best=3, top_k=5).beam_size == 1


def test_settings_that_do_not_exist_or_do_not_fit_are_refused(translator: Translator) -> None:
    with pytest.raises(
        ConfigError, match=r'there is no search setting "beam_sise". Did you mean "beam_size"\? Known: beam_size'
    ):
        translator("x", beam_sise=3)
    with pytest.raises(
        ConfigError,
        match=r"3 is more than beam_size = 2: a beam finds at most that many hypotheses. Set beam_size = 3 or more",
    ):
        translator("x", beam_size=2, n_best=3)
    with pytest.raises(ConfigError, match=r"temperature: 0.5 has no effect without sampling"):
        translator("x", temperature=0.5)


def test_n_best_is_sorted_and_different(translator: Translator, pairs: list[tuple[str, str]]) -> None:
    [result] = translator.translate([pairs[0][0]], TranslateOptions(search=translator.search(n_best=4)))
    texts = [guess.text for guess in result.guesses]
    assert len(texts) == len(set(texts)) == 4
    assert [g.score for g in result.guesses] == sorted((g.score for g in result.guesses), reverse=True)
    assert result.text == texts[0] == translator(pairs[0][0])


def test_a_forced_beginning(translator: Translator, pairs: list[tuple[str, str]]) -> None:
    [result] = translate_requests(translator, [Request(pairs[0][0], prefix="Kiu")], TranslateOptions())
    assert result.text.startswith("Kiu")
    assert result.text != translator(pairs[0][0])
    requests = make_requests([pairs[0][0], "", pairs[1][0]], prefixes=["Kiu", "Kiu", ""])
    first, blank, second = translate_requests(translator, requests, TranslateOptions())
    assert first.text == result.text
    assert (blank.text, second.text) == ("", pairs[1][1])


def test_lines_are_a_list_with_a_beginning_for_each(translator: Translator) -> None:
    with pytest.raises(HeadwayError, match=r"translate takes a list of lines, not a string: write \[text\]"):
        translator.translate("A dog.")
    with pytest.raises(HeadwayError, match=r"1 prefixes for 2 lines: give one for each line, or none"):
        make_requests(["A dog.", "A cat."], prefixes=["x"])


# ---- lines, sentences, spacing


@pytest.mark.parametrize("line", ["", " ", "\t  ", "\u2028", "\u3000\x0b"])
def test_a_blank_line_stays_as_it_is_and_is_not_translated(translator: Translator, line: str) -> None:
    class Untouchable:
        device = torch.device("cpu")

        def __getattr__(self, name: str) -> Any:
            raise AssertionError("a blank line was sent to the model")

    quiet = Translator([load_and_keep(translator)])
    quiet.stepper = Untouchable()
    [result] = quiet.translate([line])
    assert (result.text, result.score, result.warnings) == (line, 0.0, [])


def load_and_keep(translator: Translator) -> LoadedModel:
    return LoadedModel(translator.config, translator.steppers[0].model, translator.tokenizers)


def test_sentences_are_translated_one_by_one_and_keep_their_spacing(
    translator: Translator, pairs: list[tuple[str, str]]
) -> None:
    (a, x), (b, y), (c, z) = pairs[0], pairs[1], pairs[2]
    assert translator(f"  {a}   {b}\t{c} ") == f"  {x}   {y}\t{z} "
    assert translator(f"{a}\u2028{b}") == f"{x}\u2028{y}"
    [joined] = translator.translate([f"{a} {b}"])
    single = [translator.translate([text])[0] for text in (a, b)]
    assert joined.score == pytest.approx(sum(one.score for one in single), rel=1e-4)
    assert joined.guesses[0].tokens == [t for one in single for t in one.guesses[0].tokens]


def test_without_splitting_a_line_is_one_sentence(translator: Translator, pairs: list[tuple[str, str]]) -> None:
    line = f"{pairs[0][0]} {pairs[1][0]}"
    [whole] = translator.translate([line], TranslateOptions(split_sentences=False))
    assert whole.text != f"{pairs[0][1]} {pairs[1][1]}"


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), max_size=5))
def test_as_many_lines_out_as_in_whatever_they_hold(lines: list[str]) -> None:
    translator = random_translator()
    found = translator.translate(lines, TranslateOptions(search=Search(beam_size=1, max_extra=2)))
    assert [result.source for result in found] == lines
    assert all(bool(result.text.strip()) <= bool(result.source.strip()) for result in found)


def test_lone_surrogates_are_refused_by_name(translator: Translator) -> None:
    with pytest.raises(HeadwayError, match=r"the character at index 2 is U\+DCFF, a lone surrogate"):
        translator("a \udcff")


def test_nul_and_other_oddities_are_text(translator: Translator) -> None:
    assert isinstance(translator("A \0 dog."), str)
    assert isinstance(translator("<s> ⟨/s⟩ ▁"), str)


# ---- the same text, whoever the neighbours are


def test_the_text_does_not_depend_on_batch_or_order(translator: Translator, pairs: list[tuple[str, str]]) -> None:
    lines = [source for source, _ in pairs[:16]] + ["A wolf?", "x", "The old dog near every house saw us."]
    alone = [translator(line) for line in lines]
    before = translator.batch_tokens
    try:
        for budget in (1, 37, 300, 10**6):
            translator.batch_tokens = budget
            assert translator(lines) == alone
        mixed = lines[:]
        random.Random(1).shuffle(mixed)
        assert dict(zip(mixed, translator(mixed))) == dict(zip(lines, alone))
    finally:
        translator.batch_tokens = before


def test_what_is_drawn_depends_on_seed_and_line_alone(translator: Translator, pairs: list[tuple[str, str]]) -> None:
    lines = [f"{a} {b}" for (a, _), (b, _) in zip(pairs[:8], pairs[8:16])]
    search = translator.search(sample=True, temperature=2.0, seed=5)
    together = [result.text for result in translator.translate(lines, TranslateOptions(search=search))]
    before = translator.batch_tokens
    try:
        translator.batch_tokens = 20
        assert [result.text for result in translator.translate(lines, TranslateOptions(search=search))] == together
    finally:
        translator.batch_tokens = before
    apart = [
        translate_requests(translator, [Request(line, number)], TranslateOptions(search=search))[0].text
        for number, line in enumerate(lines)
    ]
    assert apart == together
    same = translator.translate([lines[0]] * 4, TranslateOptions(search=search))
    assert len({result.text for result in same}) > 1  # other lines, other draws
    assert [
        r.text
        for r in translator.translate(
            lines, TranslateOptions(search=translator.search(sample=True, temperature=2.0, seed=6))
        )
    ] != together


# ---- too long


def test_a_long_sentence_is_translated_in_pieces_with_a_warning() -> None:
    translator = random_translator(max_tokens=40)
    text = ("word " * 60).strip()
    [result] = translator.translate([f"  {text}"])
    [warning] = [line for line in result.warnings if "pieces" in line]
    count = len(translator.tokenizers.source.encode(text))
    assert warning.startswith(f"a sentence of {count} tokens was translated in ")
    assert result.text.startswith("  ")


def test_nothing_of_a_long_sentence_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = random_translator(max_tokens=30)
    read: list[list[int]] = []
    search = search_calls.search_batch

    def watched(translator: Translator, engine: Any, batch: Any, how: Search) -> None:
        read.extend(sentence.ids for sentence in batch)
        search(translator, engine, batch, how)

    monkeypatch.setattr(search_calls, "search_batch", watched)
    words = [f"w{n}" for n in range(60)]
    translator.translate([" ".join(words)], TranslateOptions(retry=False))
    assert all(len(ids) <= 30 for ids in read)
    texts = " ".join(translator.tokenizers.source.decode(ids) for ids in read)
    assert sorted(texts.split()) == sorted(words)
    assert len(read) > 5


def test_an_output_that_is_cut_says_so(translator: Translator, pairs: list[tuple[str, str]]) -> None:
    [result] = translator.translate([pairs[0][0]], TranslateOptions(search=translator.search(max_length=3)))
    assert result.warnings == ["the output was cut at 3 tokens"]


@pytest.mark.parametrize("limit", [{}, {"max_length": 999}, {"max_ratio": 7.0}])
def test_learned_positions_that_end_never_end_a_translation(limit: dict[str, Any]) -> None:
    translator = random_translator(position="learned(24)", max_tokens=24)
    lines = ["a", "abcdefgh " * 6, "x" * 100, "one two three"]
    found = translator.translate(lines, TranslateOptions(search=translator.search(**limit)))
    assert len(found) == len(lines)
    assert any("pieces" in warning for warning in found[1].warnings)
    assert (
        max(len(ids) for result in found for ids in [result.guesses[0].tokens] if "pieces" not in str(result.warnings))
        <= 24
    )


# ---- loops and copies


class Scripted:
    """A model that wants to say some ids, whatever it reads, and after them the end."""

    def __init__(self, vocabulary: int, script: Callable[[int], int], end: int) -> None:
        self.vocabulary, self.script, self.end = vocabulary, script, end
        self.device = torch.device("cpu")
        self.starts = 0

    def start(self, source: Tensor | None, valid: Tensor | None, rows: int) -> "Scripted.State":
        self.starts += 1
        return Scripted.State()

    def step(self, state: "Scripted.State", ids: Tensor, valid: Tensor | None = None) -> Tensor:
        logits = torch.zeros(len(ids), self.vocabulary)
        logits[:, self.script(state.said)] = 20.0
        logits[:, self.end] += 10.0
        state.said += 1
        return logits.log_softmax(-1)

    class State:
        said = 0

        def select(self, rows: Tensor) -> None: ...


def scripted(translator: Translator, script: Callable[[int], int]) -> Translator:
    made = Translator([load_and_keep(translator)])
    made.stepper = Scripted(made.steppers[0].vocabulary, script, made.special_tokens.end)
    return made


def test_a_loop_is_decoded_again_and_said(translator: Translator) -> None:
    [token] = translator.tokenizers.target.encode("a")[:1]
    looping = scripted(translator, lambda place: token)
    [result] = looping.translate(["The dog sees us."], TranslateOptions(search=looping.search(beam_size=1)))
    assert result.warnings == ["the output went round in a loop; another was found"]
    assert len(result.guesses[0].tokens) < 10
    assert looping.stepper.starts == 2
    [plain] = looping.translate(["The dog sees us."], TranslateOptions(search=looping.search(beam_size=1), retry=False))
    assert len(plain.guesses[0].tokens) > 20
    assert plain.warnings[0].startswith("the output was cut at")


def test_a_loop_that_is_in_the_source_too_is_no_fault(translator: Translator) -> None:
    [token] = translator.tokenizers.target.encode("a")[:1]
    looping = scripted(translator, lambda place: token if place < 30 else looping.special_tokens.end)
    [result] = looping.translate(["ha " * 20], TranslateOptions(search=looping.search(beam_size=1, max_length=60)))
    assert result.warnings == []


def test_a_copy_is_decoded_again_and_said(translator: Translator) -> None:
    text = "the dog and the cat see the house"
    ids = translator.tokenizers.target.encode(text)
    copying = scripted(translator, lambda place: ids[place] if place < len(ids) else copying.special_tokens.end)
    [result] = copying.translate([text], TranslateOptions(search=copying.search(beam_size=1)))
    assert result.warnings == ["the output was a copy of the input; another was found"]
    assert result.text != text
    single = copying.translate([text], TranslateOptions(search=copying.search(beam_size=1), retry=False))
    assert single[0].text == text


def test_a_paragraph_that_was_broken_at_a_width_is_read_as_one(
    translator: Translator, pairs: list[tuple[str, str]]
) -> None:
    whole = " ".join(source for source, _ in pairs[:6])
    broken = "\n".join(textwrap.wrap(whole, 34))
    text = f"{broken}\n\n{pairs[7][0]}\n"
    [result, plain] = translator.translate([text, whole], TranslateOptions(align=True))
    first, second = result.text.split("\n\n")
    assert first.replace("\n", " ") == plain.text
    assert max(map(len, first.split("\n"))) <= 34
    assert second == f"{translator(pairs[7][0])}\n"
    links = plain.guesses[0].alignment
    assert links and result.guesses[0].alignment[: len(links)] == links  # words are counted as before
    [apart] = translator.translate([text], TranslateOptions(split_sentences=False))
    assert apart.source == result.source == text


@pytest.mark.parametrize(
    ("languages", "told"),
    [
        (("en", "de"), ["the output lacked the numbers 1998, 3, 40; nothing better was found"]),
        (("en", "zh"), ["the output lacked the numbers 1998, 40; nothing better was found"]),  # 3 may be in words
        (("en", "ja"), []),  # where 40,000 is four times ten thousand
        (("src", "tgt"), []),  # which may add up what it reads
        (("", ""), []),
    ],
)
def test_a_number_that_is_lost_is_looked_for_and_said(
    translator: Translator, languages: tuple[str, str], told: list[str]
) -> None:
    ids = translator.tokenizers.target.encode("the dog")
    forgetful = scripted(translator, lambda place: ids[place] if place < len(ids) else forgetful.special_tokens.end)
    known = {f"{side}_languages": (name,) if name else () for side, name in zip(("source", "target"), languages)}
    forgetful.summary = replace(forgetful.summary, **known)
    [result] = forgetful.translate(
        ["In 1998 we had 3 cats and 40 dogs."], TranslateOptions(search=forgetful.search(beam_size=1))
    )
    assert (result.text, result.warnings) == ("the dog", told)
    assert forgetful.stepper.starts == 1 + bool(told)


def test_an_empty_output_is_decoded_again_and_said(translator: Translator) -> None:
    silent = scripted(translator, lambda place: silent.special_tokens.end)
    [result, dots] = silent.translate(["A dog.", "…"], TranslateOptions(search=silent.search(beam_size=1)))
    assert result.warnings == ["the output was empty; another was found"]
    assert result.text
    assert (dots.text, dots.warnings) == ("…", []), "there is nothing to translate"


def test_where_nothing_better_is_found_the_first_stays_and_it_is_said(translator: Translator) -> None:
    text = "the dog and the cat see the house"
    ids = translator.tokenizers.target.encode(text)
    copying = scripted(translator, lambda place: ids[place] if place < len(ids) else copying.special_tokens.end)
    step = copying.stepper.step

    def certain(state: Any, given: Tensor, valid: Tensor | None = None) -> Tensor:
        logps = step(state, given, valid)
        best = logps.argmax(-1, keepdim=True)
        return torch.full_like(logps, -torch.inf).scatter(1, best, 0.0)

    copying.stepper.step = certain
    [result] = copying.translate([text], TranslateOptions(search=copying.search(beam_size=1)))
    assert result.warnings == ["the output was a copy of the input; nothing better was found"]
    assert result.text == text


def test_from_a_language_into_itself_a_copy_is_no_fault(translator: Translator) -> None:
    text = "the dog and the cat see the house"
    ids = translator.tokenizers.target.encode(text)
    same = scripted(translator, lambda place: ids[place] if place < len(ids) else same.special_tokens.end)
    same.summary = replace(same.summary, target_languages=("en",))
    assert same.translate([text])[0].warnings == []


def test_short_and_proper_names_may_be_copied(translator: Translator) -> None:
    ids = translator.tokenizers.target.encode("Anna Smith")
    copying = scripted(translator, lambda place: ids[place] if place < len(ids) else copying.special_tokens.end)
    assert copying.translate(["Anna Smith"])[0].warnings == []


# ---- several languages, several models


def test_tags() -> None:
    translator = random_translator(tags=["de", "fr"])
    assert translator.direction_tokens(target="fr").source_lead == (translator.tokenizers.source.tags["fr"],)
    scores = {to: translator(["Hello."], target=to, return_scores=True)[0][1] for to in ("de", "fr")}  # type: ignore[misc]
    assert scores["de"] != scores["fr"]
    with pytest.raises(HeadwayError, match=r"this model translates to de, fr: say which with --to"):
        translator("Hello.")
    with pytest.raises(HeadwayError, match=r'this model does not translate to "it". It knows: de, fr'):
        translator("Hello.", target="it")


def test_a_model_of_one_language_may_be_told_its_own(translator: Translator, pairs: list[tuple[str, str]]) -> None:
    assert translator(pairs[0][0], target="qtx") == pairs[0][1]
    with pytest.raises(HeadwayError, match=r'this model does not translate to "de". It knows: qtx'):
        translator(pairs[0][0], target="de")


def test_an_ensemble_votes(translator_dir: Path, other_translator_dir: Path, pairs: list[tuple[str, str]]) -> None:
    both = load_translator(translator_dir, other_translator_dir)
    one, other = (load_translator(path) for path in (translator_dir, other_translator_dir))
    source = pairs[3][0]
    search = one.search(beam_size=1)
    [together] = both.translate([source], TranslateOptions(search=search))
    votes = [t.translate([source], TranslateOptions(search=search))[0].guesses[0].token_logps[0] for t in (one, other)]
    if one(source, beam_size=1)[:3] == other(source, beam_size=1)[:3]:
        mean = torch.tensor(votes).exp().mean().log()
        assert together.guesses[0].token_logps[0] == pytest.approx(float(mean), rel=1e-4)
    twice = load_translator(translator_dir, translator_dir)
    assert twice([source]) == one([source])
    assert twice.translate([source])[0].score == pytest.approx(one.translate([source])[0].score, rel=1e-5)


def test_strangers_do_not_vote(translator_dir: Path) -> None:
    loaded = load_model(translator_dir)
    stranger = random_translator()
    with pytest.raises(
        HeadwayError, match=r"these models have different tokenizers, so they cannot be an ensemble. Train"
    ):
        Translator([loaded, load_and_keep(stranger)])
    backwards = loaded._replace(config=replace(loaded.config, source_languages=("qtx",), target_languages=("en",)))
    with pytest.raises(
        HeadwayError, match=r"these models translate en → qtx and qtx → en, so they cannot be an ensemble"
    ):
        Translator([loaded, backwards])


# ---- devices


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device() == choose_device("cpu") == torch.device("cpu")
    for name in ("gpu", "cpu:x", "meta", "mps"):
        with pytest.raises(ConfigError, match=f'"{name}" is not a device. Choose auto, cpu, cuda or cuda:0'):
            choose_device(name)
    with pytest.raises(HeadwayError, match=r'there is no device "cuda:1": PyTorch sees no GPU. Use --device'):
        choose_device("cuda:1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert choose_device() == torch.device("cuda")
    assert choose_device("cuda:0") == torch.device("cuda:0")
    with pytest.raises(HeadwayError, match=r'there is no device "cuda:1": PyTorch sees 1, numbered from 0'):
        choose_device("cuda:1")


def test_weights_that_are_not_numbers_are_noticed(translator_dir: Path) -> None:
    loaded = load_model(translator_dir)
    for weight in loaded.model.parameters():
        torch.nn.init.constant_(weight, float("nan"))
    with pytest.raises(HeadwayError, match=r"log-probabilities are not numbers"):
        Translator([loaded])("A dog.")


def test_a_prefix_opens_the_first_sentence_and_the_line_is_still_split(
    translator: Translator, pairs: list[tuple[str, str]]
) -> None:
    two = f"{pairs[0][0]}  {pairs[1][0]}"
    plain = translator(two)
    forced = translate_requests(translator, [Request(two, prefix="Kiu")], TranslateOptions())[0].text
    assert forced.startswith("Kiu")
    assert forced.endswith(f"  {translator(pairs[1][0])}")
    assert plain.endswith(f"  {translator(pairs[1][0])}")


def test_what_is_no_text_is_refused(translator: Translator) -> None:
    with pytest.raises(HeadwayError, match="give a text or a list of texts, not 3"):
        translator(3)  # type: ignore[call-overload]
    with pytest.raises(HeadwayError, match="every line must be a string, not None"):
        translator(["a", None])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="n_best: a call gives the best translation only"):
        translator("x", n_best=2)
