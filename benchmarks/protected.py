"""Protected spans: how many survive a translation unchanged, and how many of them in the right place.

    python benchmarks/protected.py --model DIR --source test.en --train-source train.en --train-target train.de

Inserts spans into sentences of the source (after a word, instead of one, around one or two, or around everything) and
translates. A statistical aligner, trained on the training text and independent of the model, links the words of the
translation with the neighbours of the span: the span is in the right place if it stands beside linked words, or one
word further; a pair of tags, if it encloses the links of what it enclosed. Where the aligner has no link for either
neighbour, the position is not judged.
"""

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from headway.files.text_files import read_lines, read_pairs
from headway.storage.registry import model_directory
from headway.text.align.aligner import Aligner, train_aligner
from headway.text.align.words import WORD
from headway.text.spans.protect import PLACEHOLDER, make_protector, pair_tags
from headway.translate.options import TranslateOptions
from headway.translate.translator import load_translator

SINGLE_SPANS = (
    "{name}", "{0}", "%s", "%(count)d", "$(ARG1)", "${HOME}", "https://example.org/a?b=1", "mail@example.org",
    "`ls -l`",
)  # fmt: skip
TAGS = (("<b>", "</b>"), ('<a href="x.html">', "</a>"), ("<i>", "</i>"))
MIN_WORD_LETTERS = 3  # of a word that gets a span


class SpanPositions(NamedTuple):
    """The words of a text, and the positions of its spans among them."""

    words: list[str]
    positions: dict[int, int]  # of each span: how many words are before it


def insert_span(line: str, rng: random.Random) -> str:
    """Insert a span, or a pair of tags, into a sentence."""
    words = list(WORD.finditer(line))
    usable = [n for n, word in enumerate(words) if len(word[0]) >= MIN_WORD_LETTERS and word[0].isalpha()]
    kind = rng.choice(("after", "instead", "around", "around", "end", "frame"))
    if not usable or kind in ("end", "frame"):
        return f"<p>{line}</p>" if kind == "frame" else f"{line} {rng.choice(SINGLE_SPANS)}"
    first = rng.choice(usable)
    start, end = words[first].span()
    if kind == "after":
        return f"{line[:end]} {rng.choice(SINGLE_SPANS)}{line[end:]}"
    if kind == "instead":
        return f"{line[:start]}{rng.choice(SINGLE_SPANS)}{line[end:]}"
    if first + 1 in usable and rng.random() < 0.4:
        end = words[first + 1].end()
    opening, closing = rng.choice(TAGS)
    return f"{line[:start]}{opening}{line[start:end]}{closing}{line[end:]}"


def parse_placeholders(text: str) -> SpanPositions:
    """From a text with placeholders."""
    parts = PLACEHOLDER.split(text)  # text, number, text, number, text
    positions, before = dict[int, int](), ""
    for number, following in zip(parts[1::2], parts[2::2]):
        before += parts[0] if not positions else ""
        positions[int(number)] = len(split_words(before))
        before += f" {following}"
    return SpanPositions(split_words(before), positions)


def split_words(text: str) -> list[str]:
    """Words, without standalone punctuation."""
    return [word for word in text.split() if any(character.isalnum() for character in word)]


def mask_like_source(output: str, spans: Sequence[str]) -> str:
    """The output with the placeholders that the source has for its spans, which may have moved."""
    left = list(spans)
    text, found = make_protector().mask(output)
    numbers = []
    for span in found:
        numbers.append(left.index(span))
        left[numbers[-1]] = ""
    return PLACEHOLDER.sub(lambda match: f"⟦{numbers[int(match[1])]}⟧", text)


def judge_span(source: SpanPositions, output: SpanPositions, links: set[tuple[int, int]], number: int) -> str:
    """Whether a single span is in the right place."""
    p, a = source.positions[number], output.positions[number]
    ends = ((p == 0, a == 0), (p == len(source.words), a == len(output.words)))
    if any(there for there, _ in ends):
        return "right" if any(there and here for there, here in ends) else "wrong"
    if not any(i in (p - 1, p) for i, _ in links):
        return "not judged"
    beside = {(p - 1, a - 1), (p - 1, a - 2), (p, a), (p, a + 1)}
    return "right" if beside & links else "wrong"


def judge_pair(source: SpanPositions, output: SpanPositions, links: set[tuple[int, int]], pair: tuple[int, int]) -> str:
    inside, now = (range(*(side.positions[number] for number in pair)) for side in (source, output))
    if len(inside) == len(source.words):
        return "right" if len(now) == len(output.words) else "wrong"
    target = {j for i, j in links if i in inside}
    if not target:
        return "not judged"
    strange = {j for i, j in links if i not in inside}
    return "right" if target & set(now) and not set(now) & (strange - target) else "wrong"


def judge(line: str, output: str, aligner: Aligner) -> str:
    text, spans = make_protector().mask(line)
    if make_protector().find_missing(spans, output):
        return "lost"
    source, target = parse_placeholders(text), parse_placeholders(mask_like_source(output, spans))
    pair = (" ".join(source.words), " ".join(target.words))
    links = {(int(i), int(j)) for i, j in aligner.align([pair])[0]}
    pairs = pair_tags(spans)
    tagged = {number for pair in pairs for number in pair}
    found = [judge_pair(source, target, links, pair) for pair in pairs]
    found += [judge_span(source, target, links, number) for number in range(len(spans)) if number not in tagged]
    return next((name for name in ("wrong", "not judged") if name in found), "right")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--train-source", required=True)
    parser.add_argument("--train-target", required=True)
    parser.add_argument("--to", default="", help="the target language, where the model has several")
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=10, help="lines in a wrong place to show")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    plain = [line for line in read_lines(given.source) if len(line.split()) > 4][: given.lines]
    lines = [insert_span(line, rng) for line in plain]
    found = load_translator(model_directory(given.model), device="cpu").translate(
        lines, TranslateOptions(target=given.to)
    )
    aligner = train_aligner(read_pairs(given.train_source, given.train_target))
    counts: Counter[tuple[str, bool]] = Counter()
    for line, one in zip(lines, found):
        match, told = judge(line, one.text, aligner), bool(one.warnings)
        counts[match, told] += 1
        if match in ("wrong", "lost") and given.show > 0:
            given.show -= 1
            print(f"{match}{', and target' * told}: {line}\n    {one.text}")
    total, lost = sum(counts.values()), counts["lost", False] + counts["lost", True]
    right = counts["right", False] + counts["right", True]
    wrong = counts["wrong", False] + counts["wrong", True]
    print("| sentences | survived | right place, of those judged | right or reported | reported | not judged |")
    print("|---|---|---|---|---|---|")
    reported = sum(count for (_, target), count in counts.items() if target)
    fine = right + counts["wrong", True] + counts["lost", True]
    left = counts["not judged", False] + counts["not judged", True]
    print(
        f"| {total} | {1 - lost / total:.1%} | {right / max(right + wrong, 1):.1%} | {fine / max(total - left, 1):.1%} "
        f"| {reported / total:.1%} | {left} |"
    )


if __name__ == "__main__":
    main()
