from collections.abc import Iterator

import pytest

from contracts.toys import in_catalogue


@pytest.fixture(autouse=True)
def _toys() -> Iterator[None]:
    with in_catalogue():
        yield
