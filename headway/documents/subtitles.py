"""Subtitles: cues with times. Numbers, times and settings are kept, to the byte.

A sentence that continues in the next cue is translated as one segment, and split again where the fewest aligned words
change sides. SubtitleSyntax is how a format writes times and text: see srt and vtt."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headway.documents.encodings import DecodedText, decode_text
from headway.documents.limits import current_meter
from headway.documents.markup import (
    WHITESPACE,
    MarkupFormat,
    MarkupSegment,
    OutputItems,
    Piece,
    PieceKind,
    collect_segments,
    write_translated,
)
from headway.documents.segments import DocumentCounts, SegmentQueue, SegmentResult, TranslateSegments
from headway.documents.tag_placement import diagonal_links
from headway.text.align.words import WORD
from headway.text.scripts import UNSPACED_SCRIPTS, count_scripts

TAG_NAME = re.compile(r"<(?P<end>/?)(?P<name>[a-zA-Z]\w*)[^<>]*>")
DASH = re.compile(r"\s*[-–—‐]+\s*")
SENTENCE_END = re.compile(r"""[.!?…。！？:;"”»\])♪*-]\s*$""")
LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
MAX_GAP_MS = 1000  # between two cues of one sentence
MAX_CUE_CHARS = 300  # longer text is not a cue that anybody could read
MAX_CUES_PER_SENTENCE = 4
ELLIPSIS = "…"  # for a cue that nothing of its sentence is left for


class SubtitleSyntax(NamedTuple):
    timing: re.Pattern[str]  # a line with hours, minutes, seconds and milliseconds of start and end
    tag: re.Pattern[str]
    unescape: Callable[[str], str] = lambda text: text
    escape: Callable[[str], str] = lambda text: text

    @property
    def markup_format(self) -> MarkupFormat:
        return MarkupFormat(self.write)

    def write(self, items: OutputItems) -> str:
        return "".join(self.escape(item) if isinstance(item, str) else item.raw for item in items)

    def plain_text(self, text: str) -> str:
        """Without tags, as it is shown."""
        return self.unescape(self.tag.sub("", text))


@dataclass
class Cue:
    """The text of a cue, and what is before and after it in the file."""

    syntax: SubtitleSyntax
    start_ms: int
    end_ms: int
    head: str
    raw: str = ""
    tail: str = ""

    @property
    def lines(self) -> list[str]:
        return [line.rstrip("\r\n") for line in LINE.findall(self.raw)]

    @property
    def text(self) -> str:
        """On one line, with its tags."""
        return " ".join(line.strip() for line in self.lines)

    @property
    def has_tags(self) -> bool:
        return self.syntax.tag.search(self.raw) is not None

    def join_lines(self, lines: Sequence[str]) -> str:
        """Join new lines with the line ends of the file; the last has one if it had one before."""
        line_end = "\r\n" if self.head.endswith("\r\n") else "\n"
        return line_end.join(lines) + self.raw[len(self.raw.rstrip("\r\n")) :]


@dataclass
class CueGroup:
    """Cues that share one sentence, or a single cue."""

    cues: list[Cue]
    number: int = -1  # of several cues: their segment in the queue
    parts: list[list[Piece | MarkupSegment]] = field(default_factory=list)  # of a single cue: one, or one per line


def translate_subtitles(
    data: bytes, name: str, translate: TranslateSegments, syntax: SubtitleSyntax
) -> tuple[bytes, DocumentCounts]:
    source = decode_text(data, name)
    current_meter().count_elements(sum(map(source.text.count, "\n<{")), name)
    opening, cues = parse_cues(source.text, syntax)
    queue = SegmentQueue()
    groups = [queue_group(group, queue) for group in group_cues(cues)]
    queue.translate_all(translate)
    translated = (pair for group in groups for pair in translated_cues(group, queue))
    text = opening + "".join(cue.head + body + cue.tail for cue, body in translated)
    return DecodedText(text, source.encoding).encode(), queue.counts()


def parse_cues(text: str, syntax: SubtitleSyntax) -> tuple[str, list[Cue]]:
    """What comes before the first timing line, and the cues. Joined, they are the file."""
    lines = LINE.findall(text)
    cues: list[Cue] = []
    between: list[str] = []  # lines since the last cue's text
    in_text = False
    for index, line in enumerate(lines):
        timing = syntax.timing.fullmatch(line.rstrip("\r\n"))
        if timing:
            numbers = [int(number or 0) for number in timing.groups()]
            start, end = (((h * 60 + m) * 60 + s) * 1000 + ms for h, m, s, ms in (numbers[:4], numbers[4:]))
            cues.append(Cue(syntax, start, end, "".join(between) + line))
            between = []
            in_text = True
        elif in_text and line.strip() and not starts_next_cue(lines, index, syntax):
            cues[-1].raw += line
        else:
            in_text = False
            between.append(line)
    if cues:
        cues[-1].tail = "".join(between)
        return "", cues
    return "".join(between), cues


def starts_next_cue(lines: Sequence[str], index: int, syntax: SubtitleSyntax) -> bool:
    """Whether a line is the number of the next cue, which follows without a blank line."""
    following = lines[index + 1].rstrip("\r\n") if index + 1 < len(lines) else ""
    return lines[index].strip().isdigit() and bool(syntax.timing.fullmatch(following))


def group_cues(cues: Sequence[Cue]) -> Iterator[list[Cue]]:
    group: list[Cue] = []
    for cue in cues:
        if group and not (len(group) < MAX_CUES_PER_SENTENCE and continues_in(group[-1], cue)):
            yield group
            group = []
        group.append(cue)
    if group:
        yield group


def continues_in(cue: Cue, following: Cue) -> bool:
    """Whether a sentence runs from one cue to the next. In doubt it does not."""
    if any(one.has_tags or is_dialogue(one) for one in (cue, following)):
        return False
    if not all(0 < len(one.text) < MAX_CUE_CHARS for one in (cue, following)):
        return False
    gap = following.start_ms - cue.end_ms
    return gap <= MAX_GAP_MS and not SENTENCE_END.search(cue.text) and following.text[0].islower()


def is_dialogue(cue: Cue) -> bool:
    """Whether several people speak, each on a line of their own."""
    return any(DASH.match(line) for line in cue.lines)


def queue_group(cues: list[Cue], queue: SegmentQueue) -> CueGroup:
    if len(cues) > 1:
        return CueGroup(cues, queue.add(" ".join(cue.syntax.unescape(cue.text) for cue in cues), align=True))
    (cue,) = cues
    texts = cue.lines if is_dialogue(cue) else ["\n".join(cue.lines)]
    pieces = [parse_cue_text(text, cue.syntax) for text in texts]
    return CueGroup(cues, parts=[collect_segments(part, queue, cue.syntax.markup_format) for part in pieces])


def parse_cue_text(text: str, syntax: SubtitleSyntax) -> list[Piece]:
    dash = DASH.match(text)
    pieces = [Piece("break", dash[0])] if dash else []
    position = dash.end() if dash else 0
    for match in syntax.tag.finditer(text, position):
        if match.start() > position:
            between = text[position : match.start()]
            pieces.append(Piece("text", between, syntax.unescape(between)))
        element = TAG_NAME.fullmatch(match[0])  # others, such as {\an8} or a time, stand alone
        kind: PieceKind = "standalone" if element is None else "close" if element["end"] else "open"
        pieces.append(Piece(kind, match[0], name=element["name"].lower() if element else ""))
        position = match.end()
    return (
        [*pieces, Piece("text", text[position:], syntax.unescape(text[position:]))] if position < len(text) else pieces
    )


def translated_cues(group: CueGroup, queue: SegmentQueue) -> Iterator[tuple[Cue, str]]:
    """Each cue with its new text."""
    if group.number >= 0:
        result = queue.results[group.number]
        if not result.text.strip():
            queue.reject(group.number, "the translation is empty")
        changed = result.text.strip() and result.text != queue.requests[group.number].text
        sources = [cue.syntax.unescape(cue.text) for cue in group.cues]
        texts = split_translation(result, sources) if changed else []
        for index, cue in enumerate(group.cues):
            yield cue, wrap_cue_text(cue.syntax.escape(texts[index]), cue) if changed else cue.raw
        return
    (cue,) = group.cues
    results = [write_translated(parts, queue, cue.syntax.markup_format) for parts in group.parts]
    if not any(changed for _, changed in results):
        yield cue, cue.raw
    elif is_dialogue(cue):
        yield cue, cue.join_lines([text for text, _ in results])
    else:
        yield cue, wrap_cue_text(results[0][0], cue)


def wrap_cue_text(text: str, cue: Cue) -> str:
    """On one line if it fits into the longest line before, else on as many lines as before, of similar length."""
    syntax = cue.syntax
    words = [match[0] for match in re.finditer(rf"(?:{syntax.tag.pattern}|\S)+", text)]
    widths = [len(syntax.plain_text(word)) + 1 for word in words]
    max_width = max((len(syntax.plain_text(line)) for line in cue.lines), default=0)
    count = 1 if sum(widths) - 1 <= max_width else len(cue.lines)
    lines: list[list[str]] = [[] for _ in range(count)]
    done = 0
    for word, width in zip(words, widths):
        lines[min((2 * done + width) * count // (2 * max(sum(widths), 1)), count - 1)].append(word)
        done += width
    return cue.join_lines([" ".join(line) for line in lines if line])


def split_translation(result: SegmentResult, sources: Sequence[str]) -> list[str]:
    """Split a translation into as many parts as its source had, in order; "…" for a part that gets nothing."""
    words = WORD.findall(result.text)
    if len(words) < len(sources):
        characters = result.text.strip(WHITESPACE)
        if len(characters) < len(sources) or not is_unspaced(characters):
            return [characters, *[ELLIPSIS] * (len(sources) - 1)]
        ends = proportional_ends([len(source) for source in sources], len(characters))
        return [characters[start:end] or ELLIPSIS for start, end in zip([0, *ends], ends)]
    sizes = [len(WORD.findall(source)) for source in sources]
    links = result.links or diagonal_links(sum(sizes), len(words))
    ends = []
    end = 0
    source_end = 0
    for index, size in enumerate(sizes[:-1]):
        source_end += size
        expected = source_end / sum(sizes) * len(words)
        max_end = len(words) - (len(sizes) - 1 - index)  # so that every later part gets a word
        end = min(
            range(end + 1, max_end + 1),
            key=lambda end: count_crossing_links(links, source_end, end) + 0.3 * abs(end - expected),
        )
        ends.append(end)
    ends.append(len(words))
    return [" ".join(words[start:end]) for start, end in zip([0, *ends], ends)]


def is_unspaced(text: str) -> bool:
    """Whether most letters are of a script without spaces, which can be split between any two of them."""
    counts = count_scripts(text)
    return 2 * sum(counts.get(script, 0) for script in UNSPACED_SCRIPTS) > sum(counts.values())


def count_crossing_links(links: Sequence[Sequence[int]], source_end: int, target_end: int) -> int:
    """How many links go from one side of a split to the other."""
    return sum((i < source_end) != (j < target_end) for i, j in links)


def proportional_ends(sizes: Sequence[int], total: int) -> list[int]:
    """Where parts end that divide a total in proportion to the sizes."""
    done = 0
    ends = []
    for size in sizes:
        done += size
        ends.append(round(done * total / max(sum(sizes), 1)))
    return ends
