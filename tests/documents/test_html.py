"""HTML: text changes, nothing else does, and tags find their words."""

import time
from pathlib import Path

import pytest

from documents.speakers import backwards, copying, ending, fixed, louder, same, silent, without_links
from headway.documents import SegmentRequest, SegmentResult, translate_file, translate_html
from headway.errors import HeadwayError

PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>A page &amp; more</title>
<style>p > b { color: red }</style><script>if (a<b) document.write("<p>no</p>");</script></head>
<body class='x "y"'>
  <!-- a <b>comment</b> -->
  <h1>The <em>red</em> house</h1>
  <p>One line<br>and another.   </p>
  <ul><li>first<li>second</ul>
  <pre>  keep   <b>this</b></pre>
  <p translate="no">Not <b>this</b>.</p><p class="a notranslate">Nor this.</p>
  <textarea>no words</textarea>
  <img alt="a picture" src=x.png> &copy; 2024 &mdash; 12 &lt; 13
</body>
</html>
"""


def asked_for(text: str) -> list[SegmentRequest]:
    found: list[SegmentRequest] = []

    def translate(asked: "list[SegmentRequest]") -> list[SegmentResult]:
        found.extend(asked)
        return same(asked)

    translate_html(text, translate)  # type: ignore[arg-type]
    return found


def test_blocks_are_segments() -> None:
    texts = [asked.text for asked in asked_for(PAGE)]
    assert texts == ["A page & more", "The red house", "One line", "and another.", "first", "second"]


def test_what_is_not_text_stays() -> None:
    wanted = PAGE
    for old, new in {
        "A page &amp; more": "A PAGE &amp; MORE",
        "The <em>red</em> house": "THE <em>RED</em> HOUSE",
        "One line": "ONE LINE",
        "and another.": "AND ANOTHER.",
        "first": "FIRST",
        "second": "SECOND",
    }.items():
        wanted = wanted.replace(old, new)
    assert translate_html(PAGE, louder) == wanted
    assert translate_html(PAGE, same) == PAGE
    assert translate_html(PAGE, silent) == PAGE


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("The <b>red</b> house", "HOUSE <b>RED</b> THE"),
        ("<b>The red house</b>", "<b>HOUSE RED THE</b>"),
        ("A <i>very <b>red</b></i> house", "HOUSE <i><b>RED</b> VERY</i> A"),
        ("<a href=x>One</a> <a href=y>two</a>", "<a href=y>TWO</a> <a href=x>ONE</a>"),
        ("the <b>dog</b>.", "<b>DOG</b>. THE"),  # the sign was outside
        ("the <b>dog.</b>", "<b>DOG.</b> THE"),  # and here inside
        ('he said "<b>no</b>", twice', 'TWICE "<b>NO</b>", SAID HE'),
        ("so <b>big a dog</b> is", "IS <b>DOG A BIG</b> SO"),
        ("a <b> dog </b> runs", "RUNS <b>DOG</b> A"),
        ("see <img src=a> here", "HERE <img src=a> SEE"),
        ("a note<sup>1</sup>, here", "HERE NOTE<sup>1</sup>, A"),
        # no notes: letters, a stop, a number, a link by itself
        ("the 2<sup>nd</sup> one", "ONE 2<sup>ND</sup> THE"),
        ("H<sub>2</sub>O x<sup>2</sup>y 9 m<sup>2</sup> here", "HERE M<sup>2</sup> 9 X<sup>2</sup>Y H<sub>2</sub>O"),
        ("see 1.<a href=x>2</a> here", "HERE 1.<a href=x>2</a> SEE"),
        ("see <a href=x>[2]</a> here", "HERE <a href=x>[2]</a> SEE"),
        ("an end<a href=x>.</a> Here", "HERE END<a href=x>.</a> AN"),
        ("drink H<sub>2</sub>O now", "NOW H<sub>2</sub>O DRINK"),
        ("one <!-- c -->two", "<!-- c -->TWO ONE"),
        ("one <a name=x></a>two", "<a name=x></a>TWO ONE"),
        ("AT&amp;T is&nbsp;big &lt;here&gt;", "&lt;HERE&gt; IS&nbsp;BIG AT&amp;T"),
        ("a soft&shy;ball game", "GAME SOFTBALL A"),
        ("<svg><text>no</text></svg> yes it is", "<svg><text>no</text></svg> IS IT YES"),
    ],
)  # fmt: skip
def test_tags_go_with_their_words(given: str, wanted: str) -> None:
    assert translate_html(given, backwards) == wanted
    assert translate_html(f"<p>{given}</p>\n", backwards) == f"<p>{wanted}</p>\n"


@pytest.mark.parametrize(
    ("given", "answer", "wanted"),
    [
        ("go <b>away</b> now", fixed("jetzt geh weg", (0, 1), (1, 1), (1, 2), (2, 0)), "jetzt geh <b>weg</b>"),
        ("he <b>takes part</b> now", fixed("er nimmt jetzt teil", (0, 0), (1, 1), (2, 3), (3, 2)),
         "er <b>nimmt jetzt teil</b>"),  # one word between them is taken in
        ("<b>take</b> it all away", fixed("a b take c d take", (0, 2), (0, 5), (1, 0), (2, 1), (3, 3), (3, 4)),
         "a b <b>take</b> c d take"),  # two are not
        ("<b>in</b> <i>the</i> house", fixed("im Haus", (0, 0), (1, 0), (2, 1)), "<b>im</b><i></i> Haus"),
        ("<a>in</a> <a>the</a> house", fixed("im Haus", (0, 0), (1, 0), (2, 1)), "<a>im</a><a></a> Haus"),
        ("the <b>big</b> dog", fixed("der Hund", (0, 0), (2, 1)), "der <b>Hund</b>"),  # nobody says it: the likeliest
        ("a <b>b <i>c</i> d</b>", fixed("x", (0, 0)), "<b><i>x</i></b>"),
        ("one <img> two", fixed("zwei"), "<img> zwei"),
        ("<b>one</b> two", fixed("eins zwei", (7, 0), (0, 9), (0, 0)), "<b>eins</b> zwei"),  # links to nothing
    ],
)  # fmt: skip
def test_links_that_are_not_one_to_one(given: str, answer: object, wanted: str) -> None:
    assert translate_html(given, answer) == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("a note<sup>1</sup>, here", "aen noteen<sup>1</sup>, hereen"),
        ("a note.<sup id=x><a href='#n'>[1]</a></sup> Here", "aen noteen.<sup id=x><a href='#n'>[1]</a></sup> Hereen"),
        ("a price<a href='#n'>*</a> here", "aen priceen<a href='#n'>*</a> hereen"),
        ("a <b>price</b><a><sup>1</sup></a><a><sup>,</sup></a><a><sup>2</sup></a> here",
         "aen <b>priceen</b><a><sup>1</sup></a><a><sup>,</sup></a><a><sup>2</sup></a> hereen"),
        ("a note<sup><a><span>[</span>1<span>]</span></a></sup> here",
         "aen noteen<sup><a><span>[</span>1<span>]</span></a></sup> hereen"),
    ],
)  # fmt: skip
def test_the_number_of_a_note_is_no_part_of_a_word(given: str, wanted: str) -> None:
    assert translate_html(f"<p>{given}</p>", ending) == f"<p>{wanted}</p>"


def test_without_links_tags_are_placed_by_their_share() -> None:
    assert translate_html("one <b>two</b> three", without_links) == "ONE <b>TWO</b> THREE"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("Run <code>make -j</code> now", "NOW <code>make -j</code> RUN"),
        ("Press <kbd>Ctrl</kbd>.", "<kbd>Ctrl</kbd>. PRESS"),
        ("My <span translate='no'>Blue House</span> is", "IS <span translate='no'>Blue House</span> MY"),
        ("A <b>new <code>x</code></b> is", "IS <b><code>x</code> NEW</b> A"),
        ("A <span class=notranslate><span>x</span> y</span> z", "Z <span class=notranslate><span>x</span> y</span> A"),
    ],
)
def test_what_must_stay_stays_in_its_place(given: str, wanted: str) -> None:
    """Whether it was copied, or translated in spite of all."""
    assert translate_html(given, copying("make", "-j", "Ctrl", "Blue", "House", "x", "y")) == wanted
    assert translate_html(given, backwards) == wanted


def test_what_must_stay_is_a_placeholder_to_whoever_translates() -> None:
    """So nobody takes it for words, and says it twice."""
    texts = {
        "Press <kbd>Enter</kbd> to continue.": "Press ⟦0⟧ to continue.",
        "<code>print</code> function": "⟦0⟧ function",
        "the <a href=x><code>a b</code> list</a>, <var>n</var>": "the ⟦0⟧ list, ⟦1⟧",
        "Press <kbd>Ctrl</kbd> + <kbd>C</kbd>/<kbd>X</kbd>.": "Press ⟦0⟧.",
        "Use <code>a</code>, <code>b</code> or <code>c</code>.": "Use ⟦0⟧ or ⟦1⟧.",
        "a <tt>b</tt> c <img src=x> d <math><mi>x</mi></math> e <input>.": "a ⟦0⟧ c ⟦1⟧ d ⟦2⟧ e ⟦3⟧.",
        "The ⟦0⟧ of <code>x</code> and ⟦7⟧": "The ⟦0⟧ of ⟦8⟧ and ⟦7⟧",
        "<img> at <b>the</b> edge <img>": "at the edge",
        "a <code> </code> b": "a b",
    }
    for given, text in texts.items():
        assert [asked.text for asked in asked_for(given)] == [text]
        assert translate_html(given, same) == given
    assert [asked.align for asked in asked_for("a <code>x</code> b")] == [False]  # it says itself where it belongs


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("现在运行⟦0⟧吧", "现在运行<code>make</code>吧"),
        ("it ⟦0⟧ runs ⟦0⟧!", "it <code>make</code> runs!"),  # once
        ("it makes it", "it <code>make</code> makes it"),  # and always
        ("make ⟦1⟧ ⟦0⟧", "make ⟦1⟧ <code>make</code>"),
    ],
)
def test_a_placeholder_is_replaced_once(answer: str, wanted: str) -> None:
    assert translate_html("run <code>make</code> now", fixed(answer)) == wanted


@pytest.mark.parametrize(
    ("given", "forwards", "reversed_"),
    [
        ("a <del>red</del> <ins>blue</ins> car", "A <del>RED</del> <ins>BLUE</ins> CAR",
         "CAR <del>RED</del> <ins>BLUE</ins> A"),
        ("a <ins>blue</ins> <del>red</del> car", "A <ins>BLUE</ins> <del>RED</del> CAR",
         "CAR <ins>BLUE</ins> <del>RED</del> A"),
        ("a <ins>blue</ins><s>red</s> car", "A <ins>BLUE</ins><s>RED</s> CAR", "CAR <ins>BLUE</ins><s>RED</s> A"),
        ("<p><del>The old.</del> <ins>The new.</ins></p>", "<p><del>THE OLD.</del> <ins>THE NEW.</ins></p>",
         "<p><del>OLD. THE</del> <ins>NEW. THE</ins></p>"),
        ("it is <del>a <b>x</b> <code>y</code></del> z", "IT IS <del>A <b>X</b> <code>y</code></del> Z",
         "<del><code>y</code> <b>X</b> A</del> Z IS IT"),
        ("I <del>do not</del> <ins>really</ins> like the <s>old</s> house",
         "I <del>DO NOT</del> <ins>REALLY</ins> LIKE THE <s>OLD</s> HOUSE",
         "<s>OLD</s> HOUSE THE LIKE <del>NOT DO</del> <ins>REALLY</ins> I"),
        ("<del>all gone</del>", "<del>ALL GONE</del>", "<del>GONE ALL</del>"),
        ("x <del>a<p>b</del> y", "X <del>A<p>B</del> Y", "X <del>A<p>B</del> Y"),
        ("<del>a <del>b</del> c</del> d", "<del>A <del>B</del> C</del> D", "D <del><del>B</del> C A</del>"),
    ],
)  # fmt: skip
def test_what_is_struck_out_stays_beside_what_replaces_it(given: str, forwards: str, reversed_: str) -> None:
    """And is no part of the sentence: "a red blue car" says neither."""
    assert translate_html(given, louder) == forwards
    assert translate_html(given, backwards) == reversed_
    assert translate_html(given, same) == given
    assert [asked.text for asked in asked_for("a <del>red</del> <ins>blue</ins> car")] == ["red", "a blue car"]


def test_a_kept_piece_that_nobody_says_stands_by_itself() -> None:
    assert translate_html("a <code>x</code> b", fixed("c", (0, 0), (2, 0))) == "c <code>x</code>"
    assert translate_html("a <code>x</code> b", fixed("c d", (0, 0), (1, 0), (2, 1))) == "<code>x</code> c d"


def test_links_are_asked_for_where_there_are_tags() -> None:
    given = asked_for("<p>plain</p><p><b>whole</b></p><p>a <b>part</b></p><p><img> edge</p>")
    assert [asked.align for asked in given] == [False, False, True, False]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("<p>one <b>two<p>three</b> four", "<p>ONE <b>TWO<p>THREE</b> FOUR"),
        ("<b>one <i>two</b> three</i>", "<b>ONE <i>TWO</b> THREE</i>"),
        ("one</b> two", "ONE</b> TWO"),
        ("a < b and c > d", "A &lt; B AND C &gt; D"),
        ("one <b title='x>y'>two</b>", "ONE <b title='x>y'>TWO</b>"),
        ("one <b title=it's>two</b>", "ONE <b title=it's>TWO</b>"),
        ("one <b unfinished", "ONE <b unfinished"),
        ("one <!-- unfinished", "ONE <!-- unfinished"),
        ("one <script> unfinished", "ONE <script> unfinished"),
        ("<p translate=no>one<p>two", "<p translate=no>one<p>TWO"),
        ("one </> two <?x y?> three <!z> four", "ONE </> TWO <?x y?> THREE <!z> FOUR"),
        ("<code>never closed <b>x</b>", "<code>never closed <b>x</b>"),
        ("one &unknown; &#99; two", "ONE &amp;UNKNOWN; C TWO"),
        ("&#" + "9" * 5000 + "; x", "&amp;#" + "9" * 5000 + "; X"),
    ],
)
def test_broken_pages_come_back(given: str, wanted: str) -> None:
    assert translate_html(given, louder) == wanted
    assert translate_html(given, same) == given


def test_deep_and_long_pages_take_no_longer_than_they_are() -> None:
    start = time.monotonic()
    deep = "<b>" * 3000 + "x" + "</b>" * 3000
    assert translate_html(deep, louder) == deep.replace("x", "X")
    wide = "one <i>two</i> " * 3000
    assert translate_html(wide, same) == wide
    assert translate_html(wide, backwards).count("<i>") == 3000
    for hostile in ("<a '" * 20_000, "<!--" * 20_000, '<a b="' * 20_000, "</" * 20_000, "<script>" * 5000):
        assert translate_html(hostile, same) == hostile
    assert time.monotonic() - start < 60  # it is a second or two, unless something is quadratic


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ("<p>ü</p>".encode(), "<p>Ü</p>".encode()),
        (b"\xef\xbb\xbf" + "<p>ü</p>".encode(), b"\xef\xbb\xbf" + "<p>Ü</p>".encode()),
        ("\ufeff<p>ü</p>".encode("utf-16-le"), "\ufeff<p>Ü</p>".encode("utf-16-le")),
        (b"<meta charset='iso-8859-1'><p>\xfc \x93x\x94</p>", b"<meta charset='iso-8859-1'><p>\xdc \x93X\x94</p>"),
        (b'<?xml version="1.0" encoding="koi8-r"?><p>\xc1</p>', b'<?xml version="1.0" encoding="koi8-r"?><p>\xe1</p>'),
        (b"<meta charset=utf-16><p>x</p>", b"<meta charset=utf-16><p>X</p>"),
    ],
)  # fmt: skip
def test_encodings_are_kept(data: bytes, wanted: bytes, tmp_path: Path) -> None:
    (tmp_path / "in.html").write_bytes(data)
    counts = translate_file(tmp_path / "in.html", tmp_path / "out.html", louder)
    assert (tmp_path / "out.html").read_bytes() == wanted
    assert (counts.segments, counts.translated, counts.warnings) == (1, 1, [])


def test_letters_that_an_encoding_lacks_are_written_as_numbers(tmp_path: Path) -> None:
    (tmp_path / "in.html").write_bytes(b"<meta charset=latin1><p>x</p>")
    translate_file(tmp_path / "in.html", tmp_path / "out.html", fixed("Ł"))
    assert (tmp_path / "out.html").read_bytes() == b"<meta charset=latin1><p>&#321;</p>"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"<p>\xff</p>", "byte 0xff at offset 3 is not UTF-8"),
        (b"<meta charset=rot13><p>x</p>", '"rot13", which is not supported'),
        (b"<meta charset=big5><p>\xa1\xfe</p>", "its big5 bytes cannot be reproduced exactly"),
        (b"<meta charset=iso-8859-99><p>x</p>", '"iso-8859-99", which is not supported'),
    ],
)
def test_encodings_that_cannot_be_read(data: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "in.html").write_bytes(data)
    with pytest.raises(HeadwayError, match=told):
        translate_file(tmp_path / "in.html", tmp_path / "out.html", same)
    assert not (tmp_path / "out.html").exists()


def test_equal_pieces_are_placed_in_no_time() -> None:
    given = "<code>w</code> other " * 600
    began = time.perf_counter()
    assert translate_html(given, copying("w")).count("<code>w</code>") == 600
    assert time.perf_counter() - began < 5
