"""What every tokenizer promises."""

import json
import pickle
import subprocess
import sys

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.errors import ConfigError, HeadwayError
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.text.tokenizer.vocabulary import byte_alphabet

LOSSLESS = ["bpe", "unigram", "bytes", "characters"]
KINDS = [*LOSSLESS, "wordpiece"]
TRICKY = [
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "\0",
    "▁",
    "Ġ",
    "<0x41>",
    "<s>",
    "</s>",
    "<pad>",
    "<unk>",
    "[CLS]",
    "⟨pad⟩",
    "⟨s⟩",
    "⟨/s⟩",
    "⟨mask⟩",
    "⟨to:de⟩",
    "⟨unk⟩",
    "⟨unused:0⟩",
    "##ing",
    "👩\u200d👩\u200d👧",
    "🇩🇪",
    "שלום",
    "مرحبا",
    "e\u0301",
    "é",
    "\u2028",
    "\u2029",
    "\u0085",
    "\ufeff",
    "\ufffd",
    "\uffff",
    "\U0010ffff",
    "don't",
    "Hund",
    "3.14",
]
TEXT = st.text() | st.lists(st.sampled_from(TRICKY)).map("".join) | st.lists(st.sampled_from(TRICKY)).map(" ".join)
CONTROLS = ["⟨pad⟩", "⟨s⟩", "⟨/s⟩", "⟨mask⟩", "⟨to:de⟩", "⟨to:fr⟩", "⟨unused:0⟩", "⟨unused:1⟩", "⟨unk⟩"]


@pytest.mark.parametrize("kind", LOSSLESS)
@settings(deadline=None)
@given(text=TEXT)
def test_every_text_comes_back_exactly(kind: str, trained: dict[str, Tokenizer], text: str) -> None:
    tokenizer = trained[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.control_ids.isdisjoint(ids)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(text=TEXT)
def test_no_text_becomes_a_control_token(kind: str, trained: dict[str, Tokenizer], text: str) -> None:
    assert trained[kind].control_ids.isdisjoint(trained[kind].encode(text))


@settings(deadline=None)
@given(texts=st.lists(TEXT), dropout=st.sampled_from([0.1, 0.5, 1.0]))
def test_dropout_loses_nothing(trained: dict[str, Tokenizer], texts: list[str], dropout: float) -> None:
    tokenizer = trained["bpe"]
    ids = tokenizer.encode_batch(texts, dropout=dropout)
    assert [tokenizer.decode(row) for row in ids] == texts


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("control", CONTROLS)
def test_text_that_looks_like_a_control_token_stays_text(
    kind: str, control: str, trained: dict[str, Tokenizer]
) -> None:
    reloaded = Tokenizer(json.loads(json.dumps(trained[kind].to_json())))
    for tokenizer in (trained[kind], reloaded, Tokenizer.train([control, control] * 9, kind, tags=["de", "fr"])):
        for text in (control, f"a {control} b", control * 3):
            ids = tokenizer.encode(text)
            assert ids
            assert tokenizer.control_ids.isdisjoint(ids)
            assert kind == "wordpiece" or tokenizer.decode(ids) == text


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_laid_out_as_promised(kind: str, trained: dict[str, Tokenizer]) -> None:
    tokenizer = trained[kind]
    assert (tokenizer.pad, tokenizer.start, tokenizer.end, tokenizer.mask) == (0, 1, 2, 3)
    assert tokenizer.tags == {"de": 4, "fr": 5}
    assert tokenizer.size % 64 == 0
    assert tokenizer.kind == kind
    fillers = sorted(tokenizer.control_ids - set(range(6)))
    assert fillers == list(range(tokenizer.size - len(fillers), tokenizer.size))
    assert len(fillers) < 64
    assert tokenizer.pieces([0, 1, 2, 3, 4]) == ["⟨pad⟩", "⟨s⟩", "⟨/s⟩", "⟨mask⟩", "⟨to:de⟩"]
    assert tokenizer.pieces(fillers) == [f"⟨unused:{n}⟩" for n in range(len(fillers))]


@pytest.mark.parametrize("kind", KINDS)
def test_control_tokens_have_no_text(kind: str, trained: dict[str, Tokenizer]) -> None:
    tokenizer = trained[kind]
    assert tokenizer.decode(sorted(tokenizer.control_ids)) == ""
    assert tokenizer.decode([1, 4, *tokenizer.encode("The dog"), 2, 0, 0]) == "The dog"


@pytest.mark.parametrize("kind", KINDS)
def test_empty_text_has_no_ids(kind: str, trained: dict[str, Tokenizer]) -> None:
    assert trained[kind].encode("") == []
    assert trained[kind].decode([]) == ""
    assert trained[kind].encode_batch([]) == []
    assert trained[kind].encode_batch(["", "cat", ""])[::2] == [[], []]


@pytest.mark.parametrize("kind", LOSSLESS)
def test_a_word_is_written_alike_at_the_start_and_in_the_middle(kind: str, trained: dict[str, Tokenizer]) -> None:
    alone = trained[kind].encode("Hund")
    assert trained[kind].encode("Der Hund")[-len(alone) :] == alone


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_its_texts(kind: str, trained: dict[str, Tokenizer]) -> None:
    texts = ["The dog sees", "", "  das grüne Haus!", "東京 ⟨s⟩"]
    assert trained[kind].encode_batch(texts) == [trained[kind].encode(text) for text in texts]


def test_numbers_are_spelled_digit_by_digit(trained: dict[str, Tokenizer]) -> None:
    assert trained["bpe"].pieces(trained["bpe"].encode("2024 2024"))[4:] == [" 2", "0", "2", "4"]


def test_pieces_can_be_read(trained: dict[str, Tokenizer]) -> None:
    bpe, by_byte = trained["bpe"], trained["bytes"]
    assert bpe.pieces(bpe.encode("Eine kleine Katze sees")) == [" Eine", " kleine", " Katze", " sees"]
    assert by_byte.pieces(by_byte.encode("a€")) == [" ", "a", "<E2>", "<82>", "<AC>"]
    assert bpe.pieces([*bpe.encode("Katze"), bpe.end]) == [" Katze", "⟨/s⟩"]
    characters = trained["characters"]
    assert characters.pieces(characters.encode("aü東")) == [" ", "a", "ü", "東"]


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(data=st.data())
def test_a_stream_says_what_decode_says(kind: str, trained: dict[str, Tokenizer], data: st.DataObject) -> None:
    tokenizer = trained[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.size - 1), max_size=20))
    stream = tokenizer.stream_decoder()
    for _ in range(2):  # finish() leaves the stream ready for the next output
        said = "".join([stream.push(n) for n in ids] + [stream.finish()])
        assert said == tokenizer.decode(ids)


def test_a_stream_holds_back_half_a_character(trained: dict[str, Tokenizer]) -> None:
    stream = trained["bytes"].stream_decoder()
    assert [stream.push(n) for n in trained["bytes"].encode("a€b")] == ["", "a", "", "", "€", "b"]
    assert stream.finish() == ""
    for n in trained["bytes"].encode("€")[:-1]:
        assert stream.push(n) == ""
    assert stream.finish() == "\ufffd"
    assert stream.finish() == ""


def test_an_unfinished_character_is_shown_as_such(trained: dict[str, Tokenizer]) -> None:
    ids = trained["bytes"].encode("a€")
    assert trained["bytes"].decode(ids[:-1]) == "a\ufffd"


@pytest.mark.parametrize("n", [-1, 512])
def test_an_id_of_another_vocabulary_is_refused(n: int, trained: dict[str, Tokenizer]) -> None:
    for use in (
        lambda: trained["bpe"].decode([n]),
        lambda: trained["bpe"].pieces([n]),
        lambda: trained["bpe"].stream_decoder().push(n),
    ):
        with pytest.raises(HeadwayError, match=f"there is no token {n}: this vocabulary has 512"):
            use()


@pytest.mark.parametrize("kind", KINDS)
def test_a_lone_surrogate_is_refused_by_name(kind: str, trained: dict[str, Tokenizer]) -> None:
    with pytest.raises(HeadwayError, match=r"^the character at index 3 is U\+D83D, a lone surrogate"):
        trained[kind].encode("abc\ud83d")
    with pytest.raises(HeadwayError, match=r"text 1: the character at index 0 is U\+DC00"):
        trained[kind].encode_batch(["fine", "\udc00"])


def test_dropout_is_for_one_call_only(trained: dict[str, Tokenizer]) -> None:
    tokenizer, texts = trained["bpe"], ["Eine kleine Katze vergisst das grüne Haus!"] * 20
    plain = tokenizer.encode_batch(texts)
    noisy = tokenizer.encode_batch(texts, dropout=0.5)
    assert len({tuple(row) for row in noisy}) > 10
    assert tokenizer.encode_batch(texts) == plain
    assert tokenizer.encode(texts[0]) == plain[0]
    assert tokenizer.encode_batch(texts, dropout=0.5) != noisy
    assert [tokenizer.decode(row) for row in noisy] == texts
    everything = tokenizer.encode_batch(texts, dropout=1.0)
    assert len(everything[0]) == len(f" {texts[0]}".encode())
    assert tokenizer.to_json()["model"]["dropout"] is None


@pytest.mark.parametrize("kind", ["unigram", "bytes", "characters", "wordpiece"])
def test_dropout_needs_merges(kind: str, trained: dict[str, Tokenizer]) -> None:
    with pytest.raises(HeadwayError, match=f'dropout skips merges, and a "{kind}" tokenizer has none'):
        trained[kind].encode_batch(["a"], dropout=0.1)


@pytest.mark.parametrize("dropout", [-0.1, 1.5])
def test_dropout_is_a_share(dropout: float, trained: dict[str, Tokenizer]) -> None:
    with pytest.raises(HeadwayError, match=f"dropout is {dropout}: it must be between 0 and 1"):
        trained["bpe"].encode_batch(["a"], dropout=dropout)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tokenizer_travels_to_another_process(kind: str, trained: dict[str, Tokenizer]) -> None:
    copy = pickle.loads(pickle.dumps(trained[kind]))
    assert copy.fingerprint() == trained[kind].fingerprint()
    assert copy.encode("Der Hund") == trained[kind].encode("Der Hund")


@pytest.mark.parametrize("kind", LOSSLESS)
def test_the_library_alone_does_the_same(kind: str, trained: dict[str, Tokenizer]) -> None:
    library = tokenizers.Tokenizer.from_str(json.dumps(trained[kind].to_json()))
    for text in ["  The dog  ", "⟨s⟩ 東京\0", "e\u0301 \n"]:
        ids = trained[kind].encode(text)
        assert library.encode(text).ids == ids
        assert library.decode(ids) == text


def test_bytes_have_the_letters_that_the_library_gives_them() -> None:
    letters = byte_alphabet()
    assert sorted(letters) == sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    cut = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str
    for text in ["".join(map(chr, range(128))), "éß東😀", "".join(map(chr, range(128, 2048))), "\U000c0000"]:
        assert bytes(letters[letter] for letter in cut(text)[0][0]) == text.encode()
    assert "⟨" not in letters


def test_fingerprints_tell_tokenizers_apart(trained: dict[str, Tokenizer]) -> None:
    assert len({tokenizer.fingerprint() for tokenizer in trained.values()}) == len(KINDS)
    assert repr(trained["bpe"]) == "Tokenizer(bpe, 512 entries, tags: de, fr)"


def test_wordpiece_loses_what_its_page_says(trained: dict[str, Tokenizer]) -> None:
    tokenizer = trained["wordpiece"]
    assert tokenizer.decode(tokenizer.encode("  The   dog sees the green house.")) == "The dog sees the green house."
    assert tokenizer.decode(tokenizer.encode("Eine Katze \u2603 (in")) == "Eine Katze \ufffd ( in"
    assert tokenizer.pieces(tokenizer.encode("Hund \u2603")) == [" Hund", " \ufffd"]
    assert tokenizer.decode(tokenizer.encode("Katzen")) == "Katzen"


def test_wordpiece_in_small_letters(lines: list[str]) -> None:
    tokenizer = Tokenizer.train(lines, "wordpiece(512, lowercase=True)")
    assert tokenizer.decode(tokenizer.encode("DER Hund")) == "der hund"


def test_a_kind_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="bpee"):
        Tokenizer.train(["a"], "bpee")


def test_text_needs_no_torch() -> None:
    code = "import sys, headway.text; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
