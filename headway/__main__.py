"""The command `headway`, also as `python -m headway`. Imports nothing slow before Ctrl-C is taken care of."""

import _signal as signal  # type: ignore[import-not-found] # the core of `signal`, which imports others
import os
import sys

INTERRUPTED = 128 + int(signal.SIGINT)


def exit_at_once(number: int, frame: object) -> None:
    """Nothing has been done yet, so there is nothing to clean up, and nothing to say."""
    os._exit(INTERRUPTED)


def main() -> int:
    """Run the command line. Ctrl-C never shows a traceback, not even while modules are imported."""
    is_interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # it is not under nohup
    if is_interruptible:
        signal.signal(signal.SIGINT, exit_at_once)
    from headway.cli import main as run

    try:
        if is_interruptible:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run()
        if is_interruptible:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # only threads are left: end them, too
    except KeyboardInterrupt:  # before the command line took over, or after it
        return INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
