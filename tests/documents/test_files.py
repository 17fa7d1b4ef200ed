"""A file in, a file out, and a model as the one who translates."""

import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headway
from documents.speakers import louder
from headway.documents import (
    DocumentCounts,
    SegmentRequest,
    document_type,
    files,
    segment_translator,
    segments,
    translate_file,
    translate_html,
)
from headway.documents.limits import DocumentLimits
from headway.errors import HeadwayError
from headway.translate.translator import Translator


def test_types_are_known_by_their_ending() -> None:
    assert [document_type(name) for name in ("a.TXT", "b/c.tar.docx", "ä.htm")] == [".txt", ".docx", ".htm"]
    known = (
        r"Supported: \.txt, \.html, \.htm, \.md, \.srt, \.vtt, \.po, \.json, \.xliff, \.xlf, \.tmx, \.docx, .*\.xlsx, "
    )
    with pytest.raises(HeadwayError, match=rf"a\.exe: \.exe files are not supported\. {known}"):
        document_type("a.exe")
    with pytest.raises(HeadwayError, match=rf"README: a file without a suffix is not supported\. {known}"):
        document_type("README")


def test_the_name_that_its_owner_gave_a_file_says_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "upload-17").write_text("<p>one</p>")
    assert translate_file(tmp_path / "upload-17", tmp_path / "out", louder, name="page.html") == DocumentCounts(
        1, 1, []
    )
    assert (tmp_path / "out").read_text() == "<p>ONE</p>"
    (tmp_path / "upload-17").write_bytes(b"\xff")
    with pytest.raises(HeadwayError, match="^page.html: byte 0xff"):
        translate_file(tmp_path / "upload-17", tmp_path / "out", louder, name="page.html")


def test_what_is_written_is_there_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("one")
    out = tmp_path / "b.txt"
    out.write_text("before")
    out.chmod(0o640)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(files.os, "replace", fail)
        translate_file(tmp_path / "a.txt", out, louder)
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt"]
    translate_file(tmp_path / "a.txt", out, louder)
    assert out.read_text() == "ONE"
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
    translate_file(tmp_path / "a.txt", "/dev/null", louder)


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "far").mkdir()
    for name in ("old", "new"):
        (tmp_path / f"{name}.txt").symlink_to(Path("far") / f"{name}.txt")
    (tmp_path / "far" / "old.txt").write_text("before")
    for name in ("old", "new"):
        translate_file(tmp_path / "a.txt", tmp_path / f"{name}.txt", louder)
        assert (tmp_path / f"{name}.txt").is_symlink()
        assert (tmp_path / "far" / f"{name}.txt").read_text() == "ONE"


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    with pytest.raises(HeadwayError, match="there is no file"):
        translate_file(tmp_path / "none.txt", tmp_path / "b.txt", louder)
    with pytest.raises(HeadwayError, match="b.txt cannot be written: No such file"):
        translate_file(tmp_path / "a.txt", tmp_path / "none" / "b.txt", louder)
    with pytest.raises(HeadwayError, match="a.txt is larger than 2 bytes, the limit for documents"):
        translate_file(tmp_path / "a.txt", tmp_path / "b.txt", louder, limits=DocumentLimits(file_bytes=2))


def test_documents_need_no_torch() -> None:
    modules = ", ".join({"headway.documents", *files.FORMAT_MODULES.values()})
    subprocess.run([sys.executable, "-c", f"import sys, {modules}; assert 'torch' not in sys.modules"], check=True)


# ---- with a model


@pytest.fixture(scope="module")
def translator(translator_dir: Path) -> Translator:
    loaded = headway.load(translator_dir)
    assert isinstance(loaded, Translator)
    return loaded


def test_a_model_translates_documents(translator: Translator, toy: Path) -> None:
    source, target = ((toy / f"train.{side}").read_text().splitlines()[0] for side in ("en", "qtx"))
    assert translate_html(f"<p>{source}</p>", segment_translator(translator)) == f"<p>{target}</p>"
    first, rest = source.split(" ", 1)
    new = translate_html(f"<p><b>{first}</b> {rest}</p>", segment_translator(translator))
    assert new.replace("<b>", "").replace("</b>", "") == f"<p>{target}</p>"
    assert "<b></b>" not in new


def test_links_are_read_only_where_they_are_wanted(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    said = segment_translator(translator)([SegmentRequest("A dog."), SegmentRequest("A dog.", align=True)])
    assert said[0].text == said[1].text
    assert said[0].links is None and said[1].links
    monkeypatch.setattr(segments, "can_align", lambda translator: False)
    (blind,) = segment_translator(translator)([SegmentRequest("A dog.", align=True)])
    assert blind.text == said[0].text and blind.links is None
    assert blind.warnings[-1] == segments.NO_ALIGNMENT_WARNING


def test_models_without_words_to_link(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    assert segments.can_align(translator)

    def refuse(config: Any) -> str:
        raise HeadwayError("no weights")

    monkeypatch.setattr("headway.translate.alignment.find_alignment_weights", refuse)
    assert not segments.can_align(translator)
