"""Made-up documents and translators: whatever they are, nothing but text changes, and nothing breaks."""

import random
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.parsers import expat

from hypothesis import given, settings
from hypothesis import strategies as st

from documents.office_files import docx, odt, run, unpacked
from documents.speakers import backwards, louder, same
from headway.documents import FORMAT_MODULES, SegmentRequest, SegmentResult, translate_file, translate_html
from headway.documents.docx import translate_bytes as translate_docx
from headway.documents.html import tokenize_html
from headway.documents.odt import translate_bytes as translate_odt
from headway.errors import HeadwayError
from headway.text.align.words import split_words

BY_CHANCE = True  # the errors that are met here need tests of their own

quick = settings(deadline=None, max_examples=100, derandomize=True)
spoken = st.text("ab cd .,\n&<>\u00a0é日", max_size=12)


@st.composite
def pages(draw: st.DrawFn, depth: int = 0) -> str:
    """Well-formed HTML."""
    out = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["text", "text", "pair", "block", "point", "comment", "kept", "script"]))
        if kind == "text":
            out.append(escape(draw(spoken)))
        elif kind == "pair" and depth < 4:
            name = draw(st.sampled_from(["b", "i", "a", "span", "sup"]))
            out.append(f'<{name} id="{draw(st.integers(0, 99))}">{draw(pages(depth + 1))}</{name}>')
        elif kind == "block" and depth < 4:
            name = draw(st.sampled_from(["p", "div", "td"]))
            out.append(f"<{name}>{draw(pages(depth + 1))}</{name}>")
        elif kind == "comment":
            out.append(f"<!--c{draw(st.text('ab <>', max_size=5))}.-->")
        elif kind == "kept":
            out.append(f"<code>{escape(draw(spoken))}</code>")
        elif kind == "script":
            out.append(f"<script>{draw(st.text('ab<>/', max_size=5))}</script>")
        else:
            out.append(draw(st.sampled_from(["<br>", "<img src='x'>", "<hr/>"])))
    return "".join(out)


def scrambling(seed: int) -> "object":
    """Any number of words, in any order, with links at random, or none."""

    def translate(asked: Sequence[SegmentRequest]) -> list[SegmentResult]:
        chance = random.Random(seed)
        said = []
        for one in asked:
            given = split_words(one.text)
            new = chance.choices([*given, "x", "y."], k=chance.randint(1, len(given) + 2))
            count = chance.randint(0, 2 * len(given))
            links = [(chance.randrange(len(given) + 1), chance.randrange(len(new) + 1)) for _ in range(count)]
            said.append(SegmentResult(" ".join(new).strip() or "x", chance.choice([links, None])))
        return said

    return translate


def markup(page: str) -> list[str]:
    return [token.raw for token in tokenize_html(page) if token.kind != "text"]


def is_nested(page: str) -> bool:
    stack: list[str] = []
    for token in tokenize_html(page):
        if token.kind == "start" and token.name not in ("br", "img", "hr"):
            stack.append(token.name)
        elif token.kind == "end" and (not stack or stack.pop() != token.name):
            return False
    return not stack


@quick
@given(pages(), st.integers(0, 1 << 30))
def test_tags_stay_balanced_and_whole(page: str, seed: int) -> None:
    assert is_nested(page)
    for translate in (louder, backwards, scrambling(seed)):
        new = translate_html(page, translate)  # type: ignore[arg-type]
        assert is_nested(new)
        assert Counter(markup(new)) == Counter(markup(page))
        assert [raw for raw in markup(new) if raw in BLOCK_TAGS] == [raw for raw in markup(page) if raw in BLOCK_TAGS]


BLOCK_TAGS = {"<p>", "</p>", "<div>", "</div>", "<td>", "</td>", "<br>", "<hr/>"}


@quick
@given(pages())
def test_in_order_nothing_outside_of_text_changes(page: str) -> None:
    assert translate_html(page, same) == page
    assert markup(translate_html(page, louder)) == markup(page)


@quick
@given(st.text("<>/!-ab pbi'\"=&;x1\n", max_size=60), st.integers(0, 1 << 30))
def test_any_text_is_a_page(page: str, seed: int) -> None:
    assert translate_html(page, same) == page
    assert "".join(token.raw for token in tokenize_html(page)) == page
    for translate in (louder, scrambling(seed)):
        assert Counter(markup(translate_html(page, translate))) == Counter(markup(page))  # type: ignore[arg-type]


@quick
@given(st.sampled_from(sorted(FORMAT_MODULES)), st.binary(max_size=200))
def test_random_bytes_are_translated_or_refused(ending: str, data: bytes) -> None:
    with TemporaryDirectory() as folder:
        path, out = Path(folder, f"a{ending}"), Path(folder, f"b{ending}")
        path.write_bytes(data)
        try:
            translate_file(path, out, same)
        except HeadwayError as error:
            told = str(error)
        else:
            assert ending == ".po" or out.read_bytes() == data
            return
        assert str(path) in told and not out.exists()


runs = st.lists(
    st.tuples(spoken, st.sampled_from(["", "<w:b/>", "<w:i/>", "tab", "note", "link"])), max_size=8
)  # fmt: skip


def body(parts: list[tuple[str, str]]) -> str:
    out = []
    for text, kind in parts:
        if kind == "tab":
            out.append(f"<w:r><w:tab/><w:t>{escape(text)}</w:t></w:r>")
        elif kind == "note":
            out.append('<w:r><w:footnoteReference w:id="1"/></w:r>')
        elif kind == "link":
            out.append(f"<w:hyperlink>{run(escape(text))}{run(escape(text), '<w:u/>')}</w:hyperlink>")
        else:
            out.append(run(escape(text), kind))
    return f"<w:p>{''.join(out)}</w:p>"


def seen(xml: bytes) -> Counter[str]:
    """Elements that must not get lost; text is only where text may be."""
    found: Counter[str] = Counter()
    path: list[str] = []
    parser = expat.ParserCreate()

    def start(name: str, attributes: object) -> None:
        if name == "w:t":
            assert path[-1] == "w:r" and path[-2] in ("w:p", "w:hyperlink")
        path.append(name)
        found[name] += name in ("w:tab", "w:footnoteReference", "w:hyperlink", "w:p")

    def text(data: str) -> None:
        assert not data.strip() or path[-1] == "w:t"

    parser.StartElementHandler, parser.CharacterDataHandler = start, text
    parser.EndElementHandler = lambda name: path.pop()  # type: ignore[assignment,return-value]
    parser.Parse(xml, True)
    return +found


@quick
@given(st.lists(runs, max_size=3), st.integers(0, 1 << 30))
def test_word_documents_stay_documents(paragraphs: list[list[tuple[str, str]]], seed: int) -> None:
    given = docx("".join(body(parts) for parts in paragraphs))
    main = "word/document.xml"
    assert unpacked(translate_docx(given, "a.docx", same)[0]) == unpacked(given)
    for translate in (louder, scrambling(seed)):
        new, counts = translate_docx(given, "a.docx", translate)  # type: ignore[arg-type]
        assert counts.translated == counts.segments
        assert seen(unpacked(new)[main]) == seen(unpacked(given)[main])


@quick
@given(st.sampled_from(["docx", "odt"]), st.integers(0, 1 << 30))
def test_damaged_archives_are_translated_or_refused(kind: str, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(docx(body([("a b", "")])) if kind == "docx" else odt("<text:p>a b</text:p>"))
    for _ in range(chance.randint(1, 8)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    data = data[: chance.choice([len(data), chance.randrange(len(data))])]
    try:
        (translate_docx if kind == "docx" else translate_odt)(bytes(data), "a", same)
    except HeadwayError:
        return


@quick
@given(
    st.lists(
        st.sampled_from(['msgid "a"', 'msgstr ""', '"%s b"', "", "#, fuzzy", 'msgid_plural "c"', 'msgstr[1] ""']),
        max_size=9,
    )
)
def test_catalogues_keep_all_but_what_was_empty(lines: list[str]) -> None:
    with TemporaryDirectory() as folder:
        path, out = Path(folder, "a.po"), Path(folder, "b.po")
        path.write_text("\n".join(lines))
        try:
            translate_file(path, out, louder)
        except HeadwayError:
            return
        left = iter(out.read_text().split("\n"))
        for line in lines:
            found = next(left)
            while found != line and found.startswith('"') and not line.startswith('"'):
                found = next(left)
            assert found == line or line.startswith("msgstr")


cues = st.lists(st.tuples(spoken.map(lambda text: text.replace("<", "").strip("\n")), st.booleans()), max_size=5)


@quick
@given(cues, st.integers(0, 1 << 30))
def test_subtitles_keep_numbers_and_times(given: list[tuple[str, bool]], seed: int) -> None:
    times = [f"00:00:{2 * n:02d},000 --> 00:00:{2 * n + 1:02d},900" for n in range(len(given))]
    film = "\n".join(f"{n + 1}\n{times[n]}\n{'<i>' * i}{text}{'</i>' * i}\n" for n, (text, i) in enumerate(given))
    with TemporaryDirectory() as folder:
        path, out = Path(folder, "a.srt"), Path(folder, "b.srt")
        path.write_text(film)
        for translate in (same, louder, scrambling(seed)):
            translate_file(path, out, translate)  # type: ignore[arg-type]
            new = out.read_text()
            assert [line for line in new.split("\n") if "-->" in line] == times
            assert new == film or translate is not same
