"""Chat models end a text by several tokens: greedy and beam search stop where `generate` does."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from convert.language_models import byte_tokenizer, stir
from convert.test_imported_language_model import load
from convert.test_llama import SIZES
from headway.convert.export.formats import export_model
from headway.convert.export.stored_model import open_model
from headway.convert.options import ImportOptions
from headway.convert.source import plan_import
from headway.errors import HeadwayError

ENDS = [256, *range(100, 140)]  # so many that each is met


def save_chat_model(folder: Path) -> Any:
    theirs = stir(transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)))
    theirs.generation_config.eos_token_id = ENDS
    theirs.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(byte_tokenizer().to_json()["model"]))
    return theirs


@torch.no_grad()
def test_generate_stops_at_each(tmp_path: Path) -> None:
    theirs = save_chat_model(tmp_path / "theirs")
    report = plan_import(str(tmp_path / "theirs"), ImportOptions()).write(tmp_path / "ours")
    assert not report.lost
    model = load(tmp_path / "ours")
    stopped = set()
    for prompt in ("The dog", "a", "x + y =", "Grüße", "12", "Once", "#", "if"):
        special, prefix = model.make_prompt(prompt)
        ids = torch.tensor([[special.start, *prefix]])
        for beams in (1, 3):
            settings = {"num_beams": beams, "length_penalty": 0.0, "early_stopping": False, "pad_token_id": 256}
            wanted = theirs.generate(ids, do_sample=False, max_new_tokens=20, **settings)[0, ids.shape[1] :].tolist()
            stopped.add(wanted[-1])
            while wanted and wanted[-1] in ENDS:
                wanted.pop()
            search = {"beam_size": beams, "penalty": "none", "stopping": "score", "length": 20}
            text = model(prompt, **search)
            assert text == model.decode([*prefix, *wanted], special.start), prompt
            if beams == 1:
                assert prompt + "".join(model.stream(prompt, **search)) == text
    assert len(stopped & set(ENDS)) > 1
    export_model(open_model(tmp_path / "ours"), "huggingface", tmp_path / "out", "")
    written = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert sorted(written["eos_token_id"]) == sorted(ENDS)


@torch.no_grad()
def test_what_generate_suppresses_is_never_written(tmp_path: Path) -> None:
    theirs = save_chat_model(tmp_path / "theirs")
    prompt = "The dog"
    path = tmp_path / "theirs" / "generation_config.json"
    for suppressed in (None, [n for n in range(257) if n % 3]):
        path.write_text(json.dumps({"eos_token_id": ENDS, "suppress_tokens": suppressed, "bad_words_ids": [[6]]}))
        out = tmp_path / f"ours{bool(suppressed)}"
        plan_import(str(tmp_path / "theirs"), ImportOptions()).write(out)
        model = load(out)
        special, prefix = model.make_prompt(prompt)
        ids = torch.tensor([[special.start, *prefix]])
        settings = {"suppress_tokens": suppressed, "bad_words_ids": [[6]], "eos_token_id": ENDS, "pad_token_id": 256}
        wanted = theirs.generate(ids, do_sample=False, max_new_tokens=9, **settings)[0, ids.shape[1] :].tolist()
        wanted = wanted[: next((n for n, token in enumerate(wanted) if token in ENDS), len(wanted))]
        assert model(prompt, beam_size=1, length=9) == model.decode([*prefix, *wanted], special.start)
        export_model(open_model(out), "huggingface", tmp_path / f"out{bool(suppressed)}", "")
        written = json.loads((tmp_path / f"out{bool(suppressed)}" / "generation_config.json").read_text())
        assert written["suppress_tokens"] == sorted({6, *(suppressed or ())})


def test_an_end_that_is_no_id_is_refused(tmp_path: Path) -> None:
    save_chat_model(tmp_path / "theirs")
    for ends, message in (([256, 5000], "names the id 5000"), ([256, "x"], "is not a list of ids")):
        (tmp_path / "theirs" / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
        with pytest.raises(HeadwayError, match=message):
            plan_import(str(tmp_path / "theirs"), ImportOptions())
