"""Every kind of the catalogue can be looked into: the panels of the page have an answer to each of their questions."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from every_kind import objective_of, tables_of_every_kind

from headway.config.schema import from_dict
from headway.inspect.recorded_answers import TracedText, list_answers, list_attention_sublayers, record_answers
from headway.inspect.trace import Tokens, Trace
from headway.inspect.tracer import trace_forward
from headway.nn.transformer import Transformer

VOCABULARY = 29
SOURCE, TARGET = [5, 9, 6, 11, 7, 2], [1, 8, 12, 4, 10]
NEEDS_MORE = ("score", "attribution words")  # whose answers take a translator or a language model
TABLES = tables_of_every_kind()


def pieces(side: str, ids: Sequence[int]) -> list[str]:
    return [f"t{number}" for number in ids]


def trace_random_model(table: dict[str, Any]) -> TracedText:
    config = from_dict(Transformer.Config, {**table, "vocabulary": VOCABULARY})
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    sides = model.config.sides
    source, target = (ids if side in sides else [] for side, ids in (("encoder", SOURCE), ("decoder", TARGET)))
    tensors = trace_forward(model, source, target)
    tokens = [Tokens(ids, pieces("", ids)) for ids in (source, target, [*target[1:], 2][: len(target)])]
    kind: Any = objective_of(table)
    known = dict(enumerate(pieces("", range(VOCABULARY))))
    trace = Trace(kind, "text", "", *tokens, 0, [], [], known, {}, model.config.to_dict(), tensors)
    return TracedText(trace, model, pieces)


@pytest.mark.parametrize("name", TABLES)
def test_every_panel_has_an_answer(name: str) -> None:
    shown = trace_random_model(TABLES[name])
    answers = record_answers(shown, "model")
    assert shown.model is not None
    config = shown.model.config
    asked = {f"0 {one.name}" for one in list_answers(config) if one.name not in NEEDS_MORE}
    assert asked <= answers.keys()
    for path in list_attention_sublayers(config):
        drawn = f"{path}.weights" in shown.trace.tensors or f"0 influence {path}" in answers
        assert drawn or path.endswith(".cross")
