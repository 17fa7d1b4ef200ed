"""Looking through a parallel corpus for what would spoil a training: every fault with its line.

`check` reads a corpus three times at most: to count its lines and take a sample, to look at every pair with what the
sample has taught, and to show examples or write what is clean."""

from headway.data.check.check import check
from headway.data.check.faults import KINDS, Kind
from headway.data.check.report import Finding, MovedRun, Place, Report
from headway.data.check.settings import Settings

__all__ = ["KINDS", "Finding", "Kind", "MovedRun", "Place", "Report", "Settings", "check"]
