"""What must stay as it is: found, masked behind placeholders, missed where it is gone, and put back."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.text.spans.protect import HINT, MaskedText, default_pattern, make_protector, pair_tags, space_placeholders
from headway.text.spans.restore import remove_spans, restore_spans

SPANS = [
    "{name}", "{0}", "{0:.2f}", "{{ var }}", "${HOME}", "$(ARG1)", "$path", "%s", "%d", "%5.2f", "%1$s", "%(count)d",
    "%@", "%1", "%PRODUCTNAME", "%%", "<b>", "</b>", "<br/>", '<a href="x y">', "<!-- note -->", "&amp;", "&#39;",
    "<input disabled value='1'>", "<img src=x.png />", '<v-btn v-else @click="go(1 > 0)">', "<a\tHREF = 'x'>",
    "`ls -l *`",
    "https://example.org/a?b=1&c=(2)#d", "www.example.org/x", "mailto:me@example.org",
    "first.last+tag@mail.example.org",
    "⟦0⟧", "👍", "😀🎉", "👩‍👩‍👧", "🇩🇪", "❤️", "____", "======", "####", "*****", "~~~", "------", "\x1b[1;31m",
]  # fmt: skip


@pytest.mark.parametrize("span", SPANS)
def test_what_is_protected(span: str) -> None:
    text, spans = make_protector().mask(f"See {span}, and {span}.")
    assert (text, spans) == ("See ⟦0⟧, and ⟦1⟧.", [span, span])


@pytest.mark.parametrize(
    "text",
    [
        "A dog runs.",
        "50% of us, 5 % or 100%.",
        "It costs $5 or US$ 7.",
        "if a < b and c > d",
        "if a<b and c>d",
        "where x <y or z> 1",
        "he said: {",
        "R&D; Q&A",
        "@home",
        "Well.... Yes, a -- b *** and #1",
        "See [1] and [a] for 5 m² or 10³.",
        "Die Straße und Иванов",  # which a model of some language can say
    ],
)
def test_what_is_not(text: str) -> None:
    assert make_protector().mask(text) == (text, [])


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Berlin is large.[1] It is old.¹ Yes.", "Berlin is large.⟦0⟧ It is old.⟦1⟧ Yes."),
        ("Total ......... 12", "Total ⟦0⟧ 12"),
        ("the study[2][3] says", "the study⟦0⟧ says"),
        ("the study² and the house.”³ Yes", "the study⟦0⟧ and the house.”⟦1⟧ Yes"),
        ("Press <kbd>Enter</kbd> to go.", "Press ⟦0⟧ to go."),
        ("The <code class='x'>a <b>c</b></code> and <CODE>b</CODE>", "The ⟦0⟧ and ⟦1⟧"),
        ('A <span translate="no">Blue House</span> is <b>new</b>.', "A ⟦0⟧ is ⟦1⟧new⟦2⟧."),
        ("A <i class='a notranslate'>Blue House</i> is new.", "A ⟦0⟧ is new."),
        ('A <b title="x>y">big</b> dog', "A ⟦0⟧big⟦1⟧ dog"),
        ("An unclosed <code>print is a tag", "An unclosed ⟦0⟧print is a tag"),
        ("Press `Ctrl`+`C` or ``a `b` c``.", "Press ⟦0⟧ or ⟦1⟧."),
        ("Use **`a`**, `b`, `c` or `d`.", "Use ⟦0⟧, ⟦1⟧ or ⟦2⟧."),
        ("See [the manual](docs/a.md) and ![a dog](b.png).", "See ⟦0⟧the manual⟦1⟧ and ⟦2⟧."),
        ('See [it](a_(b).md "A title") or [this] (not that)', "See ⟦0⟧it⟦1⟧ or [this] (not that)"),
    ],
)
def test_notes_and_lines_are_protected(text: str, masked: str) -> None:
    found, spans = make_protector().mask(text)
    assert found == masked
    assert MaskedText(found, spans).original == text


def test_nothing_is_found_without_a_hint() -> None:
    assert all(HINT.search(span) and default_pattern().fullmatch(span) for span in SPANS)


@pytest.mark.parametrize(
    "part",
    [
        "%" + "0" * 8000,
        "<!--" * 8000,
        "mailto:" + "@" * 8000,
        "mailto:" * 8000,
        "<a b='" * 8000,
        "<a " + "b=c " * 8000,
        "a[1" * 8000,
        "[1]" * 8000,
        "." * 30000,
        "a¹" * 9000,
    ],
)
def test_no_line_takes_long(part: str) -> None:
    assert min(seconds_to_mask(f"{part} x") for _ in range(2)) < 1  # it was 3 seconds and more


def seconds_to_mask(line: str) -> float:
    """Of this thread: a process that runs many tests has others, and collects its garbage once in a while."""
    started = time.thread_time()
    make_protector().mask(line)
    return time.thread_time() - started


def test_patterns_of_ones_own_come_first() -> None:
    found = make_protector((r"ACME \w+", r"\d+ kg"))
    assert found.mask("ACME {x} and ACME Pro weigh 5 kg, {y}.") == (
        "ACME ⟦0⟧ and ⟦1⟧ weigh ⟦2⟧, ⟦3⟧.",
        ["{x}", "ACME Pro", "5 kg", "{y}"],
    )
    assert make_protector((r"a {x}",)).mask("a {x}") == ("⟦0⟧", ["a {x}"])  # no two overlap


def test_patterns_do_not_get_in_each_others_way() -> None:
    assert make_protector(("x-1", "(?i)acme")).mask("ACME X-1 x-1") == ("⟦0⟧ X-1 ⟦1⟧", ["ACME", "x-1"])
    assert make_protector((r"(?P<a>k)=", r"(?P<a>[pq])(?P=a)", r"(\d)\1")).mask("k= qq pq 77 78")[1] == [
        "k=",
        "qq",
        "77",
    ]
    assert make_protector(("ab", "abc", "bcde")).mask("abcde")[1] == ["abc"]


def test_patterns_that_cannot_be_used() -> None:
    with pytest.raises(HeadwayError, match=r"'\(' is not a regular expression: missing \)"):
        make_protector(("(",))
    with pytest.raises(
        HeadwayError, match=r"pattern 'x\*' matches the empty string; it must match at least one character"
    ):
        make_protector(("x*",))


def test_what_an_output_has_lost() -> None:
    found = make_protector()
    assert found.find_missing(["{a}", "%s"], "x %s {a}") == []
    assert found.find_missing(["{a}", "%s"], "x {a}") == ["%s"]
    assert found.find_missing(["{a}"], "{a} {a} {b}") == ["{a}", "{b}"]
    assert found.find_missing(["<b>", "</b>"], "</b> x <b>") == ["<b>", "</b>"]


def test_what_placeholders_have_lost() -> None:
    masked = MaskedText("⟦0⟧x⟦1⟧ ⟦2⟧", ["<b>", "</b>", "{a}"])
    assert masked.original == "<b>x</b> {a}"
    assert masked.find_missing("⟦2⟧ ⟦0⟧y⟦1⟧") == []
    assert masked.find_missing("⟦2⟧ ⟦0⟧y") == ["</b>"]
    assert masked.find_missing("⟦2⟧ ⟦0⟧y⟦1⟧ ⟦7⟧ ⟦2⟧") == ["{a}", "⟦7⟧"]
    assert masked.find_missing("⟦2⟧ ⟦1⟧y⟦0⟧") == ["<b>", "</b>"]
    assert masked.extract("⟦1⟧ ⟦2⟧") == MaskedText("⟦0⟧ ⟦1⟧", ["</b>", "{a}"])


def test_tags_touch_what_they_touched() -> None:
    masked = MaskedText("⟦0⟧x⟦1⟧ ⟦2⟧", ["<b>", "</b>", "{a}"])
    assert masked.restore("⟦2⟧ ⟦0⟧ y ⟦1⟧.") == "{a} <b>y</b>."
    assert masked.restore("a⟦2⟧b ⟦0⟧y⟦1⟧.") == "a {a} b <b>y</b>."
    assert MaskedText("pre⟦0⟧", ["{a}"]).restore("vor ⟦0⟧ ist") == "vor{a} ist"
    assert space_placeholders("(⟦0⟧ x⟦1⟧y ⟦2⟧.") == "(⟦0⟧ x ⟦1⟧ y ⟦2⟧."
    assert masked.find_missing("⟦2⟧ y ⟦0⟧ ⟦1⟧") == ["<b>", "</b>"]  # there was something between them
    assert MaskedText("⟦0⟧⟦1⟧ a", ["<b>", "</b>"]).find_missing("b ⟦0⟧⟦1⟧") == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("<p>A dog.</p>", ("⟦0⟧", "A dog.", "⟦1⟧")),
        ("<p> <b>A dog.</b> </p>", ("⟦0⟧ ⟦1⟧", "A dog.", "⟦2⟧ ⟦3⟧")),
        ("<b>A</b> dog. {x}", ("", "⟦0⟧A⟦1⟧ dog.", " ⟦2⟧")),
        ("<b>A</b> dog <b>x</b>", ("", "⟦0⟧A⟦1⟧ dog ⟦2⟧x⟦3⟧", "")),
        ("{a} is {b}", ("", "⟦0⟧ is ⟦1⟧", "")),
        ("A <b>dog.</b>", ("", "A ⟦0⟧dog.⟦1⟧", "")),
    ],
)
def test_what_stands_at_the_ends(text: str, parts: tuple[str, str, str]) -> None:
    assert masked(text).split_outer() == parts


def test_pairs_of_tags() -> None:
    assert pair_tags(["<a x=1>", "<b>", "</b>", "{x}", "</a>"]) == [(1, 2), (0, 4)]
    assert pair_tags(["<br>", "<b>", "</b>"]) == [(1, 2)]
    assert pair_tags(["</b>", "<b>"]) == []
    assert pair_tags(["<a>", "<b>", "</a>", "</b>"]) == [(0, 2)]


# ---- without placeholders in the model: translated without the spans, which are put back


def masked(text: str) -> MaskedText:
    return MaskedText(*make_protector().mask(text))


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("The file %s is gone.", "The file is gone."),
        ("The file is %s.", "The file is."),
        ("<b>A dog</b> runs.", "A dog runs."),
        ("{x} A dog", "A dog"),
        ("A dog ({x}) runs.", "A dog runs."),
        ('A dog "{x}".', "A dog."),
        ("A dog {x}", "A dog"),
    ],
)
def test_a_sentence_without_its_spans(text: str, without: str) -> None:
    assert remove_spans(masked(text))[0] == without


WORD_BY_WORD = [(n, n) for n in range(9)]


@pytest.mark.parametrize(
    ("text", "output", "links", "wanted"),
    [
        ("The file %s is gone.", "Die Datei ist weg.", WORD_BY_WORD, "Die Datei %s ist weg."),
        ("<b>A dog</b> runs.", "Ein Hund rennt.", WORD_BY_WORD, "<b>Ein Hund</b> rennt."),
        ("<p>A <b>dog</b> runs.</p>", "Ein Hund rennt.", WORD_BY_WORD, "<p>Ein <b>Hund</b> rennt.</p>"),
        (
            "I have <b>seen</b> him.", "Ich habe ihn gesehen.", [(0, 0), (1, 1), (2, 3), (3, 2)],
            "Ich habe ihn <b>gesehen</b>.",
        ),
        ("He <b>sees</b>, {x}, it.", "Er sieht, es.", WORD_BY_WORD[:2], "Er <b>sieht</b> {x}, es."),
        ("A dog ({x}) runs.", "Ein Hund rennt.", WORD_BY_WORD, "Ein Hund ({x}) rennt."),
        ("Open {x}.", "Öffnen.", [], "Öffnen {x}."),
        ("{x}: it is gone", "es ist weg", [], "{x}: es ist weg"),
        ("a b {x} c d", "q r s t", [], "q r {x} s t"),
        ("a b {x} c d", "q r s t", [(2, 1)], "q {x} r s t"),
        ("The dog:me@a.de runs.", "Der Hund rennt.", WORD_BY_WORD, "Der Hund me@a.de rennt."),
        ("The dog:me@a.de runs.", "Der Hund: rennt.", WORD_BY_WORD, "Der Hund:me@a.de rennt."),
        ("Ice, snow/https://x.org/a", "Eis, Schnee", WORD_BY_WORD, "Eis, Schnee https://x.org/a"),
        ("Ice, snow/https://x.org/a", "Eis, Schnee/", WORD_BY_WORD, "Eis, Schnee/https://x.org/a"),
        ("The {x}-dog runs.", "Der Hund rennt.", WORD_BY_WORD, "Der {x} Hund rennt."),
        ("The {x}-dog runs.", "Der -Hund rennt.", WORD_BY_WORD, "Der {x}-Hund rennt."),
        ("The dog{x} runs.", "Der Hund rennt.", WORD_BY_WORD, "Der Hund{x} rennt."),
        ("The dog {x}{y} runs.", "Der Hund rennt.", WORD_BY_WORD, "Der Hund {x}{y} rennt."),
        ('The <b>"dog"</b> runs.', "Der „Hund“ rennt.", WORD_BY_WORD, "Der „<b>Hund</b>“ rennt."),
        ("The <b><i>dog</i></b> runs.", "Der Hund rennt.", WORD_BY_WORD, "Der <b><i>Hund</i></b> rennt."),
    ],
)  # fmt: skip
def test_spans_go_where_their_neighbours_have_gone(
    text: str, output: str, links: list[tuple[int, int]], wanted: str
) -> None:
    assert restore_spans(masked(text), output, links)[0] == wanted


def test_only_what_an_alignment_decided_is_doubted() -> None:
    assert restore_spans(masked("<p>A <b>dog</b> runs.</p>"), "Ein Hund rennt.", WORD_BY_WORD)[1] == ["<b>", "</b>"]
    assert restore_spans(masked("{x} A dog %s."), "Ein Hund.", WORD_BY_WORD)[1] == []
    assert restore_spans(masked("A dog %s."), "Ein ⟦4⟧ Hund ⟦.", WORD_BY_WORD)[0] == "Ein  Hund %s."


@given(
    st.lists(st.sampled_from(["b", "i", "u", ""]), min_size=6, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12),
)
def test_tags_that_are_put_back_are_closed_in_turn(tags: list[str], links: list[tuple[int, int]]) -> None:
    """Wherever the words have gone."""
    words = [f"<{tag}>w{n}</{tag}>" if tag else f"w{n}" for n, tag in enumerate(tags)]
    for line in (" ".join(words), f"<a>{words[0]} {words[1]}</a> {' '.join(words[2:])}"):
        text, spans = make_protector().mask(line)
        if not spans:
            continue
        placed, _ = restore_spans(MaskedText(text, spans), "v0 v1 v2 v3 v4 v5", links)
        open_ones: list[str] = []
        for closes, name in re.findall(r"<(/?)(\w)>", placed):
            if not closes:
                open_ones.append(name)
            else:
                assert open_ones.pop() == name, placed
        assert re.sub(r"</?\w>", "", placed).split() == ["v0", "v1", "v2", "v3", "v4", "v5"]
        assert sorted(re.findall(r"</?\w>", placed)) == sorted(re.findall(r"</?\w>", line))


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("请访问https://example.com/a，然后点击“确定”。", ["https://example.com/a"]),
        ("见（https://zh.wikipedia.org/wiki/中国）。", ["https://zh.wikipedia.org/wiki/中国"]),
        ("发邮件到foo@bar.com。", ["foo@bar.com"]),
        ("变量$HOME在此", ["$HOME"]),
        ("运行`pip install`后重启", ["`pip install`"]),
        ("占位符%s和{name}在这里", ["%s", "{name}"]),
        ("Schreib an jörg.müller@straße.de!", ["jörg.müller@straße.de"]),
    ],
)
def test_spans_that_touch_chinese(text: str, spans: list[str]) -> None:
    """No space is put around them there."""
    assert make_protector().mask(text)[1] == spans
