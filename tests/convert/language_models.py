"""Tiny random language models of transformers, imported: what the tests of all families need."""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers
from torch import Tensor, nn

from headway.convert.architecture import Architecture, find_family
from headway.convert.importer import ImportPlan
from headway.convert.json_files import read_json_object
from headway.convert.readings import choose_reading
from headway.convert.tensor_rules import OneMinus, SkipRows, read_tensor, write_tensor
from headway.convert.weight_files import WeightSource, open_weights
from headway.decode import Search, decode
from headway.storage.model_dir import load_model
from headway.text.tokenizer.imported import ImportedTokenizer
from headway.text.tokenizer.pair import Tokenizers
from headway.text.tokenizer.vocabulary import byte_alphabet
from headway.translate.language_model import LanguageModel

VOCABULARY, END = 257, 256


def byte_tokenizer(size: int = VOCABULARY) -> ImportedTokenizer:
    """One token a byte, as GPT-2's before its merges, and an end token."""
    letters = {letter: n for n, letter in enumerate(byte_alphabet())}
    library = Library(models.BPE(vocab={**letters, "<|endoftext|>": END}, merges=[]))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(["<|endoftext|>"])
    special = {"pad": END, "start": END, "end": END}
    table = {"imported": "tokenizers", "model": json.loads(library.to_str()), "special": special, "size": size}
    return ImportedTokenizer(table)


def stir(model: Any, dtype: torch.dtype = torch.float32) -> Any:
    """Random in every parameter, gains and biases too, so that none of them can be forgotten."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        nn.init.normal_(parameter, 0.0 if parameter.dim() > 1 else 0.7, 0.25)
    return model.to(dtype).eval()


def read_directory(folder: Path) -> tuple[Architecture, WeightSource]:
    config = read_json_object(folder / "config.json")
    return find_family(config["model_type"])(config), open_weights(folder)


def import_directory(folder: Path, out: Path) -> LanguageModel:
    architecture, weights = read_directory(folder)
    tokenizer = byte_tokenizer()
    ImportPlan(architecture=architecture, weights=weights, tokenizers=Tokenizers(tokenizer, tokenizer)).write(out)
    return LanguageModel(load_model(out))


def import_model(theirs: Any, folder: Path) -> LanguageModel:
    """Saved by transformers, imported, loaded."""
    theirs.save_pretrained(folder / "theirs")
    return import_directory(folder / "theirs", folder / "ours")


def check_round_trip(folder: Path) -> None:
    """The rules turn their tensors into ours and back, bit for bit; what they leave out is named as unused."""
    architecture, weights = choose_reading(*read_directory(folder))
    parts: dict[str, list[Any]] = {}
    for rule in architecture.rules:
        parts.setdefault(rule.theirs, []).append(rule)
    for name, rules in parts.items():
        theirs = weights.read(name)
        ours = [read_tensor(rule, theirs) for rule in rules]
        back = write_tensor(rules, ours)
        if any(isinstance(change, SkipRows | OneMinus) for change in rules[0].changes):  # from ours and back
            theirs, back = ours[0], read_tensor(rules[0], back)
        assert back.dtype == theirs.dtype and torch.equal(back, theirs), name


@torch.no_grad()
def check_logits(theirs: Any, ours: LanguageModel, length: int = 24, atol: float = 1e-5) -> None:
    """Of whole texts and token by token."""
    ids = torch.randint(0, END, (3, length), generator=torch.Generator().manual_seed(2))
    wanted = theirs(input_ids=ids).logits
    assert wanted.std() > 0.1
    model = ours.model
    torch.testing.assert_close(model.logits(model.decode(ids)), wanted, rtol=1e-5, atol=atol)
    state = model.new_state(3)
    steps = [model.decode(ids[:, n : n + 1], state=state) for n in range(length)]
    torch.testing.assert_close(model.logits(torch.cat(steps, dim=1)), wanted, rtol=1e-5, atol=atol)


def prompts(count: int) -> list[list[int]]:
    """1 to 12 random tokens, of which the first is the start token."""
    generator = torch.Generator().manual_seed(3)
    lengths: list[int] = torch.randint(0, 12, (count,), generator=generator).tolist()
    return [[END, *torch.randint(0, END, (length,), generator=generator).tolist()] for length in lengths]


def check_greedy(theirs: Any, ours: LanguageModel, count: int, new_tokens: int = 12) -> None:
    """The ids of `generate`, of all prompts, which differ from each other."""
    found = []
    for prompt in prompts(count):
        search = Search(beam_size=1, max_length=len(prompt) - 1 + new_tokens)
        best = decode(ours.stepper, None, special_tokens=ours.special_tokens, search=search, prefixes=[prompt[1:]])
        found.append(best[0][0].ids)
        settings = {"do_sample": False, "max_new_tokens": new_tokens, "pad_token_id": END, "eos_token_id": END}
        wanted: Tensor = theirs.generate(torch.tensor([prompt]), **settings)
        assert found[-1] == [token for token in wanted[0].tolist()[1:] if token != END], prompt
    assert len({tuple(ids) for ids in found}) > 0.8 * count
