"""`headway check`: find faults in a parallel corpus before training, each with its line.

A corpus is read at most three times:

    first_pass   count the lines, draw a sample
    fit          from the sample: languages, scripts, usual lengths, IBM model 1, a classifier of pairs ──► CorpusModel
    scan         every pair, on all cores (pool) ──► faults as bits; then duplicates and misaligned runs ──► CheckReport
    examples, write_clean    show examples, write the pairs without faults

    raw_lines    decoding that never fails        char_features   arrays of code points, trigrams, words
    faults       the kinds of fault               language_profiles, length_model, ibm1, pair_classifier: the models"""

from headway.data.check.check import check
from headway.data.check.faults import FAULT_KINDS, FaultKind
from headway.data.check.report import CheckReport, Finding, MisalignedRun, PairLocation
from headway.data.check.settings import CheckSettings

__all__ = [
    "FAULT_KINDS",
    "CheckReport",
    "CheckSettings",
    "FaultKind",
    "Finding",
    "MisalignedRun",
    "PairLocation",
    "check",
]
