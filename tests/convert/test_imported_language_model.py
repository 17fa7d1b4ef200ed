"""An imported language model works like one of ours: every verb and the server, with the tokenizer of the original."""

import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
import transformers
from serve.conftest import running
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

import headway
from headway.cli.app import main
from headway.inspect.trace import Trace
from headway.translate.language_model import LanguageModel

TEXT = "The dog sees a red house. A cat sits on the mat, and the dog barks at the cat.\n" * 4
PROMPT = "The dog"
Capture = pytest.CaptureFixture[str]


def make_tokenizer(adds_start: bool) -> Any:
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokens = ["<|begin|>", "<|end|>", "<|pad|>"]
    trainer = trainers.BpeTrainer(vocab_size=290, special_tokens=tokens, initial_alphabet=alphabet, show_progress=False)
    library.train_from_iterator([TEXT], trainer)
    if adds_start:
        template = {"single": "<|begin|> $A", "pair": "<|begin|> $A $B", "special_tokens": [("<|begin|>", 0)]}
        library.post_processor = processors.TemplateProcessing(**template)
    special = {"bos_token": tokens[0], "eos_token": tokens[1], "pad_token": tokens[2]}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=library, **special)


def save_llama(folder: Path, adds_start: bool) -> None:
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=300, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=24, max_position_embeddings=96, bos_token_id=0, eos_token_id=1, pad_token_id=2,
        tie_word_embeddings=True, initializer_range=0.3,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    make_tokenizer(adds_start).save_pretrained(folder)


@pytest.fixture(scope="module", params=[True, False], ids=["with a start token", "without"])
def folders(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The original, and what `headway import` made of it."""
    folder = tmp_path_factory.mktemp("imported")
    save_llama(folder / "theirs", request.param)
    assert main(["import", str(folder / "theirs"), "--out", str(folder / "ours")]) == 0
    return folder / "theirs", folder / "ours"


def load(folder: Path) -> LanguageModel:
    model = headway.load(folder)
    assert isinstance(model, LanguageModel)
    return model


def continue_theirs(folder: Path, prompt: str, new_tokens: int) -> str:
    """What transformers writes, prompt included."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    settings = {"do_sample": False, "max_new_tokens": new_tokens}
    ids = theirs.generate(**tokenizer(prompt, return_tensors="pt", return_token_type_ids=False), **settings)[0]
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def test_it_continues_a_prompt_as_the_original(folders: tuple[Path, Path], capsys: Capture) -> None:
    theirs, ours = folders
    model = load(ours)
    for prompt in (PROMPT, "Grüße, ☃!", "a", " two  spaces"):
        wanted = continue_theirs(theirs, prompt, 12)
        assert model(prompt, beam_size=1, length=12) == wanted
        assert prompt + "".join(model.stream(prompt, beam_size=1, length=12)) == wanted
    capsys.readouterr()
    assert main(["generate", "--model", str(ours), "-b", "1", "--max-length", "12", PROMPT]) == 0
    assert capsys.readouterr().out == continue_theirs(theirs, PROMPT, 12) + "\n"
    assert model("", length=5, seed=1)


@torch.no_grad()
def test_perplexity_is_that_of_the_original(folders: tuple[Path, Path]) -> None:
    theirs, ours = folders
    tokenizer = transformers.AutoTokenizer.from_pretrained(theirs)
    ids = torch.tensor([[0, *tokenizer(TEXT[:160], add_special_tokens=False)["input_ids"]]])
    loss = transformers.AutoModelForCausalLM.from_pretrained(theirs).eval()(input_ids=ids, labels=ids).loss
    found = load(ours).perplexity(TEXT[:160])
    assert found.tokens == ids.shape[1] - 1
    assert found.loss == pytest.approx(float(loss), rel=1e-5)


def test_a_trace_shows_what_it_read(folders: tuple[Path, Path], capsys: Capture) -> None:
    theirs, ours = folders
    tokenizer = transformers.AutoTokenizer.from_pretrained(theirs)
    trace = load(ours).trace(PROMPT, length=0)
    assert isinstance(trace, Trace)
    assert trace.target.ids == tokenizer(PROMPT)["input_ids"]
    assert main(["attend", "--model", str(ours), PROMPT, "--layer", "1", "--head", "1"]) == 0
    assert "keys: 0:" in capsys.readouterr().out


@pytest.mark.slow
def test_all_pictures_are_drawn(folders: tuple[Path, Path], tmp_path: Path) -> None:
    _, ours = folders
    assert main(["inspect", "--model", str(ours), "--out", str(tmp_path / "inside"), PROMPT]) == 0
    assert (tmp_path / "inside" / "page.html").exists()


def test_the_server_completes_prompts(folders: tuple[Path, Path], tmp_path: Path) -> None:
    theirs, ours = folders
    named = shutil.copytree(ours, tmp_path / "my-llama")
    with running(named) as server:
        body: dict[str, Any] = {"model": "my-llama", "prompt": PROMPT, "max_tokens": 12, "temperature": 0}
        answer = server.post("/v1/completions", body).json()
        assert PROMPT + answer["choices"][0]["text"] == continue_theirs(theirs, PROMPT, 12)
        with httpx.stream("POST", f"{server.url}/v1/completions", json={**body, "stream": True}, timeout=60) as stream:
            events = [line.removeprefix("data: ") for line in stream.iter_lines() if line.startswith("data: {")]
        pieces = [json.loads(event)["choices"] for event in events]
        assert "".join(choices[0]["text"] for choices in pieces if choices) == answer["choices"][0]["text"]


def test_it_is_packed_and_tuned(folders: tuple[Path, Path], tmp_path: Path, capsys: Capture) -> None:
    _, ours = folders
    small, tuned, text = tmp_path / "small", tmp_path / "tuned", tmp_path / "text.txt"
    text.write_text(TEXT * 10)
    assert main(["pack", "--model", str(ours), "--out", str(small), "--int8"]) == 0
    assert load(small)(PROMPT, beam_size=1, length=4).startswith(PROMPT)
    steps = ["--set", "train.steps=12", "--set", "train.validate_every=6", "--set", "train.schedule=constant(0.01, 1)"]
    assert main(["train", "--from-model", str(ours), "--text", str(text), "--out", str(tuned), *steps]) == 0
    before, after = (load(model).perplexity(TEXT) for model in (ours, tuned))
    assert after.loss < before.loss - 0.5
    assert load(tuned).tokenizer.fingerprint() == load(ours).tokenizer.fingerprint()
    capsys.readouterr()
