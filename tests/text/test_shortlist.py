"""Shortlists: which words a source may need, counted in parallel text, kept in a small file, read without torch."""

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from headway.data.toy import toy_corpus
from headway.errors import HeadwayError, HeadwayWarning
from headway.text.align import lexicon as module
from headway.text.align.lexicon import TokenLexicon, count_lexicon, make_shortlist
from headway.text.shortlist import (
    SHORTLIST_FILE,
    Shortlist,
    UnreadableShortlist,
    concatenate_lists,
    copy_shortlist,
    load_shortlist,
)
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.tokenizer import Tokenizer

PAIRS = [(pair.source, pair.target) for pair in toy_corpus(400)]
HELD = [(pair.source, pair.target) for pair in toy_corpus(500)[400:]]


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    both = Tokenizer.train([side for pair in PAIRS for side in pair], "bpe(600)")
    return Tokenizers(both, both)


@pytest.fixture(scope="module")
def lexicon(tokenizers: Tokenizers) -> TokenLexicon:
    return count_lexicon(lambda: PAIRS, len(PAIRS), tokenizers, 100)


def small(tags: tuple[int, ...] = ()) -> Shortlist:
    """Of 4 source and 9 target tokens: 1 becomes 5 or 3, 2 becomes 3, anything may need 0 and 8."""
    lists = [np.array(one, dtype=np.int64) for one in ([], [5, 3], [3], [], [8, 0])]
    other = [np.array(one, dtype=np.int64) for one in ([], [6], [], [], [0])]
    starts, targets = concatenate_lists([*lists, *other] if tags else lists)
    return Shortlist(starts, targets, 4, 9, tags, {"pairs": "7"})


def covered(shortlist: Shortlist, tokenizers: Tokenizers, pairs: list[tuple[str, str]]) -> float:
    hits = total = 0
    for source, target in pairs:
        candidates = shortlist.candidates([*tokenizers.source.encode(source), 2])
        wanted = tokenizers.target.encode(target)
        hits += int(np.isin(wanted, candidates).sum())
        total += len(wanted)
    return hits / total


# ---- looking up


def test_candidates_are_those_of_the_tokens_and_of_every_sentence() -> None:
    shortlist = small()
    for ids, expected in (
        ([], [0, 8]),
        ([1], [0, 3, 5, 8]),
        ([2, 1, 2, 1], [0, 3, 5, 8]),
        ([3, 0], [0, 8]),
        (np.array([2]), [0, 3, 8]),
    ):
        found = shortlist.candidates(ids)
        assert found.tolist() == expected and found.dtype == np.int64
    assert shortlist.mask([[1], [2], []]).nonzero()[1].tolist() == [0, 3, 5, 8, 0, 3, 8, 0, 8]
    assert shortlist.mask([]).shape == (0, 9)
    assert not shortlist.is_fixed


def test_each_target_language_has_its_own() -> None:
    shortlist = small(tags=(3, 0))
    assert shortlist.candidates([3, 1]).tolist() == [0, 3, 5, 8]
    assert shortlist.candidates([0, 1]).tolist() == [0, 6]
    assert shortlist.mask([[3], [0]]).sum(1).tolist() == [2, 1]
    for ids in ([1, 2], []):
        with pytest.raises(HeadwayError, match="without text in this target language. Make it again"):
            shortlist.candidates(ids)


# ---- the file


@pytest.mark.parametrize("tags", [(), (3, 0)])
def test_it_is_read_as_it_was_written(tmp_path: Path, tags: tuple[int, ...]) -> None:
    small(tags).save(tmp_path)
    again = Shortlist.load(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [SHORTLIST_FILE]
    assert (tmp_path / SHORTLIST_FILE).stat().st_mode & 0o777 == 0o644
    assert (again.source_size, again.target_size, again.tags, again.about) == (4, 9, tags, {"pairs": "7"})
    for one, other in ((again.starts, small(tags).starts), (again.targets, small(tags).targets)):
        assert one.dtype == np.int32 and np.array_equal(one, other)


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match=r"shortlist\.safetensors cannot be written: No such file or directory\.$"):
        small(()).save(tmp_path / "none")


def test_no_torch_is_needed(tmp_path: Path) -> None:
    small().save(tmp_path)
    code = (
        "import sys; from headway.text.shortlist import Shortlist; "
        f"print(Shortlist.load({str(tmp_path)!r}).candidates([2]), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[0 3 8] False"


def rewritten(folder: Path, about: dict[str, str], **arrays: np.ndarray) -> None:
    small().save(folder)
    known = {"source_size": "4", "target_size": "9", "format_version": "1"}
    save_file({**load_file(folder / SHORTLIST_FILE), **arrays}, folder / SHORTLIST_FILE, {**known, **about})


def int32(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int32)


@pytest.mark.parametrize(
    "arrays",
    [
        {"starts": int32(0, 0, 2, 3, 3)},
        {"starts": int32(0, 0, 2, 3, 3, 4)},
        {"starts": int32(0, 0, 3, 2, 3, 5)},
        {"starts": int32(1, 1, 2, 3, 3, 5)},
        {"starts": np.array([0, 0, 2, 3, 3, 5])},
        {"targets": int32(5, 3, 3, 8, 9)},
        {"targets": int32(5, 3, 3, 8, -1)},
        {"targets": int32(5, 3, 3, 8, 0).reshape(1, -1)},
        {"tags": int32(1, 2)},
    ],
)
def test_damage_is_said(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    rewritten(tmp_path, {}, **arrays)
    with pytest.raises(
        HeadwayError, match=f"{SHORTLIST_FILE} is damaged. Copy it again, or make another: headway shortlist"
    ):
        Shortlist.load(tmp_path)


def test_what_is_no_shortlist_is_damage_too(tmp_path: Path) -> None:
    rewritten(tmp_path, {"source_size": "four"})
    with pytest.raises(HeadwayError, match="is damaged"):
        Shortlist.load(tmp_path)
    save_file({"a": int32(1)}, tmp_path / SHORTLIST_FILE)
    with pytest.raises(HeadwayError, match="is damaged"):
        Shortlist.load(tmp_path)
    (tmp_path / SHORTLIST_FILE).write_bytes(b"no tensors")
    with pytest.raises(HeadwayError, match="is damaged"):
        Shortlist.load(tmp_path)


def test_a_newer_format_says_so(tmp_path: Path) -> None:
    rewritten(tmp_path, {"format_version": "9"})
    with pytest.raises(HeadwayError, match="format_version 9; this Headway reads 1. Update Headway to read it."):
        Shortlist.load(tmp_path)


def test_it_must_fit_the_words_of_its_model(tmp_path: Path, tokenizers: Tokenizers, lexicon: TokenLexicon) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    assert load_shortlist([one, other], tokenizers) is None
    make_shortlist({"": lexicon}, 5, 5).save(other)
    found = load_shortlist([one, other], tokenizers)
    assert isinstance(found, Shortlist) and found.about["pairs"] == "400"
    small().save(one)
    size = tokenizers.target.size
    with pytest.warns(HeadwayWarning, match="the shortlist is not used: "):
        unfit = load_shortlist([one, other], tokenizers)
    assert isinstance(unfit, UnreadableShortlist)
    assert f"was made for 9 target tokens, and its tokenizer.json has {size}. Make" in str(unfit.error)


def test_copies_of_a_model_keep_it(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    small().save(one)
    copy_shortlist(one, other)
    assert np.array_equal(Shortlist.load(other).targets, small().targets)
    (one / SHORTLIST_FILE).unlink()
    copy_shortlist(one, other)
    assert not (other / SHORTLIST_FILE).exists(), "it was of another model"


# ---- counting


def test_a_token_is_followed_by_what_it_became(tokenizers: Tokenizers, lexicon: TokenLexicon) -> None:
    """Of text that was not counted, nearly everything is in lists of a tenth of the vocabulary."""
    shortlist = make_shortlist({"": lexicon}, 10, 20)
    sizes = [len(shortlist.candidates(tokenizers.source.encode(source))) for source, _ in HELD]
    assert np.mean(sizes) < tokenizers.target.size / 4
    assert covered(shortlist, tokenizers, HELD) > 0.97
    common = make_shortlist({"": lexicon}, 0, int(np.mean(sizes)))
    assert covered(shortlist, tokenizers, HELD) > covered(common, tokenizers, HELD)


def test_more_words_cover_more(tokenizers: Tokenizers, lexicon: TokenLexicon) -> None:
    made = [make_shortlist({"": lexicon}, best, frequent) for best, frequent in ((1, 0), (5, 0), (5, 50), (100, 50))]
    shares = [covered(shortlist, tokenizers, HELD) for shortlist in made]
    assert shares == sorted(shares) and shares[0] < shares[-1]
    for less, more in itertools.pairwise(made):
        for source, _ in HELD[:20]:
            ids = tokenizers.source.encode(source)
            assert set(less.candidates(ids)) <= set(more.candidates(ids))


def test_what_is_always_there(tokenizers: Tokenizers, lexicon: TokenLexicon) -> None:
    """The end, the bytes that the text has, and of source tokens themselves, as in names and numbers."""
    target = tokenizers.target
    shortlist = make_shortlist({"": lexicon}, 3, 0)
    always = shortlist.candidates([])
    seen = {token for _, said in PAIRS for token in target.encode(said)}
    assert target.end in always
    assert set(always) - {target.end} == {n for n in seen if target.is_byte(n)}
    for token in range(target.size):
        assert (token in shortlist.candidates([token])) or token in target.control_ids
    assert not target.control_ids & set(range(target.size)) & set(always) - {target.end}


def test_the_output_layer_can_be_cut_to_the_frequent(tokenizers: Tokenizers) -> None:
    """One list for every sentence, without alignments."""
    lexicon = count_lexicon(lambda: PAIRS, len(PAIRS), tokenizers, 0)
    shortlist = make_shortlist({"": lexicon}, 0, 100)
    assert shortlist.is_fixed and not len(lexicon.codes)
    common = np.argsort(-lexicon.frequency, kind="stable")[:100]
    assert set(common) <= set(shortlist.candidates([]))
    for source, _ in HELD[:5]:
        ids = tokenizers.source.encode(source)
        assert np.array_equal(shortlist.candidates(ids), shortlist.candidates([]))


def test_two_vocabularies_copy_by_spelling() -> None:
    source, target = (Tokenizer.train([pair[side] for pair in PAIRS], "bpe(400)") for side in (0, 1))
    lexicon = count_lexicon(lambda: PAIRS, len(PAIRS), Tokenizers(source, target), 5)
    shortlist = make_shortlist({"": lexicon}, 1, 0)
    read, said = source.pieces(range(source.size)), target.pieces(range(target.size))
    both = set(read[256:]) & set(said[256:]) - {read[n] for n in source.control_ids}
    assert both
    for piece in both:
        assert said.index(piece) in shortlist.candidates([read.index(piece)])
    assert covered(make_shortlist({"": lexicon}, 5, 30), Tokenizers(source, target), HELD) > 0.9


@pytest.mark.parametrize("kind", ["bpe", "unigram", "bytes", "characters", "wordpiece"])
def test_every_tokenizer_will_do(trained: dict[str, Tokenizer], lines: list[str], kind: str) -> None:
    both = Tokenizers(trained[kind], trained[kind])
    pairs = list(zip(lines[:60], lines[:60]))
    lexicon = count_lexicon(lambda: pairs, 60, both, 5)
    languages = {"de": lexicon, "fr": TokenLexicon(both, 5)}
    shortlist = make_shortlist(languages, 5, 10)
    assert shortlist.tags == (both.source.tags["de"], both.source.tags["fr"])
    ids = both.target.encode(lines[0])
    assert set(ids) <= set(shortlist.candidates([both.source.tags["de"], *ids]))


def test_the_same_pairs_give_the_same_lists(tokenizers: Tokenizers, lexicon: TokenLexicon) -> None:
    again = count_lexicon(lambda: PAIRS, len(PAIRS), tokenizers, 100)
    assert np.array_equal(again.codes, lexicon.codes) and np.array_equal(again.counts, lexicon.counts)


def test_memory_is_bounded(tokenizers: Tokenizers, lexicon: TokenLexicon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are put together now and then; only the best of each source token go on."""
    monkeypatch.setattr(module, "MAX_PENDING_LINKS", 500)
    monkeypatch.setattr(module, "PAIRS_PER_GROUP", 16)
    often = count_lexicon(lambda: PAIRS, len(PAIRS), tokenizers, 100)
    assert np.array_equal(often.codes, lexicon.codes)
    np.testing.assert_allclose(often.counts, lexicon.counts)
    few = count_lexicon(lambda: PAIRS, len(PAIRS), tokenizers, 2)
    assert np.bincount(few.codes // tokenizers.target.size).max() <= 2 * module.SPARE_FACTOR < lexicon.pairs
    shares = [covered(make_shortlist({"": each}, 2, 50), tokenizers, HELD) for each in (few, lexicon)]
    assert shares[0] == pytest.approx(shares[1], abs=0.01)


def test_blank_and_endless_pairs_do_no_harm(tokenizers: Tokenizers) -> None:
    strange = [("", ""), ("dog", ""), ("", "dog"), ("dog " * 400, "dog " * 400)]
    lexicon = count_lexicon(lambda: strange, 4, tokenizers, 5)
    assert lexicon.pairs == 4 and lexicon.frequency.sum() > 400
    assert tokenizers.target.end in make_shortlist({"": lexicon}, 5, 5).candidates([])
