"""Record the example that the page shows while a model loads: python docs/example.py my-model "A dog runs." """

import json
import sys
from pathlib import Path

from headway.inspect.events import trace_events
from headway.inspect.recorded_answers import attach_model, record_answers
from headway.translate.translator import Translator, load

EXAMPLE = Path(__file__).parent.parent / "web" / "example.json"


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("Usage: python docs/example.py MODEL TEXT")
    translator = load(sys.argv[1], "cpu")
    if not isinstance(translator, Translator):
        sys.exit("MODEL must be a translator, not a language model")
    traced = attach_model(translator.trace(sys.argv[2]), translator)
    trace, answers = traced.trace, record_answers(traced, "")
    # Without queries, keys, values and positions, which are most of the bytes: the model is loaded soon.
    answers = {name: answer for name, answer in answers.items() if " inside " not in name}
    for side in answers["0 vectors"].values():
        side["positions"] = None
    recorded = {"events": trace_events(trace, ""), "answers": answers}
    EXAMPLE.write_text(json.dumps(recorded, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{EXAMPLE}: {EXAMPLE.stat().st_size} bytes, {trace.output}")


if __name__ == "__main__":
    main()
