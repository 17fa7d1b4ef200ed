"""Plain text, subtitles and catalogues."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from documents.speakers import backwards, copying, fixed, louder, same, silent
from headway.documents import DocumentCounts, SegmentRequest, SegmentResult, TranslateSegments, translate_file
from headway.errors import HeadwayError


def translated(
    given: str | bytes, ending: str, translate: TranslateSegments, folder: Path
) -> tuple[str, DocumentCounts]:
    path, out = folder / f"in.{ending}", folder / f"out.{ending}"
    path.write_bytes(given.encode() if isinstance(given, str) else given)
    counts = translate_file(path, out, translate)
    return out.read_bytes().decode(), counts


# ---- .txt


def test_lines_keep_their_ends(tmp_path: Path) -> None:
    given = "\ufeffOne dog.\r\n\r\n  two  \n12\n\x0cthree"
    wanted = "\ufeffONE DOG.\r\n\r\n  TWO  \n12\n\x0cTHREE"
    assert translated(given, "txt", louder, tmp_path) == (wanted, DocumentCounts(3, 3, []))
    assert translated(given, "txt", same, tmp_path)[0] == given
    assert translated("", "txt", louder, tmp_path) == ("", DocumentCounts(0, 0, []))


@pytest.mark.parametrize("encoding", ["utf-16-be", "utf-16-le", "utf-32-be", "utf-32-le"])
def test_byte_order_marks_are_kept(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\n".encode(encoding))
    translate_file(path, tmp_path / "b.txt", louder)
    assert (tmp_path / "b.txt").read_bytes() == "\ufeffONE\n".encode(encoding)


def test_spaces_between_sentences_stay(tmp_path: Path) -> None:
    """As a line of standard input keeps them; soft hyphens would cut words."""
    given = "One.   Two.\t \tTh\u00adree.\n"
    assert translated(given, "txt", louder, tmp_path)[0] == "ONE.   TWO.\t \tTHREE.\n"


def test_an_empty_translation_leaves_the_text(tmp_path: Path) -> None:
    new, counts = translated("one\ntwo " + "x" * 60, "txt", silent, tmp_path)
    assert new == "one\ntwo " + "x" * 60
    assert (counts.segments, counts.translated) == (2, 0)
    assert counts.warnings[0] == '"one": the translation is empty: left untranslated'
    assert counts.warnings[1].startswith(f'"two {"x" * 35}…": ')


def test_warnings_are_passed_on_once(tmp_path: Path) -> None:
    def translate(asked: list[SegmentRequest]) -> list[SegmentResult]:
        return [SegmentResult("x", None, ["odd"]) for _ in asked]

    assert translated("one\none\n", "txt", translate, tmp_path)[1].warnings == ['"one": odd']  # type: ignore[arg-type]


def test_who_translates_must_answer_everything(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="2 segments were given, but 1 translations came back"):
        translated("one\ntwo", "txt", lambda asked: [SegmentResult("x")], tmp_path)
    assert not (tmp_path / "out.txt").exists()


# ---- .srt

FILM = """\ufeff1
00:00:01,000 --> 00:00:02,500 X1:1
The big dog that we saw
in the garden

2
00:00:02,600 --> 00:00:04,000
runs away.

3
00:00:09,000 --> 00:00:10,000
- <i>Hello</i> there.
- Bye.
4
00:00:11,000 --> 00:00:12,000
{\\an8}One <i>old</i> song

5
00:00:13,000 --> 00:00:14,000

6
00:00:15,000 --> 00:00:16,000
♪ 12 ♪
"""


def test_subtitles(tmp_path: Path) -> None:
    wanted = FILM
    for old, new in {
        "The big dog that we saw\nin the garden": "THE BIG DOG THAT WE\nSAW IN THE GARDEN",
        "runs away.": "RUNS AWAY.",
        "- <i>Hello</i> there.\n- Bye.": "- <i>HELLO</i> THERE.\n- BYE.",
        "One <i>old</i> song": "ONE <i>OLD</i> SONG",
    }.items():
        wanted = wanted.replace(old, new)
    new, counts = translated(FILM, "srt", louder, tmp_path)
    assert new == wanted
    assert (counts.segments, counts.translated) == (4, 4)
    windows = FILM.replace("\n", "\r\n")
    assert translated(windows, "srt", louder, tmp_path)[0] == wanted.replace("\n", "\r\n")


@pytest.mark.parametrize("translate", [same, silent])
@pytest.mark.parametrize("given", [FILM, FILM.replace("\n", "\r\n"), FILM.rstrip(), "", "no cues\n\nat all", "1\n2\n"])
def test_subtitles_that_do_not_change(given: str, translate: TranslateSegments, tmp_path: Path) -> None:
    assert translated(given, "srt", translate, tmp_path)[0] == given


TWO = "1\n00:00:01,000 --> 00:00:02,000\n{}\n\n2\n00:00:02,100 --> 00:00:03,000\n{}\n"


def test_a_sentence_over_two_cues_is_translated_as_one(tmp_path: Path) -> None:
    """And cut where the fewest words change sides."""
    asked: list[str] = []

    def translate(given: list[SegmentRequest]) -> list[SegmentResult]:
        asked.extend(one.text for one in given)
        return [SegmentResult("Der Hund den wir sahen läuft weg.", [(0, 0), (1, 1), (2, 3), (3, 4), (4, 5), (5, 6)])]

    new, counts = translated(TWO.format("The dog we saw", "runs away."), "srt", translate, tmp_path)  # type: ignore[arg-type]
    assert asked == ["The dog we saw runs away."]
    assert new == TWO.format("Der Hund den wir sahen", "läuft weg.")
    assert counts == DocumentCounts(1, 1, [])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The dog.", "runs away"),
        ("The dog", "Runs away"),
        ("The <i>dog</i>", "runs"),
        ("- The dog", "runs"),
        ("The dog", ""),
    ],
)
def test_sentences_that_end_with_their_cue(first: str, second: str, tmp_path: Path) -> None:
    new, _ = translated(TWO.format(first, second), "srt", louder, tmp_path)
    assert new == TWO.format(first.upper(), second.upper()).replace("I>", "i>")
    late = TWO.replace("02,100", "22,100")
    assert translated(late.format("the dog", "runs away"), "srt", backwards, tmp_path)[0] == late.format(
        "DOG THE", "AWAY RUNS"
    )


def test_without_spaces_a_sentence_is_cut_between_letters(tmp_path: Path) -> None:
    new, _ = translated(TWO.format("a dog", "runs"), "srt", fixed("那只狗跑了吗啊呀"), tmp_path)
    assert new == TWO.format("那只狗跑", "了吗啊呀")


@pytest.mark.parametrize(
    ("said", "first", "second"), [("Ja", "Ja", "…"), ("Да.", "Да.", "…"), ("12", "12", "…"), ("好", "好", "…")]
)
def test_a_word_is_not_cut(said: str, first: str, second: str, tmp_path: Path) -> None:
    new, _ = translated(TWO.format("a dog", "runs on and on"), "srt", fixed(said), tmp_path)
    assert new == TWO.format(first, second)


def test_an_empty_answer_for_two_cues(tmp_path: Path) -> None:
    given = TWO.format("a dog", "runs")
    new, counts = translated(given, "srt", silent, tmp_path)
    assert (new, counts.segments, counts.translated) == (given, 1, 0)


# ---- .po

CATALOGUE = r"""# A comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=3; plural=(n != 1);\n"

#: file.c:12
#, python-format
msgctxt "menu"
msgid "Hello %(name)s, \"you\" <b>win</b>\n"
"again\ttoday"
msgstr ""

#, fuzzy
#| msgid "older"
msgid "old"
msgstr "alt"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] "%d Dateien"
msgstr[2] ""

msgid "50% of {0} in <file> ${HOME}"
msgstr ""

msgid "%s: %s"
msgstr ""

#~ msgid "gone"
#~ msgstr ""
"""


def test_catalogues(tmp_path: Path) -> None:
    wanted = CATALOGUE
    for old, new in {
        'again\\ttoday"\nmsgstr ""\n': 'again\\ttoday"\nmsgstr ""\n'
        '"HELLO %(name)s, \\"YOU\\" <b>WIN</b>\\n"\n"AGAIN\\tTODAY"\n',
        'msgstr[0] ""': 'msgstr[0] "%d FILE"',
        'msgstr[2] ""': 'msgstr[2] "%d FILES"',
        '${HOME}"\nmsgstr ""': '${HOME}"\nmsgstr "50% OF {0} IN <file> ${HOME}"',
    }.items():
        assert old in wanted
        wanted = wanted.replace(old, new)
    assert translated(CATALOGUE, "po", louder, tmp_path) == (wanted, DocumentCounts(6, 6, []))
    windows = CATALOGUE.replace("\n", "\r\n")
    assert translated(windows, "po", louder, tmp_path)[0] == wanted.replace("\n", "\r\n")
    again, counts = translated(wanted, "po", louder, tmp_path)
    assert (again, counts) == (wanted, DocumentCounts(0, 0, []))


def test_placeholders_move_and_stay_whole(tmp_path: Path) -> None:
    new, _ = translated('msgid "open %1$s in %d windows"\nmsgstr ""\n', "po", copying("%1$s", "%d"), tmp_path)
    assert new == 'msgid "open %1$s in %d windows"\nmsgstr "WINDOWS %d IN %1$s OPEN"\n'


def test_warnings_show_what_placeholders_stand_for(tmp_path: Path) -> None:
    def doubtful(asked: Sequence[SegmentRequest]) -> list[SegmentResult]:
        return [SegmentResult(one.text.upper(), None, [f"check {one.text}"]) for one in asked]

    given = 'msgid "open %(file)s now"\nmsgstr ""\n\nmsgid "open %(link)s now"\nmsgstr ""\n'
    new, counts = translated(given, "po", doubtful, tmp_path)
    assert 'msgstr "OPEN %(file)s NOW"' in new and 'msgstr "OPEN %(link)s NOW"' in new
    assert counts.warnings == [
        '"open %(file)s now": check open %(file)s now',
        '"open %(link)s now": check open %(link)s now',
    ]


def test_what_would_break_a_program_stays_empty(tmp_path: Path) -> None:
    given = 'msgid "open %s"\nmsgstr ""\n'
    new, counts = translated(given, "po", fixed("%s %s %d"), tmp_path)
    assert new == given
    assert counts == DocumentCounts(1, 0, ['"open %s": the placeholders of its translation differ: left untranslated'])
    assert translated(given, "po", silent, tmp_path)[0] == given


@pytest.mark.parametrize(
    ("source", "stays"),
    [
        ("copy %s %d", True),
        ("copy {} {:d}", True),
        ("copy %s %s", False),
        ("copy %1$s %2$d", False),
        ("copy %(a)s %d", False),
        ("copy %% %d %NAME%", False),
    ],
)
def test_placeholders_without_names_keep_their_order(source: str, stays: bool, tmp_path: Path) -> None:
    given = f'msgid "{source}"\nmsgstr ""\n'
    new, counts = translated(given, "po", copying(*source.split()), tmp_path)
    assert (new == given) is stays
    told = f'"{source}": the placeholders of its translation are in another order: left untranslated'
    assert counts == (DocumentCounts(1, 0, [told]) if stays else DocumentCounts(1, 1, []))


def test_languages_with_one_form_get_the_plural(tmp_path: Path) -> None:
    head = 'msgid ""\nmsgstr "Plural-Forms: nplurals=1; plural=0;\\n"\n\n'
    new, _ = translated(head + 'msgid "a file"\nmsgid_plural "files"\nmsgstr[0] ""\n', "po", louder, tmp_path)
    assert new.endswith('msgstr[0] "FILES"\n')


def test_escapes_in_catalogues(tmp_path: Path) -> None:
    given = 'msgid "a\\x41 \\101 \\q \\\\ <never"\nmsgstr ""\nmsgid "b"\nmsgstr ""'
    new, _ = translated(given, "po", same, tmp_path)
    assert new == 'msgid "a\\x41 \\101 \\q \\\\ <never"\nmsgstr "aA A q \\\\ <never"\nmsgid "b"\nmsgstr "b"'


@pytest.mark.parametrize("charset", ["UTF-8", "ISO-8859-2", "Shift_JIS"])
def test_numbers_in_catalogues_are_bytes_of_the_file(charset: str, tmp_path: Path) -> None:
    letter = {"UTF-8": "ł", "ISO-8859-2": "ł", "Shift_JIS": "表"}[charset]
    octal, other = ("".join(form.format(byte) for byte in letter.encode(charset)) for form in ("\\{:03o}", "\\x{:02x}"))
    given = f'msgid ""\nmsgstr "charset={charset}\\n"\n\nmsgid "a {octal} {other} b"\nmsgstr ""\n'
    (tmp_path / "a.po").write_bytes(given.encode(charset))
    translate_file(tmp_path / "a.po", tmp_path / "b.po", same)
    assert (tmp_path / "b.po").read_bytes().decode(charset).endswith(f'msgstr "a {letter} {letter} b"\n')


def test_bytes_that_are_no_letter_are_latin(tmp_path: Path) -> None:
    new, _ = translated('msgid "caf\\351"\nmsgstr ""\n', "po", same, tmp_path)
    assert new == 'msgid "caf\\351"\nmsgstr "café"\n'


def test_what_looks_like_a_long_placeholder_is_read_at_once(tmp_path: Path) -> None:
    began = time.perf_counter()
    translated(f'msgid "a %{"0" * 50_000}"\nmsgstr ""\n', "po", same, tmp_path)
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ('msgid "one\nmsgstr ""', 'line 1 is not valid in a .po file: "msgid "one"'),
        ('"alone"', "line 1 is not valid in a .po file"),
        ('msgid "a"\nmsgstr "b"\n<html>', 'line 3 is not valid in a .po file: "<html>"'),
        (b'msgid ""\nmsgstr "charset=ISO-8859-1\\n"\n\nmsgid "x"\nmsgstr ""\n',
         'contains "Ł", which ISO-8859-1 cannot encode'),
        (b'msgid ""\nmsgstr "charset=hex\\n"\n', '"hex", which is not supported'),
        (b"\xff\xfe\x00", "is not UTF-16-LE"),
    ],
)  # fmt: skip
def test_catalogues_that_cannot_be_read(given: str | bytes, told: str, tmp_path: Path) -> None:
    with pytest.raises(HeadwayError) as error:
        translated(given, "po", fixed("Ł"), tmp_path)
    assert told in str(error.value)
    assert not (tmp_path / "out.po").exists()


def test_a_template_names_no_encoding(tmp_path: Path) -> None:
    given = 'msgid ""\nmsgstr "charset=CHARSET\\n"\n\nmsgid "x"\nmsgstr ""\n'
    assert translated(given, "po", louder, tmp_path)[0] == given[:-3] + '"X"\n'


# ---- .vtt

TALK = """WEBVTT - a talk

STYLE
::cue { color: red }

NOTE this is not text
and neither is this

intro
00:01.000 --> 00:02.500 position:10% align:start
<v Mary Ann>The big &amp; <i.loud>red</i> dog

00:00:02.600 --> 00:00:04.000
that we saw
in the garden

00:00:04.100 --> 00:00:05.000
runs <00:00:04.500>away.

00:00:06.000 --> 00:00:07.000
- One &lt;here&gt;?
- Two.
"""


def test_a_talk_keeps_times_settings_notes_and_speakers(tmp_path: Path) -> None:
    new, counts = translated(TALK, "vtt", backwards, tmp_path)
    wanted = TALK.replace("The big &amp; <i.loud>red</i> dog", "DOG <i.loud>RED</i> &amp; BIG THE")
    wanted = wanted.replace("that we saw\nin the garden", "GARDEN THE IN\nSAW WE THAT")
    wanted = wanted.replace("runs <00:00:04.500>away.", "<00:00:04.500>AWAY. RUNS")
    wanted = wanted.replace("One &lt;here&gt;?", "&lt;HERE&gt;? ONE").replace("Two.", "TWO.")
    assert (new, counts.segments, counts.warnings) == (wanted, 5, [])
    assert translated(TALK, "vtt", same, tmp_path)[0] == TALK


def test_a_sentence_over_cues_is_escaped_too(tmp_path: Path) -> None:
    given = "WEBVTT\n\n00:01.000 --> 00:02.000\nCats &amp; dogs\n\n00:02.100 --> 00:03.000\nrun away.\n"
    new, counts = translated(given, "vtt", louder, tmp_path)
    assert (new, counts.segments) == (
        given.replace("Cats &amp; dogs", "CATS &amp; DOGS").replace("run away", "RUN AWAY"),
        1,
    )


def test_a_file_that_is_not_webvtt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match=r"in\.vtt is not a \.vtt file: it does not begin with WEBVTT"):
        translated("00:01.000 --> 00:02.000\nx\n", "vtt", louder, tmp_path)
