"""Languages by the names that people write over columns."""

import pytest

from headway.text.language_names import language_from_name


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("English", "en"), ("german", "de"), ("Deutsch", "de"), ("en", "en"), ("en_GB", "en"), ("EN-us", "en"),
        ("deu", "de"), ("pt-BR", "pt-br"), ("nb", "nb"), ("cmn", "zh"), ("source", ""), ("One.", ""), ("", ""),
    ],
)  # fmt: skip
def test_names_and_codes(name: str, code: str) -> None:
    assert language_from_name(name) == code
