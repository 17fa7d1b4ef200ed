"""What benchmarks/translate_cpu.py lets translate: CTranslate2 and Hugging Face with Headway's weights, and Headway.

Each takes lines and gives lines, with the same tokenizer; where it can, at its best: CTranslate2 sorts and batches by
itself, Hugging Face is given sentences of like lengths together."""

import inspect
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

EXTRA = 50  # tokens that an output may have more than the longest source
ALPHA = 1.0  # of the penalty n^alpha, which all three know


class Engine(Protocol):
    def translate(self, lines: Sequence[str], beam: int, size: int) -> list[str]:
        """`size`: of the batches that all the lines are split into, in what this engine counts; 0: as one batch."""
        ...

    sizes: tuple[int, ...]  # worth trying where everything is given at once


class Text:
    """The tokenizer of a model directory, around engines that know ids."""

    def __init__(self, folder: Path) -> None:
        from headway.text import Tokenizers

        both = Tokenizers.load(folder / "tokenizer.json")
        self.source, self.target = both.source, both.target
        self.suppressed = sorted(self.target.controls - {self.target.end})

    def encoded(self, lines: Sequence[str]) -> list[list[int]]:
        return [[*ids, self.source.end] for ids in self.source.encode_batch(lines)]

    def decoded(self, rows: Sequence[Sequence[int]]) -> list[str]:
        return [self.target.decode(row).strip() for row in rows]


class CTranslate2:
    sizes = (512, 1024, 2048, 4096, 8192)  # tokens

    def __init__(self, folder: Path, work: Path, compute: str, workers: int, threads: int) -> None:
        import ctranslate2

        self.text, self.workers = Text(folder), workers
        self.names = [str(n) for n in range(self.text.target.size)]
        self.suppressed = [[str(n)] for n in self.text.suppressed]
        self.model = ctranslate2.Translator(
            str(work / "ctranslate2"), "cpu", compute_type=compute, inter_threads=workers, intra_threads=threads
        )

    def translate(self, lines: Sequence[str], beam: int, size: int) -> list[str]:
        rows = self.text.encoded(lines)
        longest = max(map(len, rows))
        if size:
            split = {"max_batch_size": size, "batch_type": "tokens"}
        else:  # one batch, of which each worker has its share
            split = {"max_batch_size": -(-len(rows) // self.workers), "batch_type": "examples"}
        found = self.model.translate_batch(
            [[self.names[n] for n in row] for row in rows], beam_size=beam, length_penalty=ALPHA, max_input_length=0,
            min_decoding_length=0, max_decoding_length=longest + EXTRA, suppress_sequences=self.suppressed, **split,
        )  # fmt: skip
        return self.text.decoded([list(map(int, one.hypotheses[0])) for one in found])


def write_ctranslate2(folder: Path, out: Path) -> None:
    """Its own format, from Headway's weights: float32, which it makes int8 of by itself when it is loaded."""
    from ctranslate2.specs import transformer_spec
    from ctranslate2.specs.common_spec import Activation

    config, weights = read(folder)
    encoder, decoder = config["encoder"], config["decoder"]
    pre = decoder["residual"]["kind"] == "pre"
    spec = transformer_spec.TransformerSpec.from_config(
        (encoder["layers"], decoder["layers"]), decoder["mixer"][0]["heads"], pre_norm=pre, activation=Activation.RELU
    )
    for side, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        words = stack.embeddings[0] if side == "encoder" else stack.embeddings
        words.weight = weights["embeddings.decoder.words.weight"]
        stack.position_encodings.encodings = sinusoids(config)
        if pre:
            norm(stack.layer_norm, weights, f"stacks.{side}.ends.norm")
        for index, layer in enumerate(stack.layer):
            block = f"stacks.{side}.blocks.{index}"
            parts = {"self": layer.self_attention} | ({"cross": layer.attention} if side == "decoder" else {})
            for name, part in parts.items():
                place = f"{block}.sublayers.{name}"
                groups = (
                    [("query", "key", "value"), ("output",)]
                    if name == "self"
                    else [("query",), ("key", "value"), ("output",)]
                )
                for linear, names in zip(part.linear, groups):
                    for end in ("weight", "bias"):
                        setattr(linear, end, np.concatenate([weights[f"{place}.{one}.{end}"] for one in names]))
                norm(part.layer_norm, weights, f"{block}.residuals.{name}.norm")
            for linear, name in ((layer.ffn.linear_0, "inner"), (layer.ffn.linear_1, "outer")):
                for end in ("weight", "bias"):
                    setattr(linear, end, weights[f"{block}.sublayers.feedforward.{name}.{end}"])
            norm(layer.ffn.layer_norm, weights, f"{block}.residuals.feedforward.norm")
    spec.decoder.projection.weight = weights["embeddings.decoder.words.weight"]
    text = Text(folder)
    names = [str(n) for n in range(text.target.size)]
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    marks = {"bos_token": text.target.start, "eos_token": text.target.end, "unk_token": text.target.pad}
    for name, value in marks.items():
        setattr(spec.config, name, str(value))
    spec.config.decoder_start_token = str(text.target.start)
    spec.config.layer_norm_epsilon = config["norm"]["eps"]
    spec.validate()
    out.mkdir(parents=True, exist_ok=True)
    spec.save(str(out))


def norm(spec: Any, weights: dict[str, np.ndarray], name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.gain"], weights[f"{name}.bias"]


def read(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The [model] of a directory, and its weights; only kinds that all three engines know."""
    from safetensors.numpy import load_file

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model"]
    for side in ("encoder", "decoder"):
        stack = config[side]
        kinds = [stack["residual"]["kind"], *(part["kind"] for part in stack["position"] + stack["feedforward"])]
        if kinds[0] not in ("pre", "post") or set(kinds[1:]) != {"sinusoidal", "relu"}:
            raise SystemExit(f"{folder}: its {side} has parts that the others do not know: {', '.join(kinds)}")
    return config, load_file(folder / "model.safetensors")


def sinusoids(config: dict[str, Any], positions: int = 512) -> np.ndarray:
    width = config["d_model"]
    angles = np.arange(positions)[:, None] * 10_000.0 ** (-np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(positions, width).astype(np.float32)


class HuggingFace:
    sizes = (32, 64, 128)  # sentences

    def __init__(self, folder: Path) -> None:
        self.text, self.model = Text(folder), hugging_face(folder)

    def translate(self, lines: Sequence[str], beam: int, size: int) -> list[str]:
        rows = self.text.encoded(lines)
        order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
        found: list[list[int]] = [[]] * len(rows)
        step = size or len(rows)
        for start in range(0, len(rows), step):
            batch = order[start : start + step]
            for n, ids in zip(batch, self._batch([rows[n] for n in batch], beam)):
                found[n] = ids
        return self.text.decoded(found)

    def _batch(self, rows: list[list[int]], beam: int) -> list[list[int]]:
        import torch

        longest, pad = max(map(len, rows)), self.text.source.pad
        ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])
        early = {"early_stopping": True, "length_penalty": ALPHA} if beam > 1 else {}
        with torch.inference_mode():
            found = self.model.generate(
                ids, attention_mask=(ids != pad).long(), num_beams=beam, do_sample=False,
                max_new_tokens=longest + EXTRA, suppress_tokens=self.text.suppressed, **early,
            ).tolist()  # fmt: skip
        return [row[1:] for row in found]


def hugging_face(folder: Path) -> Any:
    """Marian has norms behind the sub-layers, Pegasus before; they have the same names for the same weights."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    config, weights = read(folder)
    pre = config["decoder"]["residual"]["kind"] == "pre"
    sizes: dict[str, Any] = {}
    for side in ("encoder", "decoder"):
        stack = config[side]
        sizes |= {f"{side}_layers": stack["layers"], f"{side}_attention_heads": stack["mixer"][0]["heads"]}
        sizes |= {f"{side}_ffn_dim": stack["feedforward"][0]["hidden"]}
    own, model = (
        (transformers.PegasusConfig, transformers.PegasusForConditionalGeneration)
        if pre
        else (transformers.MarianConfig, transformers.MarianMTModel)
    )
    text = Text(folder).target
    built = model(
        own(
            vocab_size=config["vocabulary"], d_model=config["d_model"], activation_function="relu",
            scale_embedding=config["embedding"]["scale"], max_position_embeddings=512, pad_token_id=text.pad,
            decoder_start_token_id=text.start, eos_token_id=text.end, forced_eos_token_id=None, **sizes,
        )
    ).eval()  # fmt: skip
    state = {name: torch.from_numpy(value) for name, value in their_names(weights).items()}
    for side in ("encoder", "decoder"):
        state[f"model.{side}.embed_positions.weight"] = torch.from_numpy(sinusoids(config))
    left = built.load_state_dict(state, strict=False)
    known = ("shared.weight", "embed_tokens.weight", "lm_head.weight", "final_logits_bias")
    odd = [name for name in left.missing_keys if not name.endswith(known)] + left.unexpected_keys
    assert not odd, odd
    built.tie_weights()
    return built


def their_names(weights: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    parts = {"self": "self_attn", "cross": "encoder_attn"}
    linear = {
        "query": "q_proj",
        "key": "k_proj",
        "value": "v_proj",
        "output": "out_proj",
        "inner": "fc1",
        "outer": "fc2",
    }
    found = {"model.shared.weight": weights["embeddings.decoder.words.weight"]}
    for name, value in weights.items():
        _, *path = name.split(".")
        if name.startswith("embeddings"):
            continue
        side, end = path[0], {"gain": "weight"}.get(path[-1], path[-1])
        if path[1] == "ends":
            found[f"model.{side}.layer_norm.{end}"] = value
            continue
        layer, part = f"model.{side}.layers.{path[2]}", path[4]
        if path[3] == "residuals":
            own = "final_layer_norm" if part == "feedforward" else f"{parts[part]}_layer_norm"
            found[f"{layer}.{own}.{end}"] = value
        else:
            inside = "" if part == "feedforward" else f"{parts[part]}."
            found[f"{layer}.{inside}{linear[path[5]]}.{end}"] = value
    return found


class Headway:
    """Lines as they are: not split into sentences, and never searched twice, as the others do not either."""

    sizes = (0,)  # it chooses by itself

    def __init__(self, folder: Path, threads: int, **how: str) -> None:
        import headway

        known = inspect.signature(headway.load).parameters
        if unknown := [name for name in how if name not in known]:
            raise SystemExit(f"headway.load takes no {', '.join(unknown)}")
        more: dict[str, Any] = {"threads": threads} if "threads" in known else {}
        self.model: Any = headway.load(folder, device="cpu", **how, **more)

    def translate(self, lines: Sequence[str], beam: int, size: int) -> list[str]:
        search = self.model.search(beam_size=beam, penalty="power", alpha=ALPHA)
        return [one.text.strip() for one in self.model.translate(lines, search, split=False, mend=False)]


class Naive(Headway):
    """The search that all others are measured by: the plain loop, in float32."""

    def translate(self, lines: Sequence[str], beam: int, size: int) -> list[str]:
        from headway.decode import decode
        from headway.decode.rows import padded

        model, text = self.model, self.model.tokenizers
        search = model.search(beam_size=beam, penalty="power", alpha=ALPHA)
        rows = [[*ids, text.source.end] for ids in text.source.encode_batch(lines)]
        order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
        found = [""] * len(rows)
        for start in range(0, len(rows), 64):
            batch = order[start : start + 64]
            ids, valid = padded([rows[n] for n in batch], text.source.pad, model.stepper.device)
            best = decode(model.stepper, ids, valid, marks=model.marks, search=search, engine="naive")
            for n, hypotheses in zip(batch, best):
                found[n] = text.target.decode(hypotheses[0].ids).strip()
        return found


def torch_only() -> dict[str, str]:
    """Float32 and PyTorch, where that is a choice."""
    import headway

    known = inspect.signature(headway.load).parameters
    return {"engine": "torch", "compute": "float32"} if "engine" in known else {}


def contestants(threads: int) -> dict[str, Callable[[Path, Path], Engine]]:
    """By name: made from a model directory and a folder with what was converted."""
    found: dict[str, Callable[[Path, Path], Engine]] = {
        "naive": lambda model, work: Naive(model, threads, **torch_only())
    }
    for compute in ("int8", "float32"):
        for workers, inside in ((1, threads), (threads, 1)):
            found[f"ctranslate2 {compute} {workers}x{inside}"] = (
                lambda model, work, c=compute, w=workers, t=inside: CTranslate2(model, work, c, w, t)  # type: ignore[misc]
            )
    found["huggingface"] = lambda model, work: HuggingFace(model)
    for engine in ("torch", "ctranslate2"):
        for compute in ("int8", "float32"):
            found[f"headway {engine} {compute}"] = (
                lambda model, work, e=engine, c=compute: Headway(model, threads, engine=e, compute=c)  # type: ignore[misc]
            )
    found["headway auto"] = lambda model, work: Headway(model, threads, engine="auto")
    found["headway"] = lambda model, work: Headway(model, threads)
    return found
