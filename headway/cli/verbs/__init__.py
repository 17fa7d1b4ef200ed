"""The verbs of `headway`, one module each; `headway.cli.app.VERBS` lists them.

    data          check, toy, augment, distil
    training      train, average, shortlist, calibrate, pack
    using         translate, generate, serve, models, export
    measuring     evaluate, score, align
    looking       trace, attend, inspect, draw, variants
    housekeeping  doctor, completion

A module imports what needs torch inside its function, so that `--help` stays fast."""
