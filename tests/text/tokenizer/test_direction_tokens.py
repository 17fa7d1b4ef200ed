"""Control tokens around the texts of a direction."""

import pytest
from language_tokens import DE, EN, END, LANGUAGES, make_language_tokenizers

from headway.errors import HeadwayError
from headway.text.tokenizer.direction_tokens import DirectionTokens, find_direction_tokens
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.special_tokens import special_tokens
from headway.text.tokenizer.tokenizer import Tokenizer


def test_languages_before_the_texts() -> None:
    tokenizers = make_language_tokenizers(source_prefix=LANGUAGES, target_prefix=LANGUAGES)
    found = find_direction_tokens(tokenizers, "en", "de", tagged=True)
    assert found == DirectionTokens("en", "de", (EN,), (END,), (DE,))
    assert found.wrap_source([1, 2]) == [EN, 1, 2, END] and found.source_count == 2
    assert special_tokens(tokenizers.target).target_lead == 1
    with pytest.raises(HeadwayError, match='has no token for the language "fr".* It knows: en, de'):
        find_direction_tokens(tokenizers, "fr", "de", tagged=True)
    with pytest.raises(HeadwayError, match="must be told the language of the text: name it with --from and --to"):
        find_direction_tokens(tokenizers, "", "de", tagged=True)
    with pytest.raises(HeadwayError, match='no token for the target language "fr". It knows: en, de'):
        find_direction_tokens(tokenizers, "en", "fr", tagged=True)


def test_languages_after_the_source_and_tokens_for_all() -> None:
    suffix = make_language_tokenizers(source_suffix={"en": [EN]})
    assert find_direction_tokens(suffix, "en", "", tagged=False).wrap_source([7]) == [7, END, EN]
    always = make_language_tokenizers(source_prefix={"": [EN]}, target_prefix={"": [EN]})
    assert find_direction_tokens(always, "", "", tagged=False) == DirectionTokens("", "", (EN,), (END,), (EN,))
    pair = make_language_tokenizers(source_prefix={"en-de": [5, 6], "en": [7]})
    assert find_direction_tokens(pair, "en", "de", tagged=False).source_lead == (5, 6)
    assert find_direction_tokens(pair, "en", "fr", tagged=False).source_lead == (7,)
    with pytest.raises(HeadwayError, match="names the id 999"):
        make_language_tokenizers(target_prefix={"en": [999]})


def test_a_tag_stands_where_there_are_several_targets() -> None:
    tagged = Tokenizer.train(["a b"], "bytes", tags=["de", "fr"])
    tokenizers = Tokenizers(tagged, tagged)
    assert find_direction_tokens(tokenizers, "en", "de", tagged=True).source_lead == (tagged.tags["de"],)
    assert find_direction_tokens(tokenizers, "en", "de", tagged=False).source_lead == ()
    assert find_direction_tokens(tokenizers, "en", "de", tagged=True).source_tail == (tagged.end,)
