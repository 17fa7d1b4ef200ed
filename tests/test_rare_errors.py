"""Errors that only rare inputs trigger, each by the smallest of them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from answering.manual import make_index

import headway
from headway.answering import document_files
from headway.answering.document_files import find_documents
from headway.answering.passage_index import build_passage_index, open_passage_index
from headway.cli.verbs.page import _example_texts
from headway.config.schema import from_dict, make_part
from headway.config.search import Search
from headway.decode import dispatch
from headway.decode.mask_predict import Refinement
from headway.errors import ConfigError, HeadwayError
from headway.inspect import iteration_tracer
from headway.inspect.attribution import attribute_translation
from headway.inspect.influence import measure_influence
from headway.inspect.static_site import write_site
from headway.inspect.trace import _parse_iteration
from headway.nn.transformer import Transformer
from headway.text.tokenizer.special_tokens import SpecialTokens
from headway.train.sources import TrainingFiles
from headway.train.task_setup import take_encoder
from headway.workflows.evaluation import measure_denoising

UNMASKED = SpecialTokens(pad=0, start=1, end=2, mask=-1, vocabulary=9)


def test_documents_that_are_too_many_none_or_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(HeadwayError, match="no documents found: give files or folders"):
        find_documents([tmp_path / "none"])
    (tmp_path / "some").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "some" / name).write_text("\n")
    with pytest.raises(HeadwayError, match="these documents have no text"):
        build_passage_index([tmp_path / "some"], tmp_path / "index")
    monkeypatch.setattr(document_files, "MAX_FILES", 1)
    with pytest.raises(HeadwayError, match="more than 1 files, the limit"):
        find_documents([tmp_path / "some"])


def test_an_index_whose_passages_are_damaged(tmp_path: Path) -> None:
    index = make_index(tmp_path)
    index.documents = index.documents[:0]
    with pytest.raises(HeadwayError, match="is damaged. Build the index again"):
        index.read_source(0)
    path = index.passages.path
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(HeadwayError, match="is damaged. Build the index again"):
        open_passage_index(tmp_path / "index").read_source(0)


def test_prefixes_of_tasks_that_do_not_fit() -> None:
    files: dict[str, Any] = {"pairs": ("a", "b"), "valid_pairs": ("v",), "prefixes": ("x:", "y:")}
    with pytest.raises(ConfigError, match="there are 1 to validate on"):
        TrainingFiles(**files).check()
    with pytest.raises(ConfigError, match="give the corpus twice"):
        TrainingFiles(pairs=("a",), prefixes=("x:",), both_ways=True).check()


@pytest.mark.parametrize("objective", ["denoising", "masked_target"])
def test_a_vocabulary_without_a_mask(objective: str) -> None:
    part: Any = make_part("objective", objective)
    with pytest.raises(ConfigError, match="this vocabulary has no mask token"):
        part.check_vocabulary(UNMASKED, 16)


def test_an_adapter_is_no_task() -> None:
    model = SimpleNamespace(sides=["encoder"], reasoner=None)
    pretrained: Any = SimpleNamespace(config=SimpleNamespace(model=model), folder="m", lora=8)
    with pytest.raises(ConfigError, match="an adapter has no head of its own"):
        take_encoder(pretrained, SimpleNamespace(task="classify"))  # type: ignore[arg-type]


def test_memory_tokens_write_token_after_token() -> None:
    side = {"layers": 1, "mixer": "attention(2)"}
    decoder = side | {"memory_tokens": "prefix(2)", "mask": "full"}
    table = {"d_model": 8, "vocabulary": 9, "encoder": side, "decoder": decoder, "predicted_length": 16}
    with pytest.raises(ConfigError, match="memory tokens in a decoder need one that writes token after token"):
        from_dict(Transformer.Config, table).resolved()


def test_logits_that_are_no_numbers() -> None:
    broken: Any = SimpleNamespace(model=SimpleNamespace(logits=lambda hidden: hidden * float("nan")))
    with pytest.raises(HeadwayError, match="not numbers"):
        Refinement.choose_tokens(broken, torch.ones(1, 3))


def test_iterations_of_different_lengths() -> None:
    with pytest.raises(ValueError, match="an iteration is inconsistent"):
        _parse_iteration({"read": [1], "ids": [1, 2], "logps": [0.5]})


def test_an_ensemble_has_no_attribution() -> None:
    ensemble: Any = SimpleNamespace(steppers=[0, 0])
    with pytest.raises(HeadwayError, match="an attribution needs a single model, not an ensemble of 2"):
        attribute_translation(ensemble, [5], [6])


def test_a_layer_that_reads_more_than_the_text() -> None:
    side = {"layers": 1, "mixer": "attention(2)", "memory_tokens": "prefix(2)"}
    table = {"d_model": 8, "vocabulary": 9, "encoder": side, "decoder": {"layers": 0}, "head": "masked"}
    model = Transformer(from_dict(Transformer.Config, table)).eval()
    with pytest.raises(HeadwayError, match="reads other vectors beside those of the tokens"):
        measure_influence(model, [5, 6], [], "encoder.0.self")


def test_mask_predict_without_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "find_method", lambda stepper, search: object())
    with pytest.raises(HeadwayError, match="mask_predict needs a source"):
        dispatch.decode(None, None, special_tokens=UNMASKED, search=Search())  # type: ignore[arg-type]


def test_settings_of_a_search_that_do_not_exist() -> None:
    model: Any = None  # is not asked before the settings are known
    with pytest.raises(ConfigError, match='there is no setting "tempo"'):
        headway.LanguageModel.search(model, [], tempo=1)


def test_a_text_without_anything_to_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = SimpleNamespace(size=0)
    monkeypatch.setattr("headway.data.encoding.encode_lines", lambda tokenizer, lines: None)
    monkeypatch.setattr("headway.train.line_dataset.LineDataset", lambda *given: empty)
    train = SimpleNamespace(max_tokens=8, objective=SimpleNamespace(lines=1))
    translator: Any = SimpleNamespace(
        config=SimpleNamespace(train=train), tokenizers=SimpleNamespace(target=SimpleNamespace())
    )
    with pytest.raises(HeadwayError, match="no line of two tokens or more"):
        measure_denoising(translator, [""])


def test_sites_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HeadwayError, match="is a file. Give --static a directory"):
        write_site([], tmp_path / "file")
    with pytest.raises(HeadwayError, match="a site needs at least one text"):
        write_site([], tmp_path / "site")
    with pytest.raises(HeadwayError, match="cannot be written"):
        write_site([], tmp_path / "file" / "below")


def test_a_site_in_a_language_without_examples() -> None:
    train = SimpleNamespace(objective=SimpleNamespace(kind="translation"))
    loaded: Any = SimpleNamespace(config=SimpleNamespace(train=train))
    with pytest.raises(HeadwayError, match="there are no example texts in qtx: give --text"):
        _example_texts(loaded, "qtx", "m")


def test_iterations_that_end_in_another_output(monkeypatch: pytest.MonkeyPatch) -> None:
    def iterate(*given: Any, on_iteration: Any, **more: Any) -> None:
        on_iteration(1, torch.tensor([[7]]), torch.zeros(1, 1))

    monkeypatch.setattr(iteration_tracer, "find_method", lambda stepper, search: object())
    monkeypatch.setattr(iteration_tracer, "mask_predict", iterate)
    stepper = SimpleNamespace(reference_model=SimpleNamespace(device="cpu"))
    translator: Any = SimpleNamespace(steppers=[stepper], special_tokens=UNMASKED)
    with pytest.raises(HeadwayError, match="do not end in its output"):
        iteration_tracer.trace_iterations(translator, [5], Search(), [8])
