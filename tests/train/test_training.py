"""headway.train: data of every form, settings as values, callbacks, resuming; a loop of one's own; the command line."""

import inspect
from collections.abc import Iterator
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import torch
from quick_training import PAIRS, QUICK, SMALL, TEXT

import headway
from headway.cli.app import main
from headway.errors import ConfigError, HeadwayError
from headway.storage.model_dir import load_model
from headway.train.callbacks import (
    CallbackList,
    CheckpointEvent,
    EndEvent,
    StepEvent,
    TrainingEvent,
    ValidationEvent,
)
from headway.train.checkpoints import list_checkpoints
from headway.train.history import read_history
from headway.train.options import TrainKeywords, TrainOptions
from headway.train.progress import SilentProgress
from headway.train.sources import TrainingFiles
from headway.train.training import prepare


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_model(folder).model.state_dict()


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# ---- the call


def test_pairs_in_a_translator_out(tmp_path: Path) -> None:
    result = headway.train(PAIRS, out=tmp_path / "m", languages=("en", "qtx"), **QUICK)
    assert isinstance(result, headway.TrainingResult)
    assert (result.folder, result.step, result.reason) == (tmp_path / "m", 4, "train.steps = 4 reached")
    assert result.translator is result.translator and isinstance(result.translator("The dog sleeps."), str)
    assert result.translator.summary.target_languages == ("qtx",)
    assert [entry["kind"] for entry in result.history] == ["step", "validation", "step", "validation", "end"]
    assert "m'" in repr(result) and "step=4" in repr(result)
    with pytest.raises(HeadwayError, match="is a translator: it is result.translator"):
        _ = result.language_model


def test_texts_in_a_language_model_out(tmp_path: Path) -> None:
    lines = (source for source, _ in PAIRS)
    options = {**QUICK, "preset": "tiny_lm", "set": TEXT}
    result = headway.train(lines, out=str(tmp_path / "m"), valid=["The dog sleeps."] * 9, **options)
    assert result.language_model("The", length=3).startswith("The")
    with pytest.raises(HeadwayError, match="is a language model: it is result.language_model"):
        _ = result.translator


def test_the_same_text_in_any_form_trains_the_same_model(tmp_path: Path) -> None:
    sides = [list(side) for side in zip(*PAIRS)]
    for name, lines in zip(("train.en", "train.qtx"), sides):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "both.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    valid = PAIRS[:5]
    first = headway.train(PAIRS, out=tmp_path / "list", valid=valid, **QUICK)
    forms: dict[str, Any] = {
        "dict": {"source": sides[0], "target": sides[1]},
        "files": {"source": tmp_path / "train.en", "target": str(tmp_path / "train.qtx")},
        "table": str(tmp_path / "both.tsv"),
        "corpora": [headway.Corpus(PAIRS)],
    }
    for name, data in forms.items():
        result = headway.train(data, out=tmp_path / name, valid=iter(valid), **QUICK)
        assert_same(weights(first.folder), weights(result.folder))


def test_the_command_line_is_the_same_call(tmp_path: Path) -> None:
    files = {"source": [], "target": []}  # type: dict[str, list[str]]
    for name, side, lines in zip(("train.en", "train.qtx"), files, zip(*PAIRS)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        files[side] = [str(tmp_path / name)]
    words = [word for path, value in SMALL.items() for word in ("--set", f"{path}={value}")]
    given = [word for side, (path,) in files.items() for word in (f"--{side}", path)]
    assert (
        main(["-q", "train", *given, "--preset", "tiny", *words, "--steps", "4", "--out", str(tmp_path / "one")]) == 0
    )
    result = headway.train(TrainingFiles(**files), out=tmp_path / "other", **QUICK)
    assert_same(weights(tmp_path / "one"), weights(result.folder))


def test_languages_are_those_of_columns_files_or_the_call(tmp_path: Path) -> None:
    def languages(data: Any, **options: Any) -> tuple[Any, Any]:
        config = prepare(data, **{**QUICK, **options}).config
        return config.source_languages, config.target_languages

    sides = [list(side) for side in zip(*PAIRS)]
    table = {"en": sides[0], "de": sides[1]}
    assert languages(table) == (("en",), ("de",))
    assert languages(table, languages=("en", "de"), both_ways=True) == (("en", "de"), ("de", "en"))
    assert languages(PAIRS) == ((), ())
    for name, lines in zip(("a.en", "a.de"), sides):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "a.en-fr.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    assert languages({"source": tmp_path / "a.en", "target": tmp_path / "a.de"}) == (("en",), ("de",))
    assert languages({"en": tmp_path / "a.en", "fr": tmp_path / "a.de"}) == (("en",), ("fr",))
    assert languages(tmp_path / "a.en-fr.tsv") == (("en",), ("fr",))
    several = [headway.Corpus(table, weight=2.0), headway.Corpus(PAIRS, languages=("en", "fr"))]
    assert languages(several) == (("en",), ("de", "fr"))
    assert [corpus.weight for corpus in prepare(several, **QUICK).texts.pairs] == [2.0, 1.0]


def test_settings_are_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my.toml").write_text("[train]\nseed = 5\nclip = 5.0\n")
    monkeypatch.setenv("HEADWAY_CONFIG__TRAIN__CLIP", "6.0")
    quick = {**QUICK, "steps": None}
    config = prepare(PAIRS, config=tmp_path / "my.toml", **quick).config
    assert (config.train.seed, config.train.clip, config.train.steps) == (5, 6.0, 4000)
    config = prepare(PAIRS, config={"train": {"seed": 7}, "train.epochs": 3, "train.clip": 7}, **quick).config
    assert (config.train.seed, config.train.clip, config.train.epochs) == (7, 6.0, 3)
    config = prepare(PAIRS, **{**quick, "seed": 8, "seconds": 9.5, "set": {**SMALL, "train.clip": 8.0}}).config
    assert (config.train.seed, config.train.clip, config.train.seconds) == (8, 8.0, 9.5)
    whole = headway.presets.tiny(vocabulary=300)
    again = prepare(PAIRS, config=whole, device="cpu", progress=False, set={"tokenizer": whole.tokenizer}).config
    assert again.model.encoder == whole.model.encoder and again.model.vocabulary != 300


def test_a_config_keeps_its_languages_where_the_text_has_none() -> None:
    from dataclasses import replace

    whole = replace(headway.presets.tiny(vocabulary=300), source_languages=("en",), target_languages=("qtx",))
    config = prepare(PAIRS, config=whole, device="cpu", progress=False).config
    assert (config.source_languages, config.target_languages) == (("en",), ("qtx",))


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ([], {}, "data is empty"),
        (PAIRS, {"valid": []}, "valid is empty"),
        ([("", "a"), ("b", "")], {}, "data holds no pair with text on both sides."),
        (["", " "], {}, "data holds no text."),
        (PAIRS, {"valid": ["text"]}, "data holds pairs and running text"),
        (["a b"] * 50, {"both_ways": True}, "both_ways and noise are for pairs"),
        ([headway.Corpus(["a"]), headway.Corpus(["b"])], {}, "several corpora are for pairs"),
        ([headway.Corpus(PAIRS), headway.Corpus([("a", None)])], {}, r"data\[1\]\[0\]: the target is None"),
        ({"en": "a.en", "de": "a.de", "fr": "a.fr"}, {}, "a.en, a.de, a.fr: give two files, of source and target."),
        ("missing.tsv", {}, "missing.tsv"),
        (PAIRS, {"preset": "tiny", "config": headway.presets.tiny(vocabulary=9)}, "a Config has its own settings"),
        (PAIRS, {"from_model": "m"}, "preset and from_model were both given, and the model has its own settings"),
        (PAIRS, {"preset": "auto", "from_model": "m", "tokenizer": "n"}, "the model has its own tokenizer"),
        (PAIRS, {"set": {"train..seed": 3}}, '"train..seed" is no path of a setting'),
        (PAIRS, {"set": {"train.sed": 3}}, 'train: there is no setting "sed" here. Did you mean "seed"'),
        (PAIRS, {"callbacks": [3]}, "callbacks: a callback is a function of one event, .* and int has none of them"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    tmp_path: Path, data: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(HeadwayError, match=message):
        headway.train(data, out=tmp_path / "m", **{**QUICK, **options})
    assert not (tmp_path / "m").exists()


def test_an_empty_file_of_text(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(HeadwayError, match="empty.txt: there is no text in it"):
        headway.train(tmp_path / "empty.txt", out=tmp_path / "m", **QUICK)


def test_the_signature_shows_every_keyword() -> None:
    names = {field.name for field in fields(TrainOptions)}
    assert names == set(get_type_hints(TrainKeywords))
    assert set(inspect.signature(headway.train).parameters) == {"data", "out", *names} - {"flags"}
    with pytest.raises(TypeError, match="unexpected keyword argument 'step'"):
        headway.train(PAIRS, out="x", step=3)  # type: ignore[call-arg]


def test_progress_is_shown_on_stderr_unless_it_is_not_wanted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shown = {**QUICK, "progress": True, "set": {**SMALL, "train.decode_lines": 2}}
    headway.train(PAIRS, out=tmp_path / "m", valid=PAIRS[:5], **shown)
    out, err = capsys.readouterr()
    assert out == "" and "step 4  loss " in err and "step 4  validation loss " in err and "BLEU" in err
    assert "warning: " in err  # the validation text is in the training text, too
    headway.train(PAIRS, out=tmp_path / "n", **QUICK)
    assert capsys.readouterr() == ("", "")


# ---- callbacks


class Watch:
    """Records what it is told."""

    def __init__(self) -> None:
        self.events: list[TrainingEvent] = []

    def on_step(self, event: StepEvent) -> None:
        assert event.loss > 0 and event.learning_rate == 0.01 and event.tokens > 0 and 0 < event.done <= 1
        assert isinstance(event.model, torch.nn.Module)
        self.events.append(event)

    def on_validation(self, event: ValidationEvent) -> None:
        assert event.result.loss > 0 and list_checkpoints(event.model and self.out)[-1].step == event.step
        self.events.append(event)

    def on_checkpoint(self, event: CheckpointEvent) -> None:
        self.out = event.folder.parents[1]
        assert (event.folder / "model.safetensors").exists()
        self.events.append(event)

    def on_end(self, event: EndEvent) -> None:
        assert_same(event.model.state_dict(), weights(event.folder))
        self.events.append(event)


def test_every_event_is_told_to_methods_and_functions(tmp_path: Path) -> None:
    watch, told = Watch(), []  # type: tuple[Watch, list[TrainingEvent]]
    headway.train(PAIRS, out=tmp_path / "m", callbacks=[watch, told.append], **QUICK)
    assert watch.events == told
    names = [(type(event).__name__.removesuffix("Event"), event.step) for event in told]
    saved = [("Checkpoint", 2), ("Validation", 2)]
    assert names[:4] == [("Step", 1), ("Step", 2), *saved]
    assert names[4:] == [("Step", 3), ("Step", 4), ("Checkpoint", 4), ("Validation", 4), ("End", 4)]
    assert all(0 < event.seconds < 60 for event in told) and "model" not in repr(told[0])


def test_a_callback_stops_the_run_and_the_model_is_whole(tmp_path: Path) -> None:
    def stop(event: TrainingEvent) -> None:
        if event.step == 3:
            event.stop("the loss is low enough")

    result = headway.train(PAIRS, out=tmp_path / "m", callbacks=[stop], **QUICK)
    assert (result.step, result.reason) == (3, "the loss is low enough")
    assert [entry["step"] for entry in result.history if entry["kind"] == "validation"] == [2, 3]
    assert isinstance(result.translator("a"), str)


@pytest.mark.parametrize(
    ("method", "step"),
    [("on_step", 3), ("on_validation", 2), ("on_validation", 4), ("on_checkpoint", 2), ("on_end", 4)],
)
def test_an_error_in_a_callback_is_reported_by_name_and_loses_nothing(tmp_path: Path, method: str, step: int) -> None:
    later: list[TrainingEvent] = []

    def fail(event: TrainingEvent) -> None:
        if event.step == step:
            raise ValueError("no such column")

    mine = type("Mine", (), {method: staticmethod(fail)})()
    with pytest.raises(HeadwayError) as caught:
        headway.train(PAIRS, out=tmp_path / "m", callbacks=[mine, later.append], **QUICK)
    assert str(caught.value) == (
        f"the callback Mine.{method} failed at step {step}: ValueError: no such column. Nothing is lost: a checkpoint "
        f"is saved in {tmp_path / 'm'}, and the same call resumes from there."
    )
    assert isinstance(caught.value.__cause__, ValueError)
    assert list_checkpoints(tmp_path / "m")[-1].step == step
    load_model(tmp_path / "m")
    resumed = headway.train(PAIRS, out=tmp_path / "m", **QUICK)
    whole = headway.train(PAIRS, out=tmp_path / "whole", **QUICK)
    assert resumed.step == 4
    assert_same(list_checkpoints(resumed.folder)[-1].weights, list_checkpoints(whole.folder)[-1].weights)


@pytest.mark.parametrize(
    ("callback", "fault"),
    [
        (Watch, "Watch is a class: give an object of it"),
        (type("Typo", (), {"on_validate": print})(), "Typo has on_validate"),
    ],
)
def test_a_callback_that_would_never_be_called_is_refused(callback: Any, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        CallbackList([callback])


# ---- resuming


def test_the_same_call_resumes_a_generator_too(tmp_path: Path) -> None:
    def pairs() -> Iterator[tuple[str, str]]:
        yield from PAIRS

    notes: list[str] = []

    class Notes(SilentProgress):
        def on_note(self, message: str) -> None:
            notes.append(message)

    headway.train(pairs(), out=tmp_path / "m", **{**QUICK, "steps": 2})
    headway.train(pairs(), out=tmp_path / "m", **{**QUICK, "progress": Notes()})
    headway.train(PAIRS, out=tmp_path / "whole", **QUICK)
    assert any("resuming from step 2" in note for note in notes)
    assert_same(weights(tmp_path / "m"), weights(tmp_path / "whole"))
    assert [entry["step"] for entry in read_history(tmp_path / "m") if entry["kind"] == "validation"] == [2, 4]
    with pytest.raises(HeadwayError, match="training text"):
        headway.train(PAIRS[:50], out=tmp_path / "m", **{**QUICK, "steps": 6})
    assert headway.train(PAIRS[:50], out=tmp_path / "m", allow_changes=True, **{**QUICK, "steps": 6}).step == 6


def test_fine_tuning_and_a_borrowed_tokenizer(tmp_path: Path) -> None:
    base = headway.train(PAIRS, out=tmp_path / "base", **QUICK)
    fine = {"steps": 2, "device": "cpu", "progress": False}
    tuned = headway.train(PAIRS[:30], out=tmp_path / "tuned", from_model=base.folder, **fine)
    assert tuned.translator.config.model == base.translator.config.model
    other = headway.train(PAIRS, out=tmp_path / "other", tokenizer=base.folder, **QUICK)
    assert other.translator.tokenizers.fingerprints == base.translator.tokenizers.fingerprints


# ---- a loop of one's own


def test_a_loop_of_ones_own_takes_the_steps_of_the_trainer(tmp_path: Path) -> None:
    still = {**SMALL, "model.dropout": 0.0, "train.optimiser": "sgd", "train.clip": 0.0}
    setup = prepare(PAIRS, **{**QUICK, "set": still})
    model = setup.make_model()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for batch in islice(setup.batches(epochs=9), 4):
        loss = setup.loss(model, batch)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    folder = setup.save(model, tmp_path / "own", step=4)
    told: list[float] = []
    watch = type("W", (), {"on_step": lambda self, event: told.append(event.loss)})()
    result = headway.train(PAIRS, out=tmp_path / "run", callbacks=[watch], **{**QUICK, "set": still})
    assert losses == pytest.approx(told, abs=1e-5)
    for name, tensor in weights(result.folder).items():
        torch.testing.assert_close(weights(folder)[name], tensor, atol=1e-6, rtol=0)
    assert setup.validate(model).loss == pytest.approx(result.result.loss, abs=1e-5) and model.training
    assert isinstance(headway.load(folder), headway.Translator)


def test_epochs_of_batches() -> None:
    setup = prepare(PAIRS, **QUICK)
    one = [batch.labels for batch in setup.batches()]
    two = [batch.labels for batch in setup.batches(epochs=2)]
    assert len(two) == 2 * len(one) and not list(setup.batches(epochs=0))
    assert all(torch.equal(a, b) for a, b in zip(one, two))
    second = [batch.labels for batch in setup.batches(first_epoch=1)]
    assert all(torch.equal(a, b) for a, b in zip(second, two[len(one) :]))


def test_batches_with_bpe_dropout_and_of_a_model_to_fine_tune(tmp_path: Path) -> None:
    drops = {**SMALL, "tokenizer": {"kind": "bpe", "size": 330, "dropout": 0.5}}
    setup = prepare(PAIRS, **{**QUICK, "set": drops})
    assert sum(batch.text_count for batch in setup.batches()) == len(PAIRS) - 3
    folder = setup.save(setup.make_model(), tmp_path / "m")
    again = prepare(PAIRS, from_model=folder, device="cpu", progress=False).make_model()
    assert_same(weights(folder), again.state_dict())
