"""Denoising objectives: against plain forms of their definitions, and that nothing of a text is lost."""

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from quick_training import PAIRS, SMALL

import headway
from headway.config.schema import make_part
from headway.data.corpora import text_from_memory
from headway.data.encoding import encode_lines
from headway.errors import ConfigError, HeadwayError
from headway.nn.ops.cross_entropy import IGNORE_INDEX
from headway.storage.model_dir import load_model
from headway.text.gaps import GapReader, insert_spans
from headway.text.tokenizer.special_tokens import SpecialTokens, special_tokens
from headway.text.tokenizer.tokenizer import Tokenizer
from headway.train.denoising import (
    count_spans,
    cut_spans,
    draw_missing_spans,
    draw_parts,
    draw_span_lengths,
    infill_spans,
    permute_lines,
)
from headway.train.line_dataset import LineDataset, encode_text_lines
from headway.train.objectives import Batch, Example
from headway.translate.options import TranslateOptions
from headway.translate.translator import Translator
from headway.workflows.evaluation import measure_denoising

SENTINELS = np.arange(100, 200)
MASK = 3
SPECIAL = SpecialTokens(start=1, end=2, mask=MASK, sentinels=tuple(SENTINELS.tolist()), vocabulary=10_000)
LINES = [side for pair in PAIRS for side in pair]
DENOISER: dict[str, Any] = {**SMALL, "tokenizer": "bpe(512)"}


def collate(kind: str, examples: list[Example], seed: int = 0) -> Batch:
    batch: Batch = make_part("objective", kind).collate(examples, SPECIAL, np.random.default_rng(seed))  # type: ignore[attr-defined]
    return batch


def draw_cases(seed: int) -> Iterator[tuple[int, float, float, np.random.Generator]]:
    """Lengths, shares and mean spans."""
    random = np.random.default_rng(seed)
    for _ in range(60):
        yield int(random.integers(1, 200)), random.uniform(0.001, 0.9), random.uniform(1, 10), random


def real_rows(ids: torch.Tensor | None, valid: Any) -> list[list[int]]:
    assert ids is not None
    return [row[own].tolist() for row, own in zip(ids, valid)]


# ---- T5


def plain_t5_spans(length: int, share: float, mean_span: float, cuts: list[list[int]]) -> tuple[list[int], list[int]]:
    """Lengths of what stays and what is missing, as T5's random_spans_noise_mask divides them; `cuts` are the draws."""
    missing = min(max(int(np.round(length * share)), 1), length - 1)
    spans = max(int(np.round(missing / mean_span)), 1)
    lengths = []
    for total, chosen in zip((length - missing, missing), cuts):
        first_in_segment = [index in chosen for index in range(total - 1)]
        assert sum(first_in_segment) == spans - 1
        segment_ids = np.cumsum([0, *first_in_segment])
        lengths.append(np.bincount(segment_ids, minlength=spans).tolist())
    return lengths[0], lengths[1]


def plain_cut(ids: list[int], spans: list[list[int]]) -> tuple[list[int], list[int]]:
    """One token after the other."""
    source, target = [], []
    for place, token in enumerate(ids):
        inside = next((number for number, (first, last) in enumerate(spans) if first <= place < last), None)
        if inside is None:
            source.append(token)
            continue
        if place == spans[inside][0]:
            source.append(int(SENTINELS[inside]))
            target.append(int(SENTINELS[inside]))
        target.append(token)
    return source, target


@pytest.mark.parametrize("length", [2, 3, 7, 20, 64, 511])
def test_spans_are_divided_as_in_t5(length: int) -> None:
    for share, mean_span in ((0.15, 3.0), (0.5, 3.0), (0.15, 8.0), (0.3, 1.0)):
        random = np.random.default_rng(length)
        spans = draw_missing_spans(length, share, mean_span, random)
        bounds = [0, *spans.ravel().tolist()]
        kept, missing = (np.diff(bounds)[start::2].tolist() for start in (0, 1))
        cuts = [(np.cumsum(lengths)[:-1] - 1).tolist() for lengths in (kept, missing)]
        assert (kept, missing) == plain_t5_spans(length, share, mean_span, cuts)
        assert bounds[-1] == length and min(kept + missing) >= 1
        assert count_spans(length, share, mean_span) == (sum(missing), len(spans))


def test_all_divisions_are_equally_likely() -> None:
    random = np.random.default_rng(0)
    draws = 6000
    counts = Counter(tuple(draw_parts(6, 3, random).tolist()) for _ in range(draws))
    divisions = [parts for parts in itertools.product(range(1, 7), repeat=3) if sum(parts) == 6]
    assert sorted(counts) == divisions
    expected = draws / len(divisions)
    assert all(abs(count - expected) < 5 * expected**0.5 for count in counts.values())


@pytest.mark.parametrize("seed", range(4))
def test_source_and_target_hold_the_whole_text(seed: int) -> None:
    for length, share, mean_span, random in draw_cases(seed):
        ids = random.integers(1000, 2000, length)
        spans = draw_missing_spans(length, share, mean_span, random)
        names = np.arange(10_000, 10_200)
        source, target = cut_spans(ids, spans, names)
        assert insert_spans(source.tolist(), target.tolist(), names.tolist()) == ids.tolist()
        assert len(source) + len(target) == length + 2 * len(spans)


def test_a_batch_of_span_corruption() -> None:
    texts = [np.arange(1000, 1000 + length) for length in (40, 7, 2)]
    batch = collate("span_corruption(0.3, 3)", [Example(text[:0], text) for text in texts])
    sources = real_rows(batch.source, batch.source_valid)
    inputs = real_rows(batch.inputs, batch.inputs_valid)
    for text, source, read, labels in zip(texts, sources, inputs, batch.labels.tolist()):
        said = [token for token in labels if token != IGNORE_INDEX]
        assert source[-1] == said[-1] == SPECIAL.end and read == [SPECIAL.start, *said[:-1]]
        names = SPECIAL.sentinels
        spans = [[place for place, token in enumerate(said) if token == name] for name in names[:4]]
        assert insert_spans(source[:-1], said[:-1], names) == text.tolist(), spans
    missing, count = count_spans(40, 0.3, 3)
    assert (missing, count) == (12, 4) and len(inputs[0]) == missing + count + 1
    assert batch.label_count == int((batch.labels != IGNORE_INDEX).sum())
    assert batch.token_count == sum(map(len, sources)) + batch.label_count


def test_cutting_agrees_with_the_plain_form() -> None:
    random = np.random.default_rng(3)
    for length in (2, 5, 30, 100):
        ids = random.integers(1000, 2000, length)
        spans = draw_missing_spans(length, 0.3, 2.0, random)
        source, target = cut_spans(ids, spans, SENTINELS)
        assert (source.tolist(), target.tolist()) == plain_cut(ids.tolist(), spans.tolist())


# ---- BART


@pytest.mark.parametrize("seed", range(4))
def test_infilling_keeps_all_other_tokens_in_order(seed: int) -> None:
    for length, share, mean_span, random in draw_cases(seed):
        ids = np.arange(1000, 1000 + length)
        noisy = infill_spans(ids, share, mean_span, MASK, random).tolist()
        kept = [token for token in noisy if token != MASK]
        assert kept == sorted(set(kept)) and set(kept) <= set(ids.tolist())
        covered = length - len(kept)
        assert covered == round(length * share) and len(noisy) <= length


def test_spans_have_poisson_lengths() -> None:
    """Masks a hundred tokens, counted over many texts: spans of length k have the probability λᵏ·e^-λ / k!, but for
    the one that is cut to fit."""
    lengths: Counter[int] = Counter()
    for seed in range(300):
        noisy = infill_spans(np.arange(1000, 1400), 0.25, 3.0, MASK, np.random.default_rng(seed)).tolist()
        places = [token for token in noisy if token != MASK]
        missing = np.diff([999, *places, 1400]) - 1
        masks = [len(list(run)) for is_mask, run in itertools.groupby(noisy, lambda token: token == MASK) if is_mask]
        lengths["spans"] += sum(masks)
        lengths["tokens"] += int(missing.sum())
    assert lengths["tokens"] == 300 * 100
    assert lengths["tokens"] / lengths["spans"] == pytest.approx(3.0, rel=0.03)


def test_where_empty_spans_are_left_out_lengths_do_not_go_by_position() -> None:
    """Of few tokens there are often more spans than fit: those before are no shorter than those behind."""
    drawn = [draw_span_lengths(3, 0.5, np.random.default_rng(seed)) for seed in range(3000)]
    assert all(lengths.sum() == 3 and len(lengths) <= 3 for lengths in drawn)
    first, last = (np.array([lengths[place] for lengths in drawn if len(lengths) == 2]) for place in (0, -1))
    assert len(first) > 100 and 0.2 < (first == 2).mean() < 0.8 and 0.2 < (last == 2).mean() < 0.8


def test_lines_are_permuted_whole() -> None:
    ids, ends = np.arange(12), np.array([3, 4, 9, 12])
    found = {tuple(permute_lines(ids, ends, np.random.default_rng(seed)).tolist()) for seed in range(400)}
    lines = ((0, 1, 2), (3,), (4, 5, 6, 7, 8), (9, 10, 11))
    assert found == {tuple(itertools.chain(*order)) for order in itertools.permutations(lines)}


def test_a_batch_of_denoising_says_the_whole_text() -> None:
    text = np.arange(1000, 1200)
    example = Example(text[:0], text, line_ends=np.array([50, 200]))
    batch = collate("denoising(0.3, permute=false)", [example])
    assert batch.labels[0].tolist() == [*text.tolist(), SPECIAL.end]
    (source,) = real_rows(batch.source, batch.source_valid)
    assert source[-1] == SPECIAL.end and len([token for token in source if token >= 1000]) == 140
    deleted = collate("denoising(0, masked=0.2, deleted=0.1, permute=false)", [example])
    (source,) = real_rows(deleted.source, deleted.source_valid)
    assert 165 < len(source) < 195 and 20 < source.count(MASK) < 55
    permuted = [collate("denoising(0, lines=2)", [example], seed) for seed in range(8)]
    sources = {tuple(real_rows(one.source, one.source_valid)[0][:-1]) for one in permuted}
    assert sources == {tuple(text.tolist()), (*text[50:].tolist(), *text[:50].tolist())}


# ---- Data


def test_lines_become_examples() -> None:
    tokenizer = Tokenizer.train(LINES, "bytes", sentinels=4)
    lines = ["abc", "", "de", "f", "0123456789abcdef", "", "", "gh"]
    rows = encode_lines(tokenizer, lines)

    def texts(max_tokens: int, count: int) -> list[str]:
        dataset = LineDataset(rows, max_tokens, count)
        return sorted(
            tokenizer.decode(shard.examples[index].target)
            for shard in dataset.epoch(0)
            for index in range(len(shard.examples))
        )

    assert texts(40, 1) == sorted(["abc", "de", "f", "0123456789abcdef", "gh"])  # each begins with a space
    assert texts(40, 0) == sorted(["abc", "de f 0123456789abcdef", "gh"])
    assert texts(40, 2) == sorted(["abc", "de f", "0123456789abcdef", "gh"])
    assert texts(11, 1) == sorted(["abc", "de", "f", "012345678", "9abcdef", "gh"])
    dataset = LineDataset(rows, 40, 0)
    (shard,) = dataset.epoch(0)
    example = next(shard.examples[n] for n in range(3) if len(shard.examples[n].target) > 10)
    assert example.line_ends is not None and example.line_ends.tolist() == [3, 5, 22]
    assert shard.lengths.max() == 23
    assert LineDataset(encode_lines(tokenizer, [""]), 40, 1).size == 0


def test_lines_are_encoded_as_sources_of_pairs_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path))
    tokenizer = Tokenizer.train(LINES, "bpe(400)")
    rows = encode_text_lines(text_from_memory(["  A dog. ", "Two"]), tokenizer)
    assert [row.tolist() for row in (rows[0], rows[1])] == tokenizer.encode_batch(["A dog.", "Two"])


def test_sentinels_are_control_tokens() -> None:
    tokenizer = Tokenizer.train(LINES, "bpe(400)", tags=["de"], sentinels=5)
    assert tokenizer.sentinels == (5, 6, 7, 8, 9)
    assert tokenizer.decode([5, *tokenizer.encode("dog"), 6]) == "dog"
    assert set(tokenizer.sentinels) <= set(special_tokens(tokenizer).suppress)
    assert not set(tokenizer.sentinels) & set(special_tokens(tokenizer, writes_sentinels=True).suppress)
    assert Tokenizer.train(LINES, "bpe(400)").sentinels == ()
    reader = GapReader(tokenizer, numbered=True)
    ids = reader.encode("The [MASK] dog [MASK].")
    assert [n for n in ids if n in tokenizer.sentinels] == [5, 6]
    written = [5, *tokenizer.encode("old"), 6, *tokenizer.encode("runs")]
    assert tokenizer.decode(reader.fill(ids, written)) == "The old dog runs."
    with pytest.raises(HeadwayError, match="6 gaps, and the model knows 5"):
        reader.encode("[MASK] " * 6)


# ---- Training


@pytest.mark.parametrize("objective", ["span_corruption", "denoising"])
def test_a_denoiser_resumes_exactly_and_becomes_a_translator(objective: str, tmp_path: Path) -> None:
    def pretrain(name: str, steps: int) -> dict[str, torch.Tensor]:
        headway.train(
            LINES, tmp_path / name, preset="tiny", objective=objective, set=DENOISER, steps=steps, device="cpu",
            progress=False,
        )  # type: ignore[arg-type]  # fmt: skip
        return load_model(tmp_path / name).model.state_dict()

    whole = pretrain("whole", 6)
    pretrain("parts", 2)
    for name, tensor in pretrain("parts", 6).items():
        assert torch.equal(tensor, whole[name]), name
    model = headway.load(tmp_path / "whole", device="cpu")
    assert isinstance(model, Translator)
    first = measure_denoising(model, LINES[:20])
    assert first == measure_denoising(model, LINES[:20]) and 0 < first.loss < 10
    found = model.translate(["The [MASK] dog."], TranslateOptions())
    if objective == "span_corruption":
        assert found[0].text.startswith("The") and found[0].text.endswith("dog.")
        assert model("THE [MASK] DOG.").startswith("THE ") and "mask" not in model("THE [MASK] DOG.").lower()
    torch_model = headway.load(tmp_path / "whole", device="cpu", engine="torch", compute="int8")
    native = headway.load(tmp_path / "whole", device="cpu", compute="int8")
    assert torch_model("The [MASK] dog.") == native("The [MASK] dog.")  # type: ignore[operator]
    result = headway.train(
        PAIRS, tmp_path / "translator", from_model=tmp_path / "whole", languages=("en", "qtx"), steps=2, device="cpu",
        progress=False,
    )  # fmt: skip
    config = load_model(result.folder).config
    assert config.train.objective.kind == "translation"
    assert (config.source_languages, config.target_languages) == (("en",), ("qtx",))


def test_what_cannot_be_trained_is_refused(tmp_path: Path) -> None:
    def refusal(data: Any = LINES, **more: Any) -> str:
        keywords = {"preset": "tiny", "set": DENOISER, "steps": 1, "device": "cpu", "progress": False} | more
        with pytest.raises(HeadwayError) as caught:
            headway.train(data, tmp_path / "refused", **keywords)  # type: ignore[arg-type]
        return str(caught.value)

    no_encoder = {**DENOISER, "model.encoder.layers": 0}
    assert "span_corruption needs an encoder" in refusal(objective="span_corruption", set=no_encoder)
    few = {**DENOISER, "train.objective": "span_corruption(0.5, 1, sentinels=8)"}
    assert "needs 40 sentinel tokens, and this vocabulary has 8" in refusal(set=few)
    assert "learns from --text" in refusal(PAIRS, objective="denoising")
    with pytest.raises(ConfigError, match="leaves the text as it is"):
        nothing = {**DENOISER, "train.objective": "denoising(0)"}
        headway.train(LINES, tmp_path / "nothing", preset="tiny", set=nothing, steps=1, device="cpu", progress=False)


def test_a_task_prefix_stands_before_each_source(tmp_path: Path) -> None:
    from headway.train.sources import TrainingFiles, read_texts

    file = tmp_path / "two.en-de.tsv"
    file.write_text("".join(f"dog {n}\tHund {n}\n" for n in range(40)), encoding="utf-8")
    texts = read_texts(TrainingFiles(pairs=[str(file), str(file)], prefixes=["translate:", "repeat:"]))
    sources = [[source for source, _ in corpus.read()] for corpus in (*texts.pairs, *texts.valid_pairs)]
    assert [source.partition(" ")[0] for source, *_ in sources] == ["translate:", "repeat:"] * 2
    assert all(source.count(":") == 1 for own in sources for source in own)
    assert texts.pairs[0].identity != texts.pairs[1].identity
    with pytest.raises(ConfigError, match="--prefix"):
        TrainingFiles(pairs=["a", "b", "c"], prefixes=["x", "y"]).check()
    with pytest.raises(ConfigError, match="--prefix is for corpora of pairs"):
        TrainingFiles(text=["a"], prefixes=["x"]).check()
