"""The head of a model card, written and read."""

from pathlib import Path

import pytest

from headway.storage.card import ModelCard, format_front_matter, parse_front_matter, read_card


def test_written_and_read_again(tmp_path: Path) -> None:
    head = format_front_matter(["en", "de"], {"validation": "31.20 BLEU, 55.10 chrF (greedy)"})
    assert parse_front_matter(head + "# A translator\n\nkey: not in the head\n") == {
        "language": ["en", "de"],
        "scores": {"validation": "31.20 BLEU, 55.10 chrF (greedy)"},
    }
    (tmp_path / "README.md").write_text(head)
    assert read_card(tmp_path) == ModelCard("", {"validation": "31.20 BLEU, 55.10 chrF (greedy)"})
    assert format_front_matter([], {}) == ""
    written = format_front_matter([], {}, "apache-2.0", "en-de")
    assert parse_front_matter(written) == {"license": "apache-2.0", "base_model": "en-de"}


def test_what_people_write(tmp_path: Path) -> None:
    text = """---
# a remark
language: [en, "de"]
license: 'apache-2.0'
datasets:
- europarl
- tatoeba
scores:
  newstest2015 en-de: 24.1 BLEU
  "tatoeba": 47
model-index:
- name: something
  results:
  - task: translation
---
# A card
"""
    head = parse_front_matter(text)
    assert head["language"] == ["en", "de"]
    assert head["datasets"] == ["europarl", "tatoeba"]
    (tmp_path / "README.md").write_text(text)
    card = read_card(tmp_path)
    assert card.licence == "apache-2.0"
    assert card.scores["newstest2015 en-de"] == "24.1 BLEU"


@pytest.mark.parametrize(
    "text", ["", "# A card\n", "---\nlicense: mit\n", "---\n- a\n  b\n:\n---\n", "text\n---\na: b\n---"]
)
def test_no_head(text: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(text)
    assert read_card(tmp_path) == ModelCard()


def test_no_card(tmp_path: Path) -> None:
    assert read_card(tmp_path) == ModelCard()
    (tmp_path / "README.md").write_bytes(b"\xff\xfe")
    assert read_card(tmp_path) == ModelCard()
    (tmp_path / "README.md").write_text("---\nlicence: [mit, cc0-1.0]\nscores: good\n---\n")
    assert read_card(tmp_path) == ModelCard("mit, cc0-1.0")
