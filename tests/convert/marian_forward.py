"""What Marian computes for a student with an SSRU, in NumPy and float64, from the arrays of its .npz."""

from collections.abc import Mapping, Sequence

import numpy as np

Arrays = Mapping[str, np.ndarray]


def normalise(x: np.ndarray, arrays: Arrays, name: str, end: str = "") -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-9)
    result: np.ndarray = scaled * arrays[f"{name}_ln_scale{end}"] + arrays[f"{name}_ln_bias{end}"]
    return result


def add_positions(words: np.ndarray) -> np.ndarray:
    """Embeddings times the root of their width, and sines beside cosines, from the rate 1 to the rate 1/10000."""
    length, width = words.shape
    scales = width // 2
    angles = np.arange(length)[:, None] * np.exp(-np.log(10000.0) / (scales - 1) * np.arange(scales))
    return np.sqrt(width) * words + np.concatenate([np.sin(angles), np.cos(angles)], 1)


def attend(queries: np.ndarray, keys: np.ndarray, arrays: Arrays, name: str, heads: int) -> np.ndarray:
    q, k, v = (
        x @ arrays[f"{name}_W{one}"] + arrays[f"{name}_b{one}"] for x, one in ((queries, "q"), (keys, "k"), (keys, "v"))
    )
    outputs = []
    for part in np.split(np.arange(q.shape[1]), heads):
        scores = q[:, part] @ k[:, part].T / np.sqrt(len(part))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        outputs.append(weights / weights.sum(-1, keepdims=True) @ v[:, part])
    result: np.ndarray = np.concatenate(outputs, 1) @ arrays[f"{name}_Wo"] + arrays[f"{name}_bo"]
    return result


def feed_forward(x: np.ndarray, arrays: Arrays, name: str) -> np.ndarray:
    inner = np.maximum(x @ arrays[f"{name}_W1"] + arrays[f"{name}_b1"], 0)
    result: np.ndarray = inner @ arrays[f"{name}_W2"] + arrays[f"{name}_b2"]
    return result


def run_ssru(x: np.ndarray, arrays: Arrays, name: str) -> np.ndarray:
    state, outputs = np.zeros(x.shape[1]), []
    for row in x:
        forget = 1 / (1 + np.exp(-(row @ arrays[f"{name}_Wf"] + arrays[f"{name}_bf"][0])))
        state = forget * state + (1 - forget) * (row @ arrays[f"{name}_W"])
        outputs.append(np.maximum(state, 0))
    return np.stack(outputs)


class MarianStudent:
    """pre_norm: norms before each sub-layer and at the top ("n", "da", "n"), not after it ("", "dan", "")."""

    def __init__(self, arrays: Arrays, heads: int, layers: Sequence[int], depth: int, pre_norm: bool = False) -> None:
        self.arrays = {name: array.astype(np.float64) for name, array in arrays.items()}
        self.heads, self.layers, self.depth, self.pre_norm = heads, layers, depth, pre_norm

    def words(self, side: str) -> np.ndarray:
        return self.arrays["Wemb" if "Wemb" in self.arrays else f"{side}_Wemb"]

    def encode(self, source: Sequence[int]) -> np.ndarray:
        x = add_positions(self.words("encoder")[list(source)])
        for layer in range(1, self.depth + 1):
            name = f"encoder_l{layer}"
            x = self.wrap(x, f"{name}_self_Wo", lambda y, n=name: attend(y, y, self.arrays, f"{n}_self", self.heads))
            x = self.wrap(x, f"{name}_ffn_ffn", lambda y, n=name: feed_forward(y, self.arrays, f"{n}_ffn"))
        return normalise(x, self.arrays, "encoder_top") if self.pre_norm else x

    def logits(self, source: Sequence[int], output: Sequence[int]) -> np.ndarray:
        """Of each next word, the first included: the first input of the decoder are zeros."""
        memory, words = self.encode(source), self.words("decoder")
        x = add_positions(np.concatenate([np.zeros((1, words.shape[1])), words[list(output)]]))
        for layer in self.layers:
            name = f"decoder_l{layer}"
            norm = f"{name}_rnn" if self.pre_norm else f"{name}_rnn_ffn"
            x = self.wrap(x, norm, lambda y, n=name: run_ssru(y, self.arrays, f"{n}_rnn"))
            x = self.wrap(
                x,
                f"{name}_context_Wo",
                lambda y, n=name: attend(y, memory, self.arrays, f"{n}_context", self.heads),
            )
            x = self.wrap(x, f"{name}_ffn_ffn", lambda y, n=name: feed_forward(y, self.arrays, f"{n}_ffn"))
        x = normalise(x, self.arrays, "decoder_top") if self.pre_norm else x
        result: np.ndarray = x @ words.T + self.arrays["decoder_ff_logit_out_b"][0]
        return result

    def wrap(self, x: np.ndarray, norm: str, sublayer) -> np.ndarray:  # type: ignore[no-untyped-def]
        if self.pre_norm:
            inner: np.ndarray = sublayer(normalise(x, self.arrays, norm, "_pre"))
            return x + inner
        return normalise(x + sublayer(x), self.arrays, norm)

    def translate(self, source: Sequence[int], end: int, unknown: int, longest: int) -> list[int]:
        """The likeliest word, one after another, but the unknown one."""
        output: list[int] = []
        while len(output) < longest:
            logits = self.logits(source, output)[-1]
            logits[unknown] = -np.inf
            word = int(logits.argmax())
            if word == end:
                break
            output.append(word)
        return output
