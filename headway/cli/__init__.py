"""The command line.

    headway VERB ...
        app.py            the command group, exit codes, error reporting; imports a verb only when it is used
          └─ verbs/       one thin module a verb: options, checks, a call into the library, output
               ├─ options.py, help.py           options that several verbs share; help output, hidden aliases
               ├─ terminal.py, markdown.py      log messages, colour, tables, live lines; pages of the documentation
               ├─ input_lines.py, pipelined.py  translate: groups of input lines, worked on in a pipeline
               ├─ translate_document.py         translate --document
               ├─ train_setup.py, progress.py   train: from options to a training run, and what it shows meanwhile
               ├─ pair_input.py                 evaluate, score, …: pairs from --source and --target, or --pairs
               ├─ pair_writer.py                augment, distil: write pairs to a file that can be resumed
               └─ check_report.py               check: the report
        foreign_options.py  what other toolkits call our options, for hints in error messages

Results go to stdout, messages to stderr."""

from headway.cli.app import main

__all__ = ["main"]
