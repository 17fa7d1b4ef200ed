"""XLIFF and TMX: targets are added where there are none."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from documents.speakers import backwards, louder, same
from headway.documents import DocumentCounts, TranslateSegments, translate_file
from headway.errors import HeadwayError

XLIFF_1 = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file original="a" source-language="en" datatype="plaintext">
<body>
 <trans-unit id="1">
   <source>The <g id="1">red</g> dog &amp; cat.</source>
 </trans-unit>
 <trans-unit id="2"><source>Old text</source><target>Alter Text</target></trans-unit>
 <group translate="no"><trans-unit id="3"><source>Kept</source></trans-unit></group>
 <trans-unit id="4"><source>Press <x id="1"/> now.</source><target state="new">Press</target></trans-unit>
 <trans-unit id="5"><source>One. Two.</source>
 <seg-source><mrk mtype="seg" mid="1">One.</mrk> <mrk mtype="seg" mid="2">Two.</mrk></seg-source></trans-unit>
 <trans-unit id="6">
 <source>A <bpt id="7">&lt;b&gt;</bpt>big<ept id="7">&lt;/b&gt;</ept> dog.<x id="8" ctype="lb"/>Next line.</source>
 </trans-unit>
 <trans-unit id="7"><note>empty</note></trans-unit>
</body></file></xliff>
"""

XLIFF_2 = """<xliff version="2.0" srcLang="en" trgLang="de" xmlns="urn:oasis:names:tc:xliff:document:2.0">
 <file id="f"><unit id="1"><segment state="initial"><source>A <pc id="1">red</pc> dog.</source></segment>
 <segment><source>See <mrk id="2" translate="no">Acme Co</mrk> here.</source></segment>
 <segment state="final"><source>Done</source></segment></unit></file>
</xliff>"""

TMX = """<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en-US"/><body>
<tu><tuv xml:lang="en"><seg>Done.</seg></tuv><tuv xml:lang="de-DE"><seg>Fertig.</seg></tuv></tu>
<tu>
  <tuv xml:lang="en-US"><seg>A <bpt i="1">&lt;b&gt;</bpt>red<ept i="1">&lt;/b&gt;</ept> <hi>dog</hi>.</seg></tuv>
  <tuv xml:lang="fr"><seg>Un chien.</seg></tuv>
</tu>
<tu srclang="fr"><tuv xml:lang="fr"><seg>Un chat.</seg></tuv></tu><tu><note>x</note></tu>
</body></tmx>"""


def translated(
    text: str, ending: str, translate: TranslateSegments, folder: Path, language: str = "de"
) -> tuple[str, DocumentCounts]:
    path, out = folder / f"in.{ending}", folder / f"out.{ending}"
    path.write_text(text, encoding="utf-8")
    counts = translate_file(path, out, translate, language=language)
    return out.read_text(encoding="utf-8"), counts


def test_xliff_1(tmp_path: Path) -> None:
    new, counts = translated(XLIFF_1, "xlf", backwards, tmp_path)
    assert counts == DocumentCounts(6, 6, [])
    state = '<target state="needs-review-translation">'
    wanted = XLIFF_1.replace('datatype="plaintext">', 'datatype="plaintext" target-language="de">')
    segments = '<mrk mtype="seg" mid="1">ONE.</mrk> <mrk mtype="seg" mid="2">TWO.</mrk>'
    bold = '<bpt id="7">&lt;b&gt;</bpt>BIG<ept id="7">&lt;/b&gt;</ept>'
    for source, target in {
        "dog &amp; cat.</source>": f'\n   {state}CAT. &amp; DOG <g id="1">RED</g> THE</target>',
        "Two.</mrk></seg-source>": f"\n {state}{segments}</target>",
        "Next line.</source>": f'\n {state}DOG. {bold} A<x id="8" ctype="lb"/>LINE. NEXT</target>',
    }.items():
        wanted = wanted.replace(source, source + target)
    assert new == wanted.replace('<target state="new">Press</target>', f'{state}NOW. <x id="1"/> PRESS</target>')
    ElementTree.fromstring(new.encode())
    assert translated(new, "xlf", louder, tmp_path)[0] == new


def test_xliff_2_and_a_file_in_another_language(tmp_path: Path) -> None:
    new, counts = translated(XLIFF_2, "xliff", backwards, tmp_path, "fr")
    assert counts.warnings == ['the file says that its targets are in "de", and they are in "fr" now']
    assert '<source>A <pc id="1">red</pc> dog.</source><target>DOG. <pc id="1">RED</pc> A</target>' in new
    assert '<target>HERE. <mrk id="2" translate="no">Acme Co</mrk> SEE</target>' in new
    assert "Done</source></segment>" in new
    assert translated(XLIFF_2, "xliff", same, tmp_path)[0] == XLIFF_2


def test_tmx(tmp_path: Path) -> None:
    new, counts = translated(TMX, "tmx", backwards, tmp_path)
    assert counts == DocumentCounts(2, 2, [])
    added = (
        '<tuv xml:lang="de"><seg><hi>DOG</hi>. <bpt i="1">&lt;b&gt;</bpt>RED<ept i="1">&lt;/b&gt;</ept> A</seg></tuv>'
    )
    wanted = TMX.replace("<hi>dog</hi>.</seg></tuv>", f"<hi>dog</hi>.</seg></tuv>\n  {added}")
    added = '<tuv xml:lang="de"><seg>CHAT. UN</seg></tuv>'
    wanted = wanted.replace("Un chat.</seg></tuv>", f"Un chat.</seg></tuv>{added}")
    assert new == wanted
    with pytest.raises(HeadwayError, match="the target language is not known: give --to"):
        translated(TMX, "tmx", louder, tmp_path, "")


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="is not an XLIFF file: it has no <xliff>"):
        translated("<a/>", "xliff", louder, tmp_path)
    with pytest.raises(HeadwayError, match="is not a TMX file: it has no <tmx> with a <body>"):
        translated("<tmx/>", "tmx", louder, tmp_path)
    bomb = '<!DOCTYPE tmx [<!ENTITY a "b">]><tmx><body/></tmx>'
    with pytest.raises(HeadwayError, match="declares a document type or entities"):
        translated(bomb, "tmx", louder, tmp_path)
