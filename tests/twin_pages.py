"""Compares a page with its translation: headings, blocks, code, commands, numbers, links and pictures.

    page ── read_sections ──► sections of blocks ──┐
                                                   ├── compare_pages ──► what is out of step, a sentence each
    twin ── read_sections ──► sections of blocks ──┘

Words are not compared. What does not depend on the language is: how many paragraphs, list items and table rows there
are, and in each of them code, commands, numbers and links."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

LANGUAGES = "English | 简体中文"
NUMBER = re.compile(r"(\d+(?:[,.]\d+)*)(?: ?(million|万|亿|M\b))?")
FACTORS = {"million": 10**6, "M": 10**6, "万": 10**4, "亿": 10**8}
HAS_COMMENTS = {"", "bash", "console", "python", "sh", "toml", "yaml"}
QUOTED_OR_COMMENT = re.compile(r""""(?:\\.|[^"\\])*"|'[^']*'|(?P<comment>(?:^|(?<=\s))#.*)|.""")
HAN = "\u4e00-\u9fff"
UNSPACED = re.compile(rf"[{HAN}][A-Za-z0-9`]|[A-Za-z0-9`%][{HAN}]")
HALF_WIDTH = re.compile(rf"[{HAN}][,;:?!()]|[,;:?!] ?[{HAN}]|[()][{HAN}]|[{HAN}]\.(?:\s|$)")


@dataclass(frozen=True)
class Span:
    """The words of a heading, a paragraph or a cell, and what stands among them."""

    text: str  # each piece of code is one `
    codes: tuple[str, ...]
    links: tuple[str, ...]
    pictures: tuple[str, ...]
    bold: int

    @cached_property
    def full_text(self) -> str:
        codes = iter(self.codes)
        return re.sub("`", lambda _: next(codes), self.text)

    @cached_property
    def numbers(self) -> list[str]:
        return [read_number(match[1], match[2]) for match in NUMBER.finditer(self.text)]


@dataclass(frozen=True)
class Block:
    kind: str
    line: int  # counted from 1
    spans: tuple[Span, ...] = ()
    code: str = ""  # without comments

    @cached_property
    def features(self) -> Counter[str]:
        """What a block and its translation have in common."""
        spans = (item for span in self.spans for item in (*span.codes, *span.numbers, *("[]" for _ in span.links)))
        return Counter([self.kind, *self.code.split("\n"), *spans])

    @property
    def text(self) -> str:
        return self.code or " | ".join(span.full_text for span in self.spans)

    def __str__(self) -> str:
        return f'{self.kind} "{self.text.strip()[:60]}" (line {self.line})'


@dataclass(frozen=True)
class Section:
    heading: Block
    blocks: tuple[Block, ...]

    @property
    def kind(self) -> str:
        return self.heading.kind

    @property
    def line(self) -> int:
        return self.heading.line

    @cached_property
    def features(self) -> Counter[str]:
        return sum((block.features for block in self.blocks), self.heading.features)

    def __str__(self) -> str:
        return str(self.heading)


T = TypeVar("T", Block, Section)
Pairing = tuple[float, list[tuple[int, int]]]  # how good it is, and the indices of each pair
# Those of the original, those of its twin, and the line of the twin that they follow, if any.
Unpaired = tuple[Sequence[Block | Section], Sequence[Block | Section], int]


def read_number(digits: str, unit: str | None) -> str:
    """In one form, whatever its groups and units: 3 million and 300 万 are 3000000."""
    if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d+)?", digits):
        digits = digits.replace(",", "")
    return f"{float(digits) * FACTORS[unit]:.0f}" if unit else digits


def strip_comments(code: str) -> str:
    """What is left of a comment is its #, since it may be translated but not be missing."""
    lines = []
    for line in code.split("\n"):
        kept = "".join("#" if part["comment"] else part[0] for part in QUOTED_OR_COMMENT.finditer(line))
        lines.append(re.sub(r"\s+#$", " #", kept))
    return "\n".join(lines)


def read_span(inline: Token) -> Span:
    text, bold = "", 0
    codes, links, pictures = [], [], []
    for token in inline.children or ():
        if token.type == "code_inline":
            codes.append(token.content)
            text += "`"
        elif token.type == "link_open":
            links.append(unquote(str(token.attrs["href"])))
        elif token.type == "image":
            pictures.append(unquote(str(token.attrs["src"])))
        elif token.type == "strong_open":
            bold += 1
        elif token.type in ("text", "softbreak"):
            text += token.content or "\n"
    return Span(text, tuple(codes), tuple(links), tuple(pictures), bold)


def read_blocks(text: str) -> Iterator[Block]:
    open_tokens: list[Token] = []
    cells: list[Span] = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        line = token.map[0] + 1 if token.map else 0
        if token.nesting == 1:
            open_tokens.append(token)
        elif token.nesting == -1:
            opened = open_tokens.pop()
            if opened.type == "tr_open" and opened.map:
                yield Block("table row", opened.map[0] + 1, tuple(cells))
                cells = []
        elif token.type in ("fence", "code_block"):
            language = token.info.split(" ")[0]
            code = strip_comments(token.content) if language in HAS_COMMENTS else token.content
            yield Block(f"{language} code".strip(), line, code=code)
        elif token.type == "html_block":
            yield Block("HTML", line, code=token.content.strip())
        elif token.type != "inline":
            yield Block(token.type, line)
        elif open_tokens[-1].type in ("td_open", "th_open"):
            cells.append(read_span(token))
        elif open_tokens[-1].type == "heading_open":
            yield Block(f"heading {open_tokens[-1].tag[1]}", line, (read_span(token),))
        else:
            in_list = any(opened.type == "list_item_open" for opened in open_tokens)
            yield Block("list item" if in_list else "paragraph", line, (read_span(token),))


def read_sections(path: Path) -> list[Section]:
    """A page begins with its title. The line that links the languages is left out: see `check_languages`."""
    sections: list[tuple[Block, list[Block]]] = []
    for block in read_blocks(path.read_text(encoding="utf-8")):
        if block.kind.startswith("heading"):
            sections.append((block, []))
        elif not is_languages(block):
            sections[-1][1].append(block)
    return [Section(heading, tuple(blocks)) for heading, blocks in sections]


def is_languages(block: Block) -> bool:
    return block.kind == "paragraph" and block.text == LANGUAGES


def anchors_of(sections: Sequence[Section]) -> dict[str, Section]:
    """By the anchor that GitHub gives to its heading."""
    anchors: dict[str, Section] = {}
    for section in sections:
        anchor = re.sub(r"[^\w\- ]", "", section.heading.text.lower()).replace(" ", "-")
        again = sum(re.fullmatch(re.escape(anchor) + r"(-\d+)?", other) is not None for other in anchors)
        anchors[f"{anchor}-{again}" if again else anchor] = section
    return anchors


class Twins:
    """Pages and their translations: {"docs/training.md": "docs/zh/training.md"}, by their paths in `root`."""

    def __init__(self, root: Path, twins: dict[str, str]) -> None:
        self.root = root
        self.twins = twins
        self.originals = {twin: original for original, twin in twins.items()}
        self.sections = cache(lambda page: read_sections(root / page))
        self.anchors = cache(lambda page: anchors_of(self.sections(page)))

    def resolve(self, page: str, target: str) -> tuple[str, str]:
        """The path in the root, and the anchor; an address of the web is a path as it is."""
        if re.match(r"\w+:", target):
            return target, ""
        path, _, anchor = target.partition("#")
        if not path:
            return page, anchor
        return str((self.root / page).parent.joinpath(path).resolve().relative_to(self.root.resolve())), anchor

    def name(self, page: str, target: str) -> str:
        """The same for a link and its translation: the original's path, and which of its headings."""
        path, anchor = self.resolve(page, target)
        original = self.originals.get(path, path)
        if not anchor or not (self.root / path).exists() or anchor not in self.anchors(path):
            return f"{original}#{anchor}" if anchor else original
        section = self.anchors(path)[anchor]
        if original not in self.twins:
            return f'{original}, "{section.heading.text}"'
        pairs, _ = pair_up(self.sections(original), self.sections(self.twins[original]))
        headings = [one.heading.text for one, other in pairs if section is one or section is other]
        return f'{original}, "{headings[0]}"' if headings else original

    def check_targets(self, page: str) -> list[str]:
        """Links and pictures that lead nowhere, or from a translation to an original whose translation exists."""
        wrong = []
        for block in read_blocks((self.root / page).read_text(encoding="utf-8")):
            where = f"{page}, line {block.line}"
            for target in (target for span in block.spans for target in (*span.links, *span.pictures)):
                path, anchor = self.resolve(page, target)
                if path == target and ":" in target:
                    continue
                if not (self.root / path).exists():
                    wrong.append(f'{where}: "{target}" does not exist')
                elif anchor and path.endswith(".md") and anchor not in self.anchors(path):
                    wrong.append(f'{where}: {path} has no heading "#{anchor}"')
                if page in self.originals and path in self.twins and not is_languages(block):
                    wrong.append(f'{where}: "{target}" should be {self.twins[path]}')
        return wrong

    def check_languages(self, page: str) -> list[str]:
        """Below the title, each page has the same line, with a link to the other language."""
        other = self.twins.get(page) or self.originals[page]
        blocks = list(read_blocks((self.root / page).read_text(encoding="utf-8")))
        line = blocks[1] if len(blocks) > 1 else None
        if line and is_languages(line) and [self.resolve(page, link)[0] for link in line.spans[0].links] == [other]:
            return []
        return [f'{page}: the paragraph below the title has to be "{LANGUAGES}", with a link to {other}']

    def compare_pages(self, original: str) -> list[str]:
        """What is out of step, a sentence each."""
        twin = self.twins[original]
        wrong: list[str] = []
        sections, unpaired = pair_up(self.sections(original), self.sections(twin))
        wrong += describe_unpaired(unpaired, original, twin, "the headings")
        for one, other in sections:
            inside = f'the section "{one.heading.text}"'
            blocks, unpaired_blocks = pair_up(one.blocks, other.blocks)
            wrong += describe_unpaired(unpaired_blocks, original, twin, inside)
            for a, b in ((one.heading, other.heading), *blocks):
                where = f"{twin}, line {b.line} ({original}, line {a.line}, in {inside})"
                wrong += [f"{where}: {what}" for what in self.compare_blocks(a, b, original, twin)]
        return wrong

    def compare_blocks(self, a: Block, b: Block, original: str, twin: str) -> Iterator[str]:
        """Two of one kind."""
        if a.code != b.code:
            yield describe_code(a, b)
        if len(a.spans) != len(b.spans):
            yield f"{len(b.spans)} cells in place of {len(a.spans)}"
        for number, (one, other) in enumerate(zip(a.spans, b.spans, strict=False), 1):
            cell = f"cell {number}: " if len(a.spans) > 1 else ""
            ours = [self.name(original, link) for link in one.links], [self.name(twin, link) for link in other.links]
            pictures = ([self.name(page, p) for p in s.pictures] for page, s in ((original, one), (twin, other)))
            for what, was, now in (
                ("code", one.codes, other.codes),
                ("number", one.numbers, other.numbers),
                ("link to", *ours),
                ("picture", *pictures),
                ("bold text", ["**"] * one.bold, ["**"] * other.bold),
            ):
                missing, added = list_items(Counter(was) - Counter(now)), list_items(Counter(now) - Counter(was))
                if missing and added:
                    yield f"{cell}{what} {added} in place of {missing}"
                elif missing or added:
                    yield f"{cell}missing {what} {missing}" if missing else f"{cell}superfluous {what} {added}"


def list_items(items: Counter[str]) -> str:
    return ", ".join(f"{item} ({times} times)" if times > 1 else item for item, times in items.items())


def describe_code(a: Block, b: Block) -> str:
    """The first line that differs."""
    lines = zip([*a.code.split("\n"), "(its end)"], [*b.code.split("\n"), "(its end)"], strict=False)
    number, (one, other) = next((n, pair) for n, pair in enumerate(lines, 1) if pair[0] != pair[1])
    return f"line {number} of the code is {other!r} in place of {one!r}"


def pair_up(ours: Sequence[T], theirs: Sequence[T]) -> tuple[list[tuple[T, T]], list[Unpaired]]:
    """In order where the kinds are the same. Otherwise as many as possible of one kind, and those that are most alike;
    the others are unpaired."""
    if [one.kind for one in ours] == [other.kind for other in theirs]:
        return list(zip(ours, theirs, strict=True)), []
    best: dict[tuple[int, int], Pairing] = {}  # for what stands before i and before j
    for i, j in product(range(len(ours) + 1), range(len(theirs) + 1)):
        choices: list[Pairing] = [best[place] for place in ((i - 1, j), (i, j - 1)) if place in best] or [(0.0, [])]
        if i and j and ours[i - 1].kind == theirs[j - 1].kind:
            score, before = best[i - 1, j - 1]
            choices.append((score + 1 + likeness(ours[i - 1], theirs[j - 1]), [*before, (i - 1, j - 1)]))
        best[i, j] = max(choices, key=lambda choice: choice[0])
    _, indices = best[len(ours), len(theirs)]
    unpaired: list[Unpaired] = []
    for (a, c), (b, d) in pairwise([(-1, -1), *indices, (len(ours), len(theirs))]):
        if b - a > 1 or d - c > 1:
            unpaired.append((ours[a + 1 : b], theirs[c + 1 : d], theirs[c].line if c >= 0 else 0))
    return [(ours[i], theirs[j]) for i, j in indices], unpaired


def likeness(one: Block | Section, other: Block | Section) -> float:
    """From 0 to 1."""
    return (one.features & other.features).total() / (one.features | other.features).total()


def describe_unpaired(unpaired: Sequence[Unpaired], original: str, twin: str, where: str) -> Iterator[str]:
    for ours, theirs, line in unpaired:
        has, twin_has = (", ".join(str(item) for item in items) or "nothing" for items in (ours, theirs))
        place = f"after line {line}" if line else "at its beginning"
        yield f"{where} of {original}: {has}; {twin}, {place}: {twin_has}"


def check_typography(root: Path, page: str) -> list[str]:
    """Spaces between Han characters and others, and full-width punctuation beside Han characters."""
    rules: dict[str, Callable[[str], re.Match[str] | None]] = {
        "a space is missing in": UNSPACED.search,
        "half-width punctuation in": HALF_WIDTH.search,
    }
    return [
        f'{page}, line {block.line}: {rule} "{span.text[max(0, found.start() - 10) : found.end() + 10]}"'
        for block in read_blocks((root / page).read_text(encoding="utf-8"))
        for span in block.spans
        for rule, search in rules.items()
        if (found := search(span.text))
    ]
