"""The files that a user names, as corpora of one pair of languages."""

from collections.abc import Sequence
from typing import NamedTuple

from headway.data.parallel_files import ParallelFiles, language_of, languages_of
from headway.errors import ConfigError


class Given(NamedTuple):
    """One set of files: those to check, or a validation or test text."""

    source: Sequence[str] = ()
    target: Sequence[str] = ()
    pairs: Sequence[str] = ()
    prefix: str = ""  # of the options that named them: "valid-", "test-"

    def corpora(self, columns: tuple[str, str] | None, languages: tuple[str, str]) -> list[ParallelFiles]:
        if len(self.source) != len(self.target):
            raise ConfigError(
                f"--{self.prefix}source was given {len(self.source)} times and --{self.prefix}target "
                f"{len(self.target)} times: they go in pairs."
            )
        found = [
            ParallelFiles(one, other, language_of(one), language_of(other))
            for one, other in zip(self.source, self.target)
        ]
        found += [ParallelFiles(path, "", *languages_of(path), columns=columns) for path in self.pairs]
        return [
            files._replace(
                source_language=languages[0] or files.source_language,
                target_language=languages[1] or files.target_language,
            )
            for files in found
        ]


def languages_in(corpora: Sequence[ParallelFiles]) -> tuple[str, str]:
    """The one pair of languages of all corpora; "" for a side that no file's name tells."""
    if not corpora:
        raise ConfigError("give --source and --target, or --pairs: what should be checked?")
    found = []
    for side, flag in (("source_language", "--from"), ("target_language", "--to")):
        names = sorted({getattr(files, side) for files in corpora} - {""})
        if len(names) > 1:
            raise ConfigError(
                f"the files' names tell more than one {side.replace('_', ' ')}: {', '.join(names)}. Check one pair of "
                f"languages at a time, or say which it is with {flag}."
            )
        found.append(names[0] if names else "")
    return found[0], found[1]
