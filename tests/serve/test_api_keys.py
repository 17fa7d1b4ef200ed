"""The file of API keys: names, limits, hashes; and what is wrong with a line, without quoting the key."""

import hashlib
from pathlib import Path

import pytest

from headway.errors import HeadwayError
from headway.serve.api_keys import ApiKeys
from headway.serve.errors import ApiKeyError
from headway.serve.settings import ClientLimits

HASH = hashlib.sha256(b"third").hexdigest()


def test_names_and_limits(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# ours\n\nplain\nanna second requests=5 quota=1000\nben sha256:{HASH}\n anna\tnext\n")
    keys = ApiKeys(str(file), ClientLimits(requests=60, concurrent=2))
    assert keys.identify("plain").name == "key-1"
    assert keys.identify("plain").limits == ClientLimits(requests=60, concurrent=2)
    assert keys.identify("second").name == keys.identify("next").name == "anna"  # an old key and a new one
    assert keys.identify("second").limits == ClientLimits(requests=5, quota=1000, concurrent=2)
    assert keys.identify("third").name == "ben"
    for wrong in ("anna", HASH, f"sha256:{HASH}", f"ben sha256:{HASH}", "# ours", "anna second requests=5 quota=1000"):
        with pytest.raises(ApiKeyError, match="Invalid API key"):
            keys.identify(wrong)


@pytest.mark.parametrize("key", ["open sesame", "a b c", "p/ss word", "with  two", "a=b", "ключ 1"])
def test_a_key_may_have_spaces(tmp_path: Path, key: str) -> None:
    file = tmp_path / "keys"
    file.write_text(f"one\n {key} \n")
    keys = ApiKeys(str(file))
    assert keys.identify(key).limits == ClientLimits()
    assert keys.identify("one").name == "key-1"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("anna secret request=5", "after the name and the key only requests=NUMBER, characters=NUMBER, quota=NUMBER"),
        ("anna secret requests=no", "are allowed"),
        ("anna secret requests=0", "are allowed"),
        ("anna secret requests=" + "9" * 5000, "are allowed"),
        ("secret\nsecret", "line 3: this key is there already"),
        ("anna sha256:12secret", "after sha256: there must be 64 hexadecimal digits"),
        ("anna secret\nben secret", "line 3: this key is there already"),
    ],
)
def test_a_wrong_line(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# ours\n{line}\n")
    with pytest.raises(HeadwayError, match=why) as error:
        ApiKeys(str(file))
    assert "secret" not in str(error.value).replace(str(file), "")
    assert "keys, line " in str(error.value)


def test_a_file_that_is_spoilt_later_leaves_the_keys(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("one\n")
    keys = ApiKeys(str(file))
    file.write_text("anna two request=5\n")
    assert keys.identify("one").name == "key-1"
    with pytest.raises(HeadwayError, match="line 1"):
        keys.read_again()
    file.write_text("two\n")
    keys.read_again()
    with pytest.raises(ApiKeyError):
        keys.identify("one")
    assert keys.identify("two")


def test_without_a_file_no_key_is_needed() -> None:
    keys = ApiKeys(None)
    assert not keys.required
    keys.read_again()
    with pytest.raises(ApiKeyError):
        keys.identify("any")


def test_a_file_that_becomes_unreadable_is_told_of_once(tmp_path: Path) -> None:
    """Whoever has revoked a key must learn that it is still valid."""
    file = tmp_path / "keys"
    file.write_text("one\ntwo\n")
    warnings: list[str] = []
    keys = ApiKeys(str(file), warn=warnings.append)
    file.write_text("one\nanna sha256:12\n")
    for _ in range(3):
        assert keys.identify("two").name == "key-2"
    assert len(warnings) == 1
    assert "line 2: after sha256: there must be 64 hexadecimal digits. The keys that were read before" in warnings[0]
    file.write_text("one\n")
    with pytest.raises(ApiKeyError):
        keys.identify("two")
    file.write_text("anna sha256:12\n\n")
    keys.identify("one")
    assert len(warnings) == 2
