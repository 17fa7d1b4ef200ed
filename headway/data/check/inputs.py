"""The files given on the command line, as corpora in one pair of languages."""

from collections.abc import Sequence
from typing import NamedTuple

from headway.data.parallel_files import ParallelFiles, language_from_filename, languages_from_filename, resolve_layout
from headway.errors import ConfigError


class InputFiles(NamedTuple):
    """One set of files: the corpus to check, or validation or test text."""

    source: Sequence[str] = ()
    target: Sequence[str] = ()
    pairs: Sequence[str] = ()
    prefix: str = ""  # of their options: "valid-", "test-"

    def corpora(self, columns: tuple[str, str] | None, languages: tuple[str, str]) -> list[ParallelFiles]:
        if len(self.source) != len(self.target):
            raise ConfigError(
                f"--{self.prefix}source is given {len(self.source)} times and --{self.prefix}target "
                f"{len(self.target)} times: give both equally often."
            )
        found = [
            ParallelFiles(source, target, language_from_filename(source), language_from_filename(target))
            for source, target in zip(self.source, self.target)
        ]
        found += [ParallelFiles(path, "", *languages_from_filename(path), columns=columns) for path in self.pairs]
        return [
            resolve_layout(
                files._replace(
                    source_language=languages[0] or files.source_language,
                    target_language=languages[1] or files.target_language,
                )
            )
            for files in found
        ]


def find_languages(corpora: Sequence[ParallelFiles]) -> tuple[str, str]:
    """The languages of all corpora, from their file names; "" for a side that no name gives."""
    if not corpora:
        raise ConfigError("nothing to check: give --source and --target, or --pairs.")
    found = []
    for side, flag in (("source_language", "--from"), ("target_language", "--to")):
        names = sorted({getattr(files, side) for files in corpora} - {""})
        if len(names) > 1:
            raise ConfigError(
                f"the file names have several {side.replace('_', ' ')}s: {', '.join(names)}. Check one pair of "
                f"languages at a time, or set the language with {flag}."
            )
        found.append(names[0] if names else "")
    return found[0], found[1]
