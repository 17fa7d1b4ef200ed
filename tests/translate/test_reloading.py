"""Models in other processes and threads: forked, pickled, copied, and used by many at once."""

import asyncio
import copy
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from event_loops import run_async

import headway
from headway.decode.reference.model import ModelStepper
from headway.errors import HeadwayError
from headway.storage.model_dir import load_model
from headway.translate import reloading
from headway.translate.language_model import LanguageModel
from headway.translate.translator import Translator, load, load_translator

HANG_SECONDS = 120  # a forked child that has not answered by then never will
ENGINES = [("native", "int8"), ("ctranslate2", "float32"), ("torch", "int8"), ("torch", "float32")]


@pytest.fixture(scope="module")
def lines(toy: Path) -> list[str]:
    return (toy / "test.en").read_text().splitlines()[:40]


def ask_forked_child(question: Callable[[], str]) -> str:
    """What a forked process answers; it is killed if it hangs."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, question().encode())
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.close(writer)
    alarm = threading.Timer(HANG_SECONDS, os.kill, (child, signal.SIGKILL))
    alarm.start()
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read().decode()
    alarm.cancel()
    os.waitpid(child, 0)
    return answer


@pytest.mark.parametrize(("engine", "compute"), ENGINES)
def test_a_forked_child_translates(translator_dir: Path, lines: list[str], engine: Any, compute: Any) -> None:
    threads = torch.get_num_threads()
    translator = load_translator(translator_dir, device="cpu", engine=engine, compute=compute, threads=2)
    expected = translator(lines)  # which starts its threads
    assert ask_forked_child(lambda: "\n".join(translator(lines))) == "\n".join(expected)
    assert translator(lines[:3]) == expected[:3], "the parent goes on"
    torch.set_num_threads(threads)


def test_a_child_of_a_process_that_translates(translator_dir: Path, lines: list[str]) -> None:
    """Another thread may hold any lock at that moment."""
    translator = load_translator(translator_dir, device="cpu", compute="int8", threads=2)
    expected = translator(lines[0])
    done = threading.Event()

    def go_on() -> None:
        while not done.is_set():
            translator(lines)

    worker = threading.Thread(target=go_on)
    worker.start()
    try:
        for _ in range(5):
            time.sleep(0.02)
            assert ask_forked_child(lambda: translator(lines[0])) == expected
    finally:
        done.set()
        worker.join()


def test_a_forked_language_model(lm_dir: Path) -> None:
    model = load(lm_dir, "cpu")
    assert isinstance(model, LanguageModel)
    expected = model("The", seed=1, length=8)
    assert ask_forked_child(lambda: model("The", seed=1, length=8)) == expected


def test_a_gpu_is_not_for_forked_children(translator_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = load_translator(translator_dir, device="cpu", engine="torch")
    translator("A dog.")
    monkeypatch.setattr(translator.steppers[0], "device", torch.device("cuda"))
    told = ask_forked_child(lambda: str(translator.steppers[0].check_process()))
    assert told.startswith("HeadwayError: this model is on a GPU, and was loaded before this process was forked")
    stepper = translator.steppers[0]
    assert isinstance(stepper, ModelStepper)
    stepper.check_process()
    monkeypatch.setattr(stepper, "process", -1)
    with pytest.raises(HeadwayError, match='Load it in each process, or start them with the method "spawn"'):
        stepper.check_process()


POOLS = """
import multiprocessing
import sys
import headway

if __name__ == "__main__":
    translator = headway.load(sys.argv[1], "cpu", compute="int8")
    with open(sys.argv[2]) as file:
        lines = file.read().splitlines()[:12]
    expected = translator(lines)
    for method in sys.argv[3:]:
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(translator, lines, chunksize=2) == expected, method
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_of_processes(translator_dir: Path, toy: Path, method: str, tmp_path: Path) -> None:
    script = tmp_path / "pools.py"
    script.write_text(POOLS)
    command = [sys.executable, str(script), str(translator_dir), str(toy / "test.en"), method]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, env={**os.environ})
    assert ran.returncode == 0, ran.stderr


def test_futures(translator_dir: Path, lines: list[str]) -> None:
    translator = load_translator(translator_dir, device="cpu", compute="int8")
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        assert list(pool.map(translator, lines, chunksize=10)) == translator(lines)


def test_pickled_by_path_and_settings(translator_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(translator_dir.parent)
    translator = load_translator(translator_dir.name, device="cpu", compute="int8", threads=1)
    translator.batch_tokens = 100
    packed = pickle.dumps(translator)
    assert len(packed) < 1000, "no weights"
    monkeypatch.chdir("/")
    assert translator("A dog.", sample=True, beam_size=1), "which loads it in torch"
    reloading.reload_model.cache_clear()
    again = pickle.loads(packed)
    assert pickle.loads(packed) is again, "a process loads it once"
    assert (again.batch_tokens, again.engines.compute, again.engines.threads) == (100, "int8", 1)
    assert again("A dog.") == translator("A dog.")
    for copied in (copy.deepcopy(translator), copy.copy(translator)):
        assert isinstance(copied, Translator) and copied is not translator
        assert repr(copied) == repr(translator)
    assert copy.deepcopy(translator) is not copy.deepcopy(translator)
    reloading.reload_model.cache_clear()


def test_a_pickled_language_model(lm_dir: Path) -> None:
    model = load(lm_dir, "cpu")
    again = pickle.loads(pickle.dumps(model))
    assert isinstance(again, LanguageModel)
    assert (
        again("The", seed=1, length=4)
        == copy.deepcopy(model)("The", seed=1, length=4)
        == model("The", seed=1, length=4)
    )
    reloading.reload_model.cache_clear()


def test_models_in_memory_stay_where_they_are(translator_dir: Path, lm_dir: Path) -> None:
    for model, what in (
        (Translator([load_model(translator_dir)]), "translator"),
        (LanguageModel(load_model(lm_dir)), "language model"),
    ):
        for act in (pickle.dumps, copy.deepcopy):
            with pytest.raises(
                HeadwayError, match=rf"this {what} was made from a model in memory, .*headway\.load\(dir"
            ):
                act(model)
        assert "in memory" in repr(model)


def test_many_threads(translator_dir: Path, lines: list[str]) -> None:
    for engine, compute in ENGINES:
        translator = load_translator(translator_dir, device="cpu", engine=engine, compute=compute)  # type: ignore[arg-type]
        expected = translator(lines)
        with ThreadPoolExecutor(16) as pool:
            assert list(pool.map(translator, lines)) == expected
            assert list(pool.map(translator, [lines] * 4)) == [expected] * 4


def test_asyncio(translator_dir: Path, lines: list[str]) -> None:
    translator = load_translator(translator_dir, device="cpu", compute="int8")

    async def translate_all() -> list[str]:
        return await asyncio.gather(*(asyncio.to_thread(translator, line) for line in lines))

    assert run_async(translate_all()) == translator(lines)


def test_what_a_model_says_of_itself(translator_dir: Path, lm_dir: Path) -> None:
    folder = str(translator_dir.resolve())
    assert repr(load(translator_dir, "cpu", compute="int8")) == (
        f"<Translator '{folder}': en → qtx; engine native, int8, cpu>"
    )
    assert repr(load(translator_dir, "cpu", "torch")).endswith("; engine torch, float32, cpu>")
    assert repr(load(lm_dir, "cpu")) == f"<LanguageModel '{lm_dir.resolve()}': causal; engine torch, cpu>"
    assert repr(headway.load("en-de", "cpu")).startswith("<Translator 'en-de': en ↔ de; engine ")
