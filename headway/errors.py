"""Errors written for the person who meets them: what was given, what is allowed, what to do."""


class HeadwayError(Exception):
    """Something the user can put right. The command line prints the message, without a traceback, and exits 1."""


class ConfigError(HeadwayError):
    """A config that cannot be built. `where` is the dotted path of the value at fault. Exits 2."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where

    def inside(self, name: str) -> "ConfigError":
        """The same error, seen from one level further out."""
        return ConfigError(self.message, f"{name}.{self.where}" if self.where else name)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


def did_you_mean(given: str, allowed: list[str]) -> str:
    """' Did you mean "x"?' or ''. Capitals, - and _ make no difference: papers write Pre-LN and ALiBi."""
    import difflib

    spelt = {_plain(name): name for name in reversed(allowed)}
    if _plain(given) in spelt:
        return f' Did you mean "{spelt[_plain(given)]}"?'
    near = difflib.get_close_matches(given, allowed, n=1)
    near = near or [spelt[name] for name in difflib.get_close_matches(_plain(given), spelt, n=1)]
    return f' Did you mean "{near[0]}"?' if near else ""


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")
