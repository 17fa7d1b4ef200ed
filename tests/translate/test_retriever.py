"""A model that retrieves, from text to text: index, training, resume, perplexity, generation, 8 bits; and mistakes."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headway
from headway.cli.app import main
from headway.decode import Search, decode
from headway.decode.reference.model import ModelStepper
from headway.decode.reference.retrieval import RetrievalStepper
from headway.errors import ConfigError, HeadwayError
from headway.nn.sequence import Neighbours
from headway.nn.transformer import valid_mask
from headway.retrieval.chunk_index import open_chunk_index
from headway.retrieval.index_folder import read_about
from headway.train.objectives import collate_neighbours
from headway.train.retrieval_dataset import WholeRetrievalDataset, make_retrieval_datasets
from headway.train.sources import TrainingFiles, hold_out_documents, read_texts
from headway.translate.language_model import LanguageModel
from headway.translate.text_vectors import load_embedder

CHUNK = 8
SETTINGS = {
    "model.d_model": 16, "model.decoder.layers": 2, "model.decoder.mixer": "attention(2)",
    "model.decoder.feedforward": "relu(32)", "model.dropout": 0.0, "train.max_tokens": 16, "train.batch_tokens": 256,
    "train.validate_every": 2, "train.keep_last": 2,
}  # fmt: skip


def write_corpus(path: Path, documents: int = 40) -> Path:
    random = np.random.default_rng(0)
    words = [f"word{number}" for number in range(30)]
    lines = [[" ".join(random.choice(words, 8)) for _ in range(2)] for _ in range(documents)]
    path.write_text("".join(f"{one}\n{other}\n\n" for one, other in lines))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """corpus.txt, its index, and a model."""
    folder = tmp_path_factory.mktemp("retro")
    corpus = write_corpus(folder / "corpus.txt")
    words = ["--chunk-tokens", str(CHUNK), "--vocabulary", "384", "--width", "64"]
    assert main(["index", str(corpus), "--out", str(folder / "index"), *words]) == 0
    train(folder, folder / "model", steps=4)
    return folder


def train(folder: Path, out: Path, **changes: Any) -> headway.TrainingResult:
    given: dict[str, Any] = {"preset": "tiny_lm", "set": SETTINGS, "device": "cpu", "progress": False, **changes}
    return headway.train(str(folder / "corpus.txt"), out, index=folder / "index", **given)


def load(path: Path) -> LanguageModel:
    model = headway.load(str(path), device="cpu")
    assert isinstance(model, LanguageModel)
    return model


def test_the_config_says_what_it_retrieves_from(folder: Path) -> None:
    model = load(folder / "model")
    retrieval: Any = model.config.model.decoder.retrieval
    about = read_about(folder / "index")
    assert (retrieval.kind, retrieval.chunk, retrieval.neighbours) == ("retro", CHUNK, 2)
    assert model.config.train.index == str(folder / "index")
    assert model.config.train.index_fingerprint == about.fingerprint
    assert model.tokenizer.fingerprint() == about.settings["tokenizer"]


def test_pieces_of_a_text_come_with_the_neighbours_of_their_chunks(folder: Path) -> None:
    config = load(folder / "model").config
    texts = read_texts(TrainingFiles(text=[str(folder / "corpus.txt")]), by_documents=True)
    index = open_chunk_index(folder / "index", load_embedder)
    training, valid = make_retrieval_datasets(config, texts, index.tokenizer)
    assert isinstance(valid, WholeRetrievalDataset)
    for dataset in (training, valid):
        covered = 0
        for shard in dataset.epoch(1):
            for number in range(len(shard.examples)):
                example = shard.examples[number]
                start = int(shard.examples.starts[number])  # type: ignore[attr-defined]
                assert (
                    start % CHUNK == 0
                    and example.target.tolist() == dataset.text.ids[start : start + len(example.target)].tolist()
                )
                complete = (len(example.target) - 1) // CHUNK
                assert example.neighbours.shape == (complete, 2, 2 * CHUNK)
                rows = dataset.neighbours[start // CHUNK : start // CHUNK + complete]
                assert np.array_equal(example.neighbours, index.retrieved_tokens(rows))
                covered += len(example.target) - 1
        assert covered == dataset.size if dataset is valid else covered > 0.9 * dataset.size
    examples = [shard.examples[0] for shard in (*valid.epoch(0), *training.epoch(0))]
    batch: Any = config.train.objective.collate(examples, load(folder / "model").special_tokens, None)
    assert batch.neighbours.ids.shape == (2, batch.labels.shape[1] // CHUNK, 2, 2 * CHUNK)
    padded = batch.pad_to(4, 16)
    assert padded.neighbours.ids.shape == (4, padded.labels.shape[1] // CHUNK, 2, 2 * CHUNK)
    assert not padded.neighbours.valid[2:].any()
    assert collate_neighbours([examples[0]._replace(neighbours=None)], 16) is None


def test_no_document_is_held_out_in_part(folder: Path) -> None:
    texts = read_texts(TrainingFiles(text=[str(folder / "corpus.txt")]), by_documents=True)
    assert texts.valid_text is not None and texts.text is not None
    lines = list(texts.valid_text.read())
    assert list(texts.text.read())[-1] == "" and lines[0] and len(lines) % 3 == 0 and len(lines) >= 6
    assert hold_out_documents(texts.text, texts.text.counts.lines) == texts.text.counts.lines


def test_training_goes_on_where_it_stopped(folder: Path, tmp_path: Path) -> None:
    steady = {**SETTINGS, "train.schedule": "constant(0.001)"}
    train(folder, tmp_path / "whole", steps=4, set=steady)
    for steps in (2, 4):
        train(folder, tmp_path / "again", steps=steps, set=steady)
    whole, again = (load(tmp_path / name).model.state_dict() for name in ("whole", "again"))
    for name, weight in again.items():
        assert torch.equal(weight, whole[name]), name
    with pytest.raises(HeadwayError, match="holds a run with other settings: train.index_fingerprint"):
        shutil.copytree(folder / "index", tmp_path / "index")
        about = tmp_path / "index" / "index.json"
        about.write_text(about.read_text().replace('"documents": "blank"', '"documents": "lines"'))
        headway.train(
            str(folder / "corpus.txt"), tmp_path / "again", index=tmp_path / "index", preset="tiny_lm", set=steady,
            steps=6, device="cpu", progress=False,
        )  # fmt: skip


def test_perplexity_with_and_without_neighbours(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = load(folder / "model")
    text = (folder / "corpus.txt").read_text()[-700:]
    found, without = model.perplexity(text), model.with_index("none").perplexity(text)
    assert found.tokens == without.tokens and found.loss != without.loss
    assert model.with_index(folder / "index").perplexity(text) == found
    (folder / "test.txt").write_text(text)
    words = ["evaluate", "--model", str(folder / "model"), "--text", str(folder / "test.txt"), "--device", "cpu"]
    printed = []
    for index in ([], ["--index", str(folder / "index")], ["--index", "none"]):
        capsys.readouterr()
        assert main([*words, *index]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != printed[2]


@torch.no_grad()
def test_a_search_retrieves_when_a_chunk_is_complete(folder: Path) -> None:
    """Greedily and with a beam: every token is the likeliest under one pass over the whole text with its neighbours."""
    model = load(folder / "model")
    special, prefix = model.make_prompt("word1 word2 word3 word4 word5")
    search = Search(beam_size=1, max_length=len(prefix) + 30)
    found = decode(model.stepper, None, special_tokens=special, search=search, prefixes=[prefix])[0][0].ids
    ids = [special.start, *found]
    assert len(ids) > 4 * CHUNK
    hidden = model.model.decode(torch.tensor([ids]), neighbours=model.neighbours_of(ids))
    logits = model.model.logits(hidden)[0]
    logits[:, list(special.suppress)] = -torch.inf
    assert logits[len(prefix) : -1].argmax(1).tolist() == found[len(prefix) :]
    without = model.model.logits(model.model.decode(torch.tensor([ids])))[0]
    assert not torch.allclose(without[CHUNK:], logits[CHUNK:], atol=1e-4)
    beams = decode(
        model.stepper, None, special_tokens=special, search=Search(beam_size=3, max_length=30), prefixes=[prefix]
    )
    assert beams[0][0].score >= -1e9
    assert (
        "".join(model.stream("word1 word2", length=12, beam_size=1))
        == model("word1 word2", length=12, beam_size=1)[11:]
    )


@torch.no_grad()
def test_rows_of_a_search_retrieve_by_themselves(folder: Path) -> None:
    model = load(folder / "model")
    plain = ModelStepper(model.model)
    asked: list[torch.Tensor] = []

    def retrieve(chunks: torch.Tensor) -> Neighbours:
        asked.append(chunks)
        assert model.retriever is not None
        return model.retriever(chunks)

    stepper = RetrievalStepper(plain, retrieve)
    lengths = torch.tensor([19, 7, 8])
    ids, valid = torch.randint(4, 300, (3, 19)), valid_mask(lengths, 19)
    state = stepper.start(None, None, 3)
    first = stepper.step(state, ids, valid)
    more = torch.randint(4, 300, (3, 2))
    order = torch.tensor([2, 0, 1])
    state.select(order)
    steps = [first, *(stepper.step(state, more[:, t : t + 1]) for t in range(2))]
    for row, own in enumerate(order.tolist()):
        whole = torch.cat([ids[own, : lengths[own]], more[row]])
        hidden = model.model.decode(whole[None], neighbours=model.neighbours_of(whole.tolist()))
        expected = model.model.logits(hidden)[0].log_softmax(-1)
        torch.testing.assert_close(steps[2][row], expected[-1], rtol=0, atol=1e-5)
        torch.testing.assert_close(first[own], expected[lengths[own] - 1], rtol=0, atol=1e-5)
    assert [len(chunks) for chunks in asked] == [3, 1], "row 1 completes its first chunk one step later"


def test_in_eight_bits(folder: Path, tmp_path: Path) -> None:
    assert main(["pack", "--int8", "--model", str(folder / "model"), "--out", str(tmp_path / "small")]) == 0
    text = (folder / "corpus.txt").read_text()[:500]
    losses = [load(path).perplexity(text).loss for path in (folder / "model", tmp_path / "small")]
    assert losses[0] == pytest.approx(losses[1], rel=0.05) and losses[0] != losses[1]
    assert load(tmp_path / "small")("word1", length=20, seed=1)


def test_a_trace_reads_the_neighbours(folder: Path) -> None:
    model = load(folder / "model")
    text = " ".join(f"word{n}" for n in range(12))
    trace = model.trace(text, length=0)
    assert "decoder.0.neighbours.weights" in trace.tensors
    assert "decoder.0.neighbours.weights" not in model.with_index("none").trace(text, length=0).tensors
    retriever = model.retriever
    assert retriever is not None
    first, rest = retriever.text_of(0)
    assert (folder / "corpus.txt").read_text().startswith(first + rest)


def test_an_index_must_fit(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("quite other words\n\n" * 20)
    for chunk, corpus, words in (
        (16, folder / "corpus.txt", "has chunks of 16 tokens, and decoder.retrieval.chunk is 8"),
        (CHUNK, tmp_path / "other.txt", "built with another tokenizer"),
    ):
        out = tmp_path / str(chunk)
        assert main(["index", str(corpus), "--out", str(out), "--chunk-tokens", str(chunk), "--width", "16"]) == 0
        with pytest.raises(HeadwayError, match=words):
            load(folder / "model").with_index(out)


def test_an_index_that_is_gone(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "model", tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(config.read_text().replace(str(folder / "index"), str(tmp_path / "gone")))
    model = load(tmp_path / "model")
    with pytest.raises(HeadwayError, match="is not there any more. Say where it is: --index"):
        model.perplexity("word1 " * 30)
    assert model.with_index("none").perplexity("word1 " * 30).tokens
    config.write_text(config.read_text().replace(f'    "index": "{tmp_path / "gone"}",\n', ""))
    with pytest.raises(HeadwayError, match="its config names no index"):
        load(tmp_path / "model").perplexity("word1 " * 30)


def test_only_models_that_retrieve_take_an_index(
    folder: Path, lm_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = load(lm_dir)
    with pytest.raises(HeadwayError, match="this model retrieves nothing"):
        plain.with_index(folder / "index")
    assert plain.with_index("none").retriever is None
    assert main(["evaluate", "--index", "x", "--source", "a", "--target", "b"]) == 2
    assert "--index is for the perplexity of a text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train.max_tokens": 20}, "train.max_tokens = 20 must be a multiple of the 8 tokens of a chunk"),
        ({"train.objective": "causal(carry=true)"}, "a model that retrieves is not trained with carry"),
        ({"model.decoder.retrieval.chunk": 16}, "has chunks of 8 tokens, and decoder.retrieval.chunk is 16"),
    ],
)
def test_what_cannot_be_trained(folder: Path, tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises((ConfigError, HeadwayError), match=words):
        train(folder, tmp_path / "model", steps=1, set={**SETTINGS, **changes})


def test_an_index_needs_a_model_that_retrieves(folder: Path, tmp_path: Path) -> None:
    given: Any = {"set": {"train.index": "x"}, "preset": "tiny_lm", "device": "cpu", "progress": False, "steps": 1}
    with pytest.raises(ConfigError, match="an index is for models that retrieve"):
        headway.train(str(folder / "corpus.txt"), tmp_path / "model", **given)
