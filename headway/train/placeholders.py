"""Pairs in which placeholders stand for words, around them or beside them, so that a model learns to carry each over to
its place: see headway.text.spans.protect. Which words belong together says a statistical aligner."""

import json
import random
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from headway.data.corpora import FromFiles, Parallel
from headway.data.parallel_files import Pair, ParallelFiles
from headway.files.cache import cached, fingerprint
from headway.text.align.aligner import Aligner, learn_aligner
from headway.text.align.words import WORD
from headway.text.spans.protect import PLACEHOLDER, placeholder, spaced
from headway.train.alignment_links import GROUP, languages_of, sampled

VERSION = "placeholders 3"  # other rules make other text: what is kept must not outlive them
MOST = 3  # places in a pair
LONGEST = 3  # words between two placeholders
CORE = re.compile(r"[^\W_](?:\S*[^\W_])?")  # a word without the signs around it
ENDS = re.compile(r"[.!?…]*$")

Links = Sequence[tuple[int, int]]
Place = tuple[int, int]  # of characters: first and one past the last
Edit = tuple[int, int, str]


def with_placeholders(pair: Pair, links: Links, chance: random.Random) -> Pair:
    """A pair with some; as it was where no two words are known to belong together."""
    if any("⟦" in side for side in pair):
        return pair
    found = phrases(pair, links)
    chance.shuffle(found)
    edits: tuple[list[Edit], list[Edit]] = ([], [])
    taken: list[tuple[Place, Place]] = []
    count, most = 0, chance.randint(1, MOST)
    for places in found:
        if len(taken) == most:
            break
        if all(_apart(a, b) for other in taken for a, b in zip(places, other)):
            taken.append(places)
            count += _edited(pair, places, edits, count, chance)
    if not taken or chance.random() < 0.15:
        _framed(pair, edits, count, chance)
    return _numbered([_written(side, own) for side, own in zip(pair, edits)])


def phrases(pair: Pair, links: Links) -> list[tuple[Place, Place]]:
    """One to LONGEST words on the source side, and those on the other that say the same and nothing else."""
    source, target = ([(w.start(), w[0]) for w in WORD.finditer(side)] for side in pair)
    found = []
    for first in range(len(source)):
        for last in range(first, min(first + LONGEST, len(source))):
            said = {j for i, j in links if first <= i <= last}
            inside = all(first <= i <= last for i, j in links if said and min(said) <= j <= max(said))
            if said and inside and max(said) - min(said) <= last - first + 1:
                places = _core(source[first : last + 1]), _core(target[min(said) : max(said) + 1])
                if places[0] and places[1]:
                    found.append((places[0], places[1]))
    return found


def _core(words: Sequence[tuple[int, str]]) -> Place | None:
    """Where these words are, without the signs before the first and after the last."""
    first, last = CORE.search(words[0][1]), CORE.search(words[-1][1])
    if first is None or last is None:
        return None
    return words[0][0] + first.start(), words[-1][0] + last.end()


def _apart(one: Place, other: Place) -> bool:
    return one[1] < other[0] or other[1] < one[0]


def _edited(
    pair: Pair, places: tuple[Place, Place], edits: tuple[list[Edit], list[Edit]], count: int, chance: random.Random
) -> int:
    """Instead of the words, around them, or beside them; how many placeholders that took. Or the source has the words
    of the target, as it will where a glossary gives them."""
    kind = chance.choices(("instead", "around", "before", "after", "told"), (35, 25, 10, 10, 20))[0]
    one, other = placeholder(count), placeholder(count + 1)
    if kind == "told":
        edits[0].append((*places[0], pair[1][slice(*places[1])]))
        return 0
    for (start, end), own in zip(places, edits):
        if kind == "instead":
            own.append((start, end, one))
        elif kind == "around":
            own += [(start, start, one), (end, end, other)]
        else:
            own.append((start, start, f"{one} ") if kind == "before" else (end, end, f" {one}"))
    return 2 if kind == "around" else 1


def _framed(pair: Pair, edits: tuple[list[Edit], list[Edit]], count: int, chance: random.Random) -> None:
    """At the beginning, at the end, or around everything."""
    kind = chance.choices(("begin", "end", "around"), (4, 4, 2))[0]
    space = chance.choice(("", " ")) if kind == "around" else " "
    inside = chance.random() < 0.5  # before the full stop
    for side, own in zip(pair, edits):
        stop = ENDS.search(side)
        assert stop is not None
        end = stop.start() if inside else len(side)
        if kind != "end":
            own.append((0, 0, f"{placeholder(count)}{space}"))
        if kind != "begin":
            own.insert(0, (end, end, f"{space}{placeholder(count + 1)}"))


def _written(text: str, edits: Sequence[Edit]) -> str:
    """From the last to the first, so that places stay what they are; of two at one place the later one stands first."""
    for start, end, new in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _numbered(sides: Sequence[str]) -> Pair:
    """As the source has them in order: ⟦0⟧, ⟦1⟧ … None touches a word."""
    numbers = {found[1]: n for n, found in enumerate(PLACEHOLDER.finditer(sides[0]))}
    source, target = (PLACEHOLDER.sub(lambda found: placeholder(numbers[found[1]]), side) for side in sides)
    return spaced(source), spaced(target)


def placed(corpora: Sequence[Parallel], share: float) -> list[Parallel]:
    """The same corpora with placeholders in a share of their pairs: written once, and kept with what is tokenised. Text
    that came with so many is left as it is."""
    if sum(corpus.counts.marked for corpus in corpora) >= share * sum(corpus.counts.said for corpus in corpora):
        return list(corpora)
    learned: dict[tuple[str, str], Aligner] = {}

    def build(folder: Path, corpus: Parallel, alike: Sequence[Parallel]) -> None:
        direction = languages_of(corpus)
        if direction not in learned:
            learned[direction] = learn_aligner(sampled(alike))
        with (folder / "pairs.jsonl").open("w", encoding="utf-8", newline="\n") as file:
            for source, target in changed(corpus.read(), learned[direction], share):
                file.write(json.dumps({"source": source, "target": target}, ensure_ascii=False) + "\n")

    found = []
    for corpus in corpora:
        alike = [other for other in corpora if languages_of(other) == languages_of(corpus)]
        identity = fingerprint([VERSION, str(share), corpus.identity, *(other.identity for other in alike)])
        path = cached(
            "placeholders",
            identity,
            lambda folder, c=corpus, a=alike: build(folder, c, a),  # type: ignore[misc]
            lambda folder: folder / "pairs.jsonl",
        )
        files = ParallelFiles(str(path), "", columns=("source", "target"))
        found.append(replace(corpus, origin=FromFiles(files), identity=identity))
    return found


def changed(pairs: Iterator[Pair], aligner: Aligner, share: float) -> Iterator[Pair]:
    """What is changed, and how, depends on the pair alone."""
    while group := list(islice(pairs, GROUP)):
        seeds = [zlib.crc32("\t".join(pair).encode()) for pair in group]
        rows = [row for row, seed in enumerate(seeds) if seed < share * 2**32]
        for row, links in zip(rows, aligner.align([group[row] for row in rows])):
            group[row] = with_placeholders(group[row], links.tolist(), random.Random(seeds[row]))
        yield from group
