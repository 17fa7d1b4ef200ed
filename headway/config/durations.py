"""Durations as people write them: 90s, 20m, 1.5h, 2d."""

import re

from headway.errors import ConfigError

SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(value: object) -> float:
    """'20m' -> 1200.0; a plain number is in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", str(value).strip())
    if not match or not float(match[1]):
        raise ConfigError(f"{value!r} is not a duration. Write 90s, 20m, 1.5h or 2d.")
    return float(match[1]) * SECONDS_PER_UNIT[match[2] or "s"]
