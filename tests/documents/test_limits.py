"""What a document may take: counted for the whole document, by whoever parses it."""

import pytest

from headway.documents.limits import DocumentLimits, DocumentMeter, apply_limits, current_meter, format_bytes
from headway.errors import HeadwayError


def test_a_meter_counts_until_the_limit() -> None:
    meter = DocumentMeter(DocumentLimits(unpacked_bytes=3 << 20, elements=5, characters=7))
    meter.count_unpacked(3 << 20, "a.odt")
    with pytest.raises(HeadwayError, match="a.odt is refused as a zip bomb: it unpacks to more than 3 MiB"):
        meter.count_unpacked(1, "a.odt")
    meter.count_elements(5, "a.odt")
    with pytest.raises(HeadwayError, match="a.odt has more than 5 elements or lines"):
        meter.count_elements(1, "a.odt")
    meter.count_characters(7)
    with pytest.raises(HeadwayError, match="the file has more than 7 characters of text"):
        meter.count_characters(1)


def test_limits_are_in_force_inside_the_block() -> None:
    usual = current_meter()
    assert usual.limits == DocumentLimits()
    assert current_meter() is not usual  # nothing is added up where no limits were applied
    with apply_limits(DocumentLimits(elements=1)) as meter:
        assert current_meter() is meter
    assert current_meter() is not meter


def test_bytes_for_people() -> None:
    assert [format_bytes(count) for count in (10, 1 << 20, 512 << 20)] == ["10 bytes", "1 MiB", "512 MiB"]
