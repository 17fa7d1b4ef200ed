"""Names by which clients know what a server has."""

from collections.abc import Collection
from itertools import count


def free_name(base: str, taken: Collection[str]) -> str:
    """base, base-2, base-3 …: the first that is not taken."""
    if base not in taken:
        return base
    return next(name for number in count(2) if (name := f"{base}-{number}") not in taken)
