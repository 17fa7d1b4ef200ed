"""Exceptions for users: each message says what was given, what is allowed, and what to do."""


class HeadwayError(Exception):
    """An error the user can fix. The command line prints the message without a traceback and exits with 1."""


class ConfigError(HeadwayError):
    """An invalid config. `where` is the dotted path of the offending value. The command line exits with 2."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where

    def inside(self, name: str) -> "ConfigError":
        """The same error with `name` put before its path, for a caller one level further out."""
        return ConfigError(self.message, f"{name}.{self.where}" if self.where else name)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class HeadwayWarning(UserWarning):
    """Something that was ignored and need not stop the work. The command line prints it as a warning."""


def did_you_mean(given: str, allowed: list[str]) -> str:
    """' Did you mean "x"?' or ''. Case, - and _ are ignored: papers write Pre-LN and ALiBi."""
    import difflib

    by_plain = {_plain(name): name for name in reversed(allowed)}
    if _plain(given) in by_plain:
        return f' Did you mean "{by_plain[_plain(given)]}"?'
    near = difflib.get_close_matches(given, allowed, n=1)
    near = near or [by_plain[name] for name in difflib.get_close_matches(_plain(given), by_plain, n=1)]
    return f' Did you mean "{near[0]}"?' if near else ""


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")
