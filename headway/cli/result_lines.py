"""What `headway translate` prints for a line: text, scores, links, n-best lists, or JSON."""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.translate.results import Guess, RoutedLine


def format_result(
    routed: "RoutedLine", number: int, n_best: int | None, scores: bool, as_json: bool, single_text: bool
) -> str:
    """One result in the requested format, on one line; a single text given as an argument keeps its line breaks."""
    from headway.translate.results import to_one_line

    result = routed.result
    if as_json:
        return json.dumps(to_json_object(routed, n_best), ensure_ascii=False) + "\n"
    if n_best:
        guesses = result.guesses[:n_best]
        return "".join(
            f"{number} ||| {to_one_line(guess.text)} ||| {guess.score:.4f}{format_links(guess)}\n" for guess in guesses
        )
    score = f"{result.score:.4f}\t" if scores else ""
    links = format_links(result.guesses[0])
    keeps_lines = single_text and not score and not links
    return f"{score}{result.text if keeps_lines else to_one_line(result.text)}{links}\n"


def format_links(guess: "Guess") -> str:
    """The alignment as a further field, if it was requested."""
    from headway.text.align.words import format_moses_links

    return "" if guess.alignment is None else f" ||| {format_moses_links(guess.alignment)}".rstrip()


def to_json_object(routed: "RoutedLine", n_best: int | None) -> dict[str, Any]:
    result, translator = routed.result, routed.translator
    guesses = [
        {
            "text": guess.text,
            "score": round(guess.score, 6),
            "logp": round(guess.logp, 6),
            "tokens": translator.tokenizers.target.pieces(guess.tokens) if translator else [],
            "token_logps": [round(value, 6) for value in guess.token_logps],
            **({} if guess.alignment is None else {"alignment": guess.alignment}),
            **({} if (confidence := guess.confidence) is None else {"confidence": round(confidence, 4)}),
        }
        for guess in result.guesses
    ]
    n_best_field = {"n_best": guesses} if n_best else {}
    language_field = {"from": routed.source} if routed.source else {}
    notes = [routed.note] if routed.note else []
    warnings = [*result.warnings, *notes]
    pivot_field = {"pivot": result.pivot._asdict()} if result.pivot else {}
    return {
        "source": result.source,
        **language_field,
        **guesses[0],
        **pivot_field,
        **n_best_field,
        "warnings": warnings,
    }
