"""Markdown (.md): paragraphs, headings, list items and cells of tables; code, addresses and layout are kept.

markdown-it finds the blocks, by line; markdown_inline reads what is in them. A block whose translation would not be
read as the same block, or with other links, code or emphasis, stays untranslated."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from markdown_it import MarkdownIt

from headway.documents.encodings import DecodedText, decode_text
from headway.documents.html import HTML_FORMAT, parse_html
from headway.documents.limits import current_meter
from headway.documents.markdown_inline import normalise_label, parse_inline
from headway.documents.markup import MarkupFormat, MarkupSegment, OutputItems, Piece, collect_segments, write_translated
from headway.documents.segments import DocumentCounts, SegmentQueue, TranslateSegments

FRONT_MATTER = re.compile(r"\ufeff?(?P<fence>---|\+\+\+)[ \t]*\n(?:.*\n)*?(?P=fence)[ \t]*(?:\n|\Z)")
FRONT_MATTER_TEXT = re.compile(
    r"^(?:title|description|summary|subtitle)[ \t]*[:=][ \t]*"
    r"""(?P<value>"(?:[^"\\\n]|\\.)*"|[^\s"'|>{\[&*!#][^\n#]*?)[ \t]*$""",
    re.MULTILINE,
)
PLAIN_YAML = re.compile(r"[^\W\d_][^\n:#]*")
# Beginnings of a block's content that are not text: labels of notes, tasks and alerts
LABEL = re.compile(r"\[\^[^\]\s]+\]:[ \t]*|\[[ xX]\][ \t]+|\[![A-Za-z]+\][ \t]*$", re.MULTILINE)
CONTAINER_LINE = re.compile(r":::|!!![ \t]|\?\?\?\+?[ \t]")
BLOCK_START = re.compile(r"[-+*>#=~|:<]|\d{1,9}[.)]")  # a wrapped line must not begin so
LINE_START = re.compile(r"\d{1,9}(?=[.)](?:\s|$))|(?=[-+*](?:\s|$)|\#{1,6}(?:\s|$)|>|=+\s*$|-+\s*$|~~~)")
CELL = re.compile(r"(?:[^|\\]|\\.)+")
ESCAPED = re.compile(r"[\\`*\[\]<&|~_]")


@dataclass
class ContentLine:
    """The content of a block on one line of the file."""

    number: int
    start: int
    end: int


@dataclass
class MarkdownBlock:
    """Lines of text that are translated together."""

    lines: list[ContentLine]
    content: str
    kind: Literal["paragraph", "heading", "cell"] = "paragraph"
    parts: list[Piece | MarkupSegment] = field(default_factory=list)
    segments: range = range(0)


@dataclass
class HtmlBlock:
    first: int
    last: int  # the line after it
    parts: list[Piece | MarkupSegment] = field(default_factory=list)


def translate_bytes(data: bytes, name: str, translate: TranslateSegments) -> tuple[bytes, DocumentCounts]:
    source = decode_text(data, name)
    current_meter().count_elements(sum(map(source.text.count, "\n<[|*_`")), name)
    document = MarkdownDocument(source.text)
    queue = SegmentQueue()
    document.queue_blocks(queue)
    queue.translate_all(translate)
    return DecodedText(document.write(queue), source.encoding).encode(), queue.counts()


class MarkdownDocument:
    def __init__(self, text: str) -> None:
        front = FRONT_MATTER.match(text)
        self.front = front[0] if front else text[: text.startswith("\ufeff")]
        self.body = text[len(self.front) :]
        self.line_ends = re.findall(r"\r?\n|\Z", self.body)
        self.lines = re.split(r"\r?\n", self.body)
        self.parser = MarkdownIt("commonmark").enable("table").enable("strikethrough")
        self.environment: dict[str, Any] = {}
        self.blocks: list[MarkdownBlock | HtmlBlock] = []
        self.front_values: list[tuple[int, int, int]] = []  # start, end, segment
        if len(self.line_ends) == len(self.lines):
            self.blocks = list(self.find_blocks())
        labels = self.environment.get("references", {})
        self.references = {normalise_label(label) for label in labels}

    # ---- reading

    def find_blocks(self) -> Iterator[MarkdownBlock | HtmlBlock]:
        tokens = self.parse_blocks("\n".join(self.lines), self.environment)
        row: list[ContentLine] = []  # cells of a table that are not taken yet
        for index, token in enumerate(tokens):
            if token.type == "tr_open":
                row = self.split_row(tokens, index)
            elif token.type == "html_block":
                yield HtmlBlock(*token.map)
            elif token.type == "inline" and tokens[index - 1].type in ("th_open", "td_open"):
                cell = row.pop(0) if row else ContentLine(0, 0, 0)
                content = self.lines[cell.number][cell.start : cell.end]
                if content and content.replace("\\|", "|") == token.content:
                    yield MarkdownBlock([cell], content, "cell")
            elif token.type == "inline" and token.content.strip():
                found = self.locate(token.map, token.content)
                is_heading = tokens[index - 1].type == "heading_open" and "#" in tokens[index - 1].markup
                yield from (
                    [MarkdownBlock(found, token.content, "heading" if is_heading else "paragraph")] if found else []
                )

    def parse_blocks(self, text: str, environment: dict[str, Any]) -> list[Any]:
        parser = MarkdownIt("commonmark").enable("table")
        parser.core.ruler.enableOnly(["normalize", "block"])
        tokens: list[Any] = parser.parse(text, environment)
        return tokens

    def locate(self, lines: Sequence[int], content: str) -> list[ContentLine]:
        """Where the content of a block is; empty if it is not as in the file."""
        located = []
        for number, line in zip(range(*lines), content.split("\n")):
            raw = self.lines[number]
            start = raw.rfind(line.strip())
            if start < 0:
                return []
            located.append(ContentLine(number, start, start + len(line.strip())))
        return located

    def split_row(self, tokens: Sequence[Any], index: int) -> list[ContentLine]:
        cells = next((token.map for token in tokens[index + 1 : index + 3] if token.map), tokens[index].map)
        number = cells[0]
        raw = self.lines[number]
        prefix = len(raw) - len(raw.lstrip(" \t>"))
        start = prefix + raw[prefix:].startswith("|")
        row = []
        while start <= len(raw.rstrip()):
            found = CELL.match(raw, start)
            end = found.end() if found else start
            text = raw[start:end]
            left = start + len(text) - len(text.lstrip())
            row.append(ContentLine(number, left, max(left, start + len(text.rstrip()))))
            start = end + 1
        return row

    def queue_blocks(self, queue: SegmentQueue) -> None:
        for found in FRONT_MATTER_TEXT.finditer(self.front):
            value = found["value"]
            text = read_front_value(value)
            if text and any(character.isalpha() for character in text):
                self.front_values.append((*found.span("value"), queue.add(text)))
        for block in self.blocks:
            if isinstance(block, HtmlBlock):
                raw = "\n".join(self.lines[block.first : block.last])
                block.parts = collect_segments(parse_html(raw), queue, HTML_FORMAT)
                continue
            first = len(queue.requests)
            block.parts = collect_segments(self.read_block(block), queue, MARKDOWN_FORMAT)
            block.segments = range(first, len(queue.requests))

    def read_block(self, block: MarkdownBlock) -> list[Piece]:
        """The pieces of a block, line ends included. Lines that open a container are not text."""
        pieces: list[Piece] = []
        stretch: list[str] = []

        def flush(line_end: str) -> None:
            if stretch:
                pieces.extend(parse_inline("\n".join(stretch) + line_end, self.references))
                stretch.clear()

        lines = block.content.split("\n")
        lines[0] = lines[0].lstrip()
        label = LABEL.match(lines[0])
        if label:
            pieces.append(Piece("break", label[0]))
            lines[0] = lines[0][label.end() :]
        for index, line in enumerate(lines):
            if CONTAINER_LINE.match(line.strip()):
                flush("\n")
                pieces.append(Piece("break", line + ("\n" if index + 1 < len(lines) else "")))
            else:
                stretch.append(line)
        flush("")
        return pieces

    # ---- writing

    def write(self, queue: SegmentQueue) -> str:
        lines = [line + end for line, end in zip(self.lines, self.line_ends)]
        for block in reversed(self.blocks):  # from the end, because new lines shift those that follow
            if isinstance(block, HtmlBlock):
                new, changed = write_translated(block.parts, queue, HTML_FORMAT)
                if changed:
                    lines[block.first : block.last] = self.end_lines(new.split("\n"), block.last - 1)
            elif block.segments:
                self.write_block(block, queue, lines)
        return self.write_front(queue) + "".join(lines)

    def end_lines(self, lines: Sequence[str], last: int) -> list[str]:
        """New lines with line ends, the last with that of line `last`."""
        return [f"{line}{self.line_ends[0]}" for line in lines[:-1]] + [lines[-1] + self.line_ends[last]]

    def write_block(self, block: MarkdownBlock, queue: SegmentQueue, lines: list[str]) -> None:
        new, changed = write_translated(block.parts, queue, MARKDOWN_FORMAT)
        if not changed:
            return
        new_lines = new.rstrip().split("\n")  # those before the last may end in the spaces of a hard break
        if block.kind == "cell":
            new_lines = [re.sub(r"(?<!\\)\|", r"\\|", " ".join(new_lines))]
        elif block.kind == "paragraph":
            new_lines = [escape_line_start(line.lstrip()) for line in new_lines]
            if len(block.lines) > 1:
                new_lines = wrap_lines(new_lines, max(line.end - line.start for line in block.lines))
        if fault := self.find_change(block, new_lines):
            for number in block.segments:
                queue.reject(number, fault)
            return
        first, last = block.lines[0], block.lines[-1]
        if block.kind == "cell":
            row = lines[first.number]
            lines[first.number] = row[: first.start] + new_lines[0] + row[first.end :]
            return
        prefix = self.lines[block.lines[1].number][: block.lines[1].start] if len(block.lines) > 1 else ""
        written = [prefix + line for line in new_lines]
        written[0] = self.lines[first.number][: first.start] + new_lines[0]
        written[-1] += self.lines[last.number][last.end :]
        lines[first.number : last.number + 1] = self.end_lines(written, last.number)

    def find_change(self, block: MarkdownBlock, new_lines: Sequence[str]) -> str:
        """Why a translation cannot be written: what it would be read as. "" if it is read as its source is."""
        if block.kind == "paragraph":
            kinds = [token.type for token in self.parse_blocks("\n".join(new_lines), {})]
            if kinds != ["paragraph_open", "inline", "paragraph_close"]:
                return "its translation would not be a paragraph"
        old, new = (self.inline_signature(text) for text in (block.content, "\n".join(new_lines)))
        return "" if old == new else "its formatting could not be kept"

    def inline_signature(self, content: str) -> Counter[tuple[str, str]]:
        """What a paragraph has besides text."""
        signature: Counter[tuple[str, str]] = Counter()
        for token in self.parser.parseInline(content, self.environment)[0].children or []:
            if token.type not in ("text", "softbreak", "text_special"):
                detail = token.attrGet("href") or token.attrGet("src") or ""
                detail = (
                    " ".join(token.content.split()) if token.type in ("code_inline", "html_inline") else str(detail)
                )
                signature[token.type, detail] += 1
        return signature

    def write_front(self, queue: SegmentQueue) -> str:
        output = []
        position = 0
        for start, end, number in self.front_values:
            translation = " ".join(queue.results[number].text.split())
            if translation and translation != queue.requests[number].text:
                quoted = self.front[start] == '"' or not PLAIN_YAML.fullmatch(translation)
                new = json.dumps(translation, ensure_ascii=False) if quoted else translation
                output += [self.front[position:start], new]
                position = end
        return "".join(output) + self.front[position:]


def read_front_value(value: str) -> str:
    if not value.startswith('"'):
        return value
    try:
        text: Any = json.loads(value)
    except ValueError:
        return ""
    return str(text)


def write_markdown(items: OutputItems) -> str:
    output: list[str] = []
    for item in items:
        output.append(escape_markdown(item) if isinstance(item, str) else item.raw)
    return "".join(output)


def escape_markdown(text: str) -> str:
    """Escape what would be read as markup."""

    def escape(match: re.Match[str]) -> str:
        sign = match[0]
        start, end = match.span()
        before, after = text[start - 1 : start], text[end : end + 1]
        if sign == "\\":
            special = bool(after) and not after.isalnum() and not after.isspace()
        elif sign == "_":
            special = not (before.isalnum() and after.isalnum())
        elif sign == "<":
            special = after.isalpha() or after in ("/", "!", "?")
        elif sign == "&":
            special = re.match(r"&(?:#\w+|\w+);", text[start : start + 40]) is not None
        elif sign in "[]":
            special = sign == "]" and after in ("(", "[", ":")
        elif sign == "~":
            special = before == "~" or after == "~"
        else:
            special = sign != "|" and not (sign == "*" and before.isspace() and after.isspace())
        return f"\\{sign}" if special else sign

    return ESCAPED.sub(escape, text)


def escape_line_start(line: str) -> str:
    """Escape a beginning that would start a list, a heading, a quotation or a rule."""
    found = LINE_START.match(line)
    if found is None:
        return line
    position = found.end()
    return f"{line[:position]}\\{line[position:]}"


def wrap_lines(lines: Sequence[str], width: int) -> list[str]:
    """Lines no longer than `width`, where words allow it; hard breaks, which end in a backslash or spaces, are kept."""
    wrapped: list[str] = []
    for line in lines:
        current = ""
        for word in line.split(" "):
            if current and len(current) + 1 + len(word) > width and word and not BLOCK_START.match(word):
                wrapped.append(current)
                current = word
            else:
                current = f"{current} {word}" if current else word
        wrapped.append(current)
    return wrapped


MARKDOWN_FORMAT = MarkupFormat(write_markdown)
