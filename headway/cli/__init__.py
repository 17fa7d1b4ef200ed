"""The command line: one file a verb, thin. `root` is the command itself."""

from headway.cli.app import main

__all__ = ["main"]
