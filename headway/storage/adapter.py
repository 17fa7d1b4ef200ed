"""An adapter directory: what LoRA has trained, a few per cent of a model, and which model it belongs to.

    adapter.json  adapter.safetensors  README.md

adapter.json names the base by the fingerprint of its weights, so that an adapter never runs over another model."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from headway.errors import ConfigError, HeadwayError
from headway.files.atomic import save_tensors_atomically, write_text_atomically
from headway.files.cache import fingerprint
from headway.nn.layers.lora import LORA_NAMES, LoraConfig, add_lora, lora_layers, merged_state, share_weights
from headway.nn.transformer import Transformer
from headway.storage.model_dir import WEIGHTS_FILE, LoadedModel, load_weights, read_tensors
from headway.storage.registry import ADAPTER_FILE, portable_name

ADAPTER_WEIGHTS_FILE = "adapter.safetensors"
ADAPTER_FORMAT = 1


class Adapter(NamedTuple):
    """A trained adapter."""

    folder: Path
    lora: LoraConfig
    base: str  # the model that it was trained on, as it was named
    base_fingerprint: str
    weights: dict[str, Tensor]

    def add_to(self, model: Transformer, base_fingerprint: str) -> Transformer:
        """The model with this adapter; its own weights are shared, not copied, and stay as they are."""
        if base_fingerprint != self.base_fingerprint:
            raise HeadwayError(
                f"{self.folder} is an adapter of another model, {self.base}: these are other weights. Give that model."
            )
        adapted = add_lora(share_weights(model), self.lora)
        names = {f"{layer}.{name}" for layer in lora_layers(adapted) for name in LORA_NAMES}
        own = adapted.state_dict()
        wrong = list(names ^ self.weights.keys())
        wrong += [name for name in names & self.weights.keys() if own[name].shape != self.weights[name].shape]
        if wrong:
            raise HeadwayError(
                f"{self.folder / ADAPTER_WEIGHTS_FILE} does not fit its {ADAPTER_FILE}: {sorted(wrong)[0]}."
            )
        for layer, module in lora_layers(adapted).items():
            for name in LORA_NAMES:
                getattr(module, name).data.copy_(self.weights[f"{layer}.{name}"])
        return adapted.eval()


def save_adapter(folder: Path, lora: LoraConfig, base: Path, weights: Mapping[str, Tensor], card: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors_atomically(folder / ADAPTER_WEIGHTS_FILE, weights)
    table = {
        "format_version": ADAPTER_FORMAT,
        "kind": "lora",
        "rank": lora.rank,
        "alpha": lora.alpha,
        "layers": lora.layers,
        "base": portable_name(base),
        "base_fingerprint": fingerprint_model(base),
    }
    write_text_atomically(folder / ADAPTER_FILE, json.dumps(table, indent=2, ensure_ascii=False) + "\n")
    write_text_atomically(folder / "README.md", card.encode("utf-8", "backslashreplace").decode())


def load_adapter(folder: str | Path) -> Adapter:
    """Read an adapter directory."""
    folder = Path(folder)
    path = folder / ADAPTER_FILE
    try:
        table: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HeadwayError(
            f"{folder} is no adapter: it has no {ADAPTER_FILE}. Train one: headway train --lora 8 …"
        ) from None
    except (OSError, ValueError, RecursionError):
        raise HeadwayError(f"{path} is damaged. Copy the adapter again.") from None
    try:
        if table["format_version"] != ADAPTER_FORMAT or table["kind"] != "lora":
            raise HeadwayError(f"{path} is of a kind or format that this Headway does not know. Install a newer one.")
        lora = LoraConfig(table["rank"], table["alpha"], table["layers"])
        base, known = str(table["base"]), str(table["base_fingerprint"])
    except (KeyError, TypeError, AttributeError, ConfigError):
        raise HeadwayError(f"{path} is damaged. Copy the adapter again.") from None
    return Adapter(folder, lora, base, known, read_tensors(folder / ADAPTER_WEIGHTS_FILE))


def load_trained_state(model: Transformer, weights: Mapping[str, Tensor], path: Path) -> None:
    """Put what trained_state gave into a model."""
    load_weights(model, {**model.state_dict(), **weights} if lora_layers(model) else weights, path)


def has_weights(folder: Path) -> bool:
    """Whether a directory holds a model or an adapter."""
    return any((folder / name).exists() for name in (WEIGHTS_FILE, ADAPTER_WEIGHTS_FILE))


def fingerprint_model(folder: str | Path) -> str:
    """Of the weights, wherever they lie and whatever they are called."""
    from headway.data.corpora import hash_file

    return fingerprint([hash_file(str(Path(folder) / WEIGHTS_FILE))])


def merge_adapter(base: LoadedModel, folder: str | Path, adapter: Adapter) -> dict[str, Tensor]:
    """The weights of a plain model that computes what the base does with this adapter."""
    return merged_state(adapter.add_to(base.model, fingerprint_model(folder)))
