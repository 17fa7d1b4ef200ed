"""A model whose outputs begin with the token of their language: nobody sees it, and everything else counts with it."""

import pytest
import torch
from language_tokens import DE, EN, END, LANGUAGES, PAD, make_language_model

from headway.decode.dispatch import decode
from headway.decode.padding import pad_rows
from headway.errors import ConfigError, HeadwayError
from headway.text.tokenizer.special_tokens import special_tokens
from headway.translate.alignment import align_ids, read_source_attention
from headway.translate.options import TranslateOptions
from headway.translate.search import make_requests, translate_requests
from headway.translate.source import Sentence
from headway.translate.translator import Translator

TO_GERMAN = TranslateOptions(source="en", target="de", protect=None, retry=False)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator([make_language_model()])


def test_a_search_begins_with_the_language(translator: Translator) -> None:
    texts = ["a dog", "two cats run", "x"]
    found = translator.translate(texts, TO_GERMAN)
    rows = [[EN, *translator.tokenizers.source.encode(text), END] for text in texts]
    ids, valid = pad_rows(rows, PAD, translator.stepper.device)
    expected = decode(
        translator.stepper,
        ids,
        valid,
        special_tokens=special_tokens(translator.tokenizers.target),
        search=translator.search(),
        prefixes=[[DE]] * 3,
    )
    for translation, hypotheses in zip(found, expected):
        assert [DE, *translation.guesses[0].tokens] == hypotheses[0].ids
        assert translation.score == hypotheses[0].score == hypotheses[0].logp / (len(hypotheses[0].token_logps) + 1)
        assert translation.text == translator.tokenizers.target.decode(hypotheses[0].ids).strip()
    other = translator.translate(texts, TranslateOptions(source="de", target="en", protect=None, retry=False))
    assert [one.guesses[0].tokens for one in other] != [one.guesses[0].tokens for one in found]


def test_a_prefix_comes_after_it(translator: Translator) -> None:
    (made,) = translate_requests(translator, make_requests(["a dog"], prefixes=["Ein"]), TO_GERMAN)
    assert made.text.startswith("Ein")
    assert made.guesses[0].tokens[:3] == translator.tokenizers.target.encode("Ein")
    assert DE not in made.guesses[0].tokens


def test_retries_are_not_switched_off(translator: Translator) -> None:
    options = TranslateOptions(source="en", target="de", protect=None)
    warnings = [translator.translate([f"a dog {n} 4711"], options)[0].warnings for n in range(3)]
    assert all(any("found" in warning for warning in own) for own in warnings), warnings
    assert Sentence("", "a", [], 0, direction=translator.direction_tokens("en", "de")).prefix == ""


@torch.no_grad()
def test_scoring_reads_the_language_first(translator: Translator) -> None:
    (scored,) = translator.score([("a dog", "ein Hund")], target="de", source="en")
    writer = translator.tokenizers.target
    target = [*writer.encode("ein Hund"), END]
    assert scored.tokens == target
    model = translator.steppers[0].model
    memory = model.encode(torch.tensor([[EN, *writer.encode("a dog"), END]]))
    hidden = model.decode(torch.tensor([[END, DE, *target[:-1]]]), memory=memory)
    logps = model.logits(hidden)[0].log_softmax(-1)[1:]
    expected = logps[torch.arange(len(target)), torch.tensor(target)]
    assert scored.token_logps == pytest.approx(expected.tolist(), abs=1e-5)
    assert scored.score == pytest.approx(scored.logp / (len(target) + 1))
    assert translator.score([("a dog", "ein Hund")], target="en", source="de")[0].logp != scored.logp


def test_alignment_counts_the_words_of_the_texts(translator: Translator) -> None:
    direction = translator.direction_tokens("en", "de")
    reader = translator.tokenizers.source
    source, target = direction.wrap_source(reader.encode("a dog")), reader.encode("ein Hund da")
    weights = read_source_attention(translator, [source], [[DE, *target]])[0]
    assert weights.shape == (len(target) + 1, len(source))
    (links,) = align_ids(translator, [source], [target], [direction])
    assert links == translator.align([("a dog", "ein Hund da")], target="de", source="en")[0]
    assert {i for i, _ in links} <= {0, 1} and {j for _, j in links} <= {0, 1, 2}
    (made,) = translator.translate(["a dog"], TranslateOptions(source="en", target="de", align=True, retry=False))
    assert made.guesses[0].alignment is not None


def test_a_trace_shows_all_that_the_decoder_reads(translator: Translator) -> None:
    trace = translator.trace("a dog", source="en", target="de", prefix="Ei")
    assert trace.source.ids[0] == EN and trace.source.ids[-1] == END
    assert trace.target.ids[:2] == [END, DE] and trace.written.ids[0] == DE
    assert trace.forced == 3
    assert trace.output == translate_requests(translator, make_requests(["a dog"], prefixes=["Ei"]), TO_GERMAN)[0].text
    for n, logp in enumerate(trace.found[0].token_logps):
        at = trace.forced + n
        assert float(trace.tensors["output.logps"][at, trace.written.ids[at]]) == pytest.approx(logp, abs=1e-4)


def test_languages_in_all_spellings(translator: Translator) -> None:
    assert translator.direction_tokens("eng_Latn", "deu_Latn") == translator.direction_tokens("en", "de")
    assert translator.direction_tokens("", "de").source == "en"  # the only other one
    with pytest.raises(HeadwayError, match='does not translate to "fr". It knows: en, de'):
        translator.direction_tokens("en", "fr")
    with pytest.raises(HeadwayError, match='does not translate from "fr"'):
        translator.direction_tokens("fr", "en")
    with pytest.raises(HeadwayError, match="this model translates to en, de: say which with --to"):
        translator.direction_tokens("en")
    loaded = make_language_model(source_prefix=LANGUAGES, target_prefix={"zh-Hans": [EN], "zh-Hant": [DE]})
    config = loaded.config.__class__(**{**vars(loaded.config), "target_languages": ("zh-Hans", "zh-Hant")})
    chinese = Translator([loaded._replace(config=config)])
    assert chinese.direction_tokens("en", "zh_TW").target_lead == (DE,)
    with pytest.raises(ConfigError, match='"zh" may be zh-Hans or zh-Hant: say which with --to'):
        chinese.direction_tokens("en", "zh")
