"""Subtitles. Numbers and times stay as they are, to the byte.

A sentence that goes on in the next cue is translated as one, and cut again where the fewest words change sides."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headway.documents.encodings import Encoded, decoded
from headway.documents.markup import SPACE, Kind, Piece, Segment, gather, written
from headway.documents.segments import Counts, Said, Translate, Work
from headway.documents.tag_placement import diagonal
from headway.documents.txt import PLAIN
from headway.text.align.words import WORD
from headway.text.scripts import UNSPACED, count_scripts

CLOCK = r"(\d{1,4}):(\d\d):(\d\d)[,.](\d{1,3})"
TIME = re.compile(rf"\ufeff?\s*{CLOCK}\s*-->\s*{CLOCK}[^\r\n]*")
TAG = re.compile(r"</?[a-zA-Z][^<>]*>|\{\\[^{}]*\}")
TAGGED = re.compile(rf"(?:{TAG.pattern}|\S)+")
DASH = re.compile(r"\s*[-–—‐]+\s*")
ENDS = re.compile(r"""[.!?…。！？:;"”»\])♪*-]\s*$""")
LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
PAUSE = 1000  # milliseconds after which nobody goes on with a sentence
LONGEST = 300  # letters: more is no cue that anybody could read
MOST = 4  # cues of one sentence
MORE = "…"  # for a cue whose sentence was said in the one before


@dataclass
class Cue:
    """The text of a cue, and what stands before and behind it in the file."""

    start: int  # milliseconds
    stop: int
    head: str
    raw: str = ""
    tail: str = ""

    @property
    def lines(self) -> list[str]:
        return [line.rstrip("\r\n") for line in LINE.findall(self.raw)]

    @property
    def text(self) -> str:
        return " ".join(line.strip() for line in self.lines)

    def ended(self, lines: Sequence[str]) -> str:
        """New lines with the line ends that there were; the last has one if it had one."""
        end = "\r\n" if self.head.endswith("\r\n") else "\n"
        return end.join(lines) + self.raw[len(self.raw.rstrip("\r\n")) :]


@dataclass
class Group:
    """Cues that say one sentence together, or one cue by itself."""

    cues: list[Cue]
    number: int = -1  # of several cues: their segment
    parts: list[list[Piece | Segment]] = field(default_factory=list)  # of a single one: of its lines, or of all as one


def translate_bytes(data: bytes, name: str, translate: Translate) -> tuple[bytes, Counts]:
    source = decoded(data, name)
    opening, cues = read(source.text)
    work = Work()
    groups = [asked(group, work) for group in grouped(cues)]
    work.run(translate)
    new = opening + "".join(cue.head + body + cue.tail for group in groups for cue, body in answered(group, work))
    return Encoded(new, source.encoding).bytes(), work.counts()


def read(text: str) -> tuple[str, list[Cue]]:
    """What stands before the first time, and the cues. Joined they are the file."""
    lines = LINE.findall(text)
    cues: list[Cue] = []
    opening: list[str] = []  # lines that belong to no cue's text, up to now
    inside = False
    for place, line in enumerate(lines):
        time = TIME.fullmatch(line.rstrip("\r\n"))
        if time:
            numbers = [int(number) for number in time.groups()]
            start, stop = (((h * 60 + m) * 60 + s) * 1000 + ms for h, m, s, ms in (numbers[:4], numbers[4:]))
            cues.append(Cue(start, stop, "".join(opening) + line))
            opening, inside = [], True
        elif inside and line.strip() and not begins(lines, place):
            cues[-1].raw += line
        else:
            inside = False
            opening.append(line)
    if cues:
        cues[-1].tail = "".join(opening)
        return "", cues
    return "".join(opening), cues


def begins(lines: Sequence[str], place: int) -> bool:
    """Whether a number is that of the next cue, which follows without a blank line."""
    after = lines[place + 1].rstrip("\r\n") if place + 1 < len(lines) else ""
    return lines[place].strip().isdigit() and bool(TIME.fullmatch(after))


def grouped(cues: Sequence[Cue]) -> Iterator[list[Cue]]:
    group: list[Cue] = []
    for cue in cues:
        if group and not (len(group) < MOST and goes_on(group[-1], cue)):
            yield group
            group = []
        group.append(cue)
    if group:
        yield group


def goes_on(cue: Cue, following: Cue) -> bool:
    """Whether a sentence runs from one cue to the next. In doubt it does not."""
    texts = [cue.text, following.text]
    if any(TAG.search(text) or is_dialogue(one) for text, one in zip(texts, (cue, following))):
        return False
    if not all(0 < len(text) < LONGEST for text in texts):
        return False
    return following.start - cue.stop <= PAUSE and not ENDS.search(texts[0]) and texts[1][0].islower()


def is_dialogue(cue: Cue) -> bool:
    """Several people speak, each on a line of his own."""
    return any(DASH.match(line) for line in cue.lines)


def asked(cues: list[Cue], work: Work) -> Group:
    if len(cues) > 1:
        return Group(cues, work.ask(" ".join(cue.text for cue in cues), align=True))
    texts = cues[0].lines if is_dialogue(cues[0]) else ["\n".join(cues[0].lines)]
    return Group(cues, parts=[gather(pieces(text), work, PLAIN) for text in texts])


def pieces(text: str) -> list[Piece]:
    """Tags of subtitles are few, and there are no entities."""
    dash = DASH.match(text)
    found = [Piece("break", dash[0])] if dash else []
    at = dash.end() if dash else 0
    for match in TAG.finditer(text, at):
        if match.start() > at:
            found.append(Piece("text", text[at : match.start()], text[at : match.start()]))
        name = re.sub(r"[</>]", " ", match[0]).split()[0].lower()
        kind: Kind = "point" if match[0][0] == "{" else "close" if match[0][1] == "/" else "open"
        found.append(Piece(kind, match[0], name=name))
        at = match.end()
    return [*found, Piece("text", text[at:], text[at:])] if at < len(text) else found


def answered(group: Group, work: Work) -> Iterator[tuple[Cue, str]]:
    """Each cue with its new text."""
    if group.number >= 0:
        said = work.said[group.number]
        if not said.text.strip():
            work.refuse(group.number, "the translation is empty")
        new = said.text.strip() and said.text != work.asked[group.number].text
        texts = cut(said, [cue.text for cue in group.cues]) if new else []
        for place, cue in enumerate(group.cues):
            yield cue, wrapped(texts[place], cue) if new else cue.raw
        return
    (cue,) = group.cues
    results = [written(parts, work, PLAIN) for parts in group.parts]
    if not any(changed for _, changed in results):
        yield cue, cue.raw
    elif is_dialogue(cue):
        yield cue, cue.ended([text for text, _ in results])
    else:
        yield cue, wrapped(results[0][0], cue)


def wrapped(text: str, cue: Cue) -> str:
    """On one line if it fits into the longest that was there, else on as many as there were, of like length."""
    words = TAGGED.findall(text)
    shown = [len(TAG.sub("", word)) + 1 for word in words]
    longest = max((len(TAG.sub("", line)) for line in cue.lines), default=0)
    count = 1 if sum(shown) - 1 <= longest else len(cue.lines)
    lines: list[list[str]] = [[] for _ in range(count)]
    done = 0
    for word, size in zip(words, shown):
        lines[min((2 * done + size) * count // (2 * max(sum(shown), 1)), count - 1)].append(word)
        done += size
    return cue.ended([" ".join(line) for line in lines if line])


def cut(said: Said, sources: Sequence[str]) -> list[str]:
    """A translation in as many parts as its source had, in order. A part that nothing is left for is "…"."""
    words = WORD.findall(said.text)
    if len(words) < len(sources):
        letters = said.text.strip(SPACE)
        if len(letters) < len(sources) or not without_spaces(letters):
            return [letters, *[MORE] * (len(sources) - 1)]
        ends = shares([len(source) for source in sources], len(letters))
        return [letters[start:end] or MORE for start, end in zip([0, *ends], ends)]
    sizes = [len(WORD.findall(source)) for source in sources]
    links = said.links or diagonal(sum(sizes), len(words))
    ends = []
    last, behind = 0, 0
    for place, size in enumerate(sizes[:-1]):
        behind += size
        aim = behind / sum(sizes) * len(words)
        most = len(words) - (len(sizes) - 1 - place)  # so that every later one gets a word
        last = min(range(last + 1, most + 1), key=lambda end: crossing(links, behind, end) + 0.3 * abs(end - aim))
        ends.append(last)
    ends.append(len(words))
    return [" ".join(words[start:end]) for start, end in zip([0, *ends], ends)]


def without_spaces(text: str) -> bool:
    """Whether most letters are of a script that has none between words, and can be cut between any two of them."""
    counts = count_scripts(text)
    return 2 * sum(counts.get(script, 0) for script in UNSPACED) > sum(counts.values())


def crossing(links: Sequence[Sequence[int]], source: int, target: int) -> int:
    """How many links go from one side of a cut to the other."""
    return sum((i < source) != (j < target) for i, j in links)


def shares(sizes: Sequence[int], total: int) -> list[int]:
    """Where parts end that divide a total as the sizes do."""
    done, ends = 0, []
    for size in sizes:
        done += size
        ends.append(round(done * total / max(sum(sizes), 1)))
    return ends
