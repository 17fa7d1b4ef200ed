"""`headway translate`: a line in, a line out."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.input_lines import AT_ONCE, counted, is_file, waiting_lines
from headway.cli.pipelined import ahead
from headway.cli.terminal import log, opened
from headway.cli.translate_document import choice_for, translate_document
from headway.cli.translate_document import refuse as refuse_for_document
from headway.errors import HeadwayError
from headway.storage.registry import Choice, choose

if TYPE_CHECKING:
    from headway.decode.types import Compute, EngineName
    from headway.text.glossary import Glossary
    from headway.translate.results import Routed
    from headway.translate.routing import Router
    from headway.translate.translator import Guess, Translation, Translator

OF_A_FILE = {"cuda": 16_384, "cpu": 4096}  # lines taken together: of many, some have one length


@click.command(
    "translate",
    cls=Verb,
    examples=[
        ('headway translate --model my-model "A dog runs through the snow."', "one sentence"),
        ('headway translate --from de --to en "Ein Hund."', "by an installed model: see headway models"),
        ("headway translate --from auto --to en < mixed.txt", "each line from its own language"),
        ("headway translate --model my-model < text.en > text.de", "a file, line by line"),
        ("headway translate --model my-model --file report.docx", "a document, with its formatting: report.de.docx"),
        ('headway translate --model my-model --n-best 3 "A dog runs."', "the three best, as i ||| text ||| score"),
        ('headway translate --model my-model --align "A dog runs."', "which word says which: text ||| i-j i-j"),
        ('headway translate --model my-model --json "A dog runs."', "everything that is known, one JSON object a line"),
    ],
)
@click.argument("text", nargs=-1)
@options.models
@option(
    "--from",
    "source_language",
    default="",
    show_default=False,
    metavar="LANG",
    group="Model",
    help="Source language, to choose a model or where it has several; auto: told by each line's text.",
)
@options.target_language
@options.device
@options.engines
@option("--input", "-i", "input_file", metavar="FILE", group="Text", help="Read from a file; - is standard input.")
@option("--file", metavar="FILE", group="Text", help="A document: .txt, .html, .srt, .po, .docx or .odt.")
@options.output
@option("--no-split", is_flag=True, group="Text", help="Take each line as one sentence.")
@option("--protect", multiple=True, metavar="REGEX", group="Text", help="Leave what matches as it is.")
@option("--no-protect", is_flag=True, group="Text", help="Nor protect {name}, %s, tags, addresses, `code`.")
@option("--beam-size", "-b", type=int, group="Search", help="Hypotheses followed; 1 is greedy. Default: the model's.")
@option(
    "--length-penalty", "alpha", type=float, group="Search", help="Above 0 prefers longer output. Default: the model's."
)
@option(
    "--penalty",
    type=click.Choice(["paper", "power", "none"]),
    group="Search",
    help="Its formula. Default: the model's.",
)
@option("--max-length", type=int, group="Search", help="Tokens of output at most. Default: input + 50.")
@option("--max-ratio", type=float, group="Search", help="The same as a multiple of the input, + 50.")
@option("--no-repeat-ngram", "no_repeat_ngram", type=int, group="Search", help="Never repeat so many tokens in a row.")
@options.shortlist
@option("--prefix", metavar="TEXT", group="Search", help="Every output starts with this.")
@option("--glossary", metavar="FILE", group="Search", help="Given translations: source, a tab, target on each line.")
@options.drawing
@option("--n-best", type=click.IntRange(min=1), group="Result", help="So many translations: i ||| text ||| score.")
@option("--align", is_flag=True, group="Result", help="Source word - target word, from 0: text ||| i-j i-j.")
@option("--scores", is_flag=True, group="Result", help="Score, a tab, and the translation.")
@option("--min-score", type=float, default=0.0, group="Result", help="Leave lines that are less sure as they are.")
@option("--json", "as_json", is_flag=True, group="Result", help="One JSON object a line.")
def translate(
    text: tuple[str, ...], models: tuple[str, ...], source_language: str, to: str, device: str, engine: "EngineName",
    compute: "Compute", threads: int | None, input_file: str | None, file: str | None, output: str | None, no_split: bool,
    protect: tuple[str, ...], no_protect: bool, prefix: str | None, glossary: str | None, batch_tokens: int | None,
    align: bool, scores: bool, min_score: float, as_json: bool, **search: Any,
) -> None:  # fmt: skip
    """Translate text, a file or standard input.

    One line out for each line in, in order; a blank line stays blank. A line of several sentences is translated
    sentence by sentence and keeps its spacing. Warnings go to stderr.

    With --from auto a line in the target language, or in one that no model translates, stays as it is. A document keeps
    everything but its text, and lies beside the old one unless --output names it."""
    if file:
        refuse_for_document(click.get_current_context().params, file, output)
    if protect and no_protect:
        raise click.UsageError("--protect and --no-protect were both given: choose one.", click.get_current_context())
    if text and input_file:
        raise click.UsageError("text and --input were both given: choose one.", click.get_current_context())
    if input_file and output and Path(input_file).resolve() == Path(output).resolve():
        raise click.UsageError("--output is the file of --input: name another.", click.get_current_context())
    if sys.stdin is None and not file and (text or (input_file or "-",)) == ("-",):
        raise click.UsageError("standard input is closed: give text or --input FILE.", click.get_current_context())
    if sys.stdout is None and not output and not file:
        raise HeadwayError(
            "standard output is closed: there is nowhere to write to. Open it, or name a file: --output."
        )

    kept, terms = None if no_protect else protect, read_glossary(glossary)

    def load(choice: Choice) -> "Translator":
        from headway.decode.ctranslate2.probe import quick_model

        begin = bool(text) and text != ("-",)
        quick = quick_model(choice.paths, device, engine, compute, threads, start=begin)
        from headway.translate.translator import load_translator  # now: it imports while weights are being loaded

        if choice.paths != models:
            log(f"model {', '.join(choice.paths)}", "detail")
        translator = load_translator(
            choice.paths, device, engine, compute, threads, lambda told: log(told, "detail"), quick, choice.direction
        )
        translator.batch_tokens = batch_tokens or translator.batch_tokens
        # What is wrong with the request is said before anything is waited for.
        translator.translate([], translator.search(**search), protect=kept, glossary=terms, min_score=min_score)
        if align:
            warn_if_rough(translator)
        return translator

    if file:
        more = {"split": not no_split, "protect": kept, "glossary": terms, "min_score": min_score}
        return translate_document(load(choice_for(file, models, source_language, to)), search, file, output, more)

    def found(numbered: tuple[int, list[str]]) -> "list[Routed]":
        first, group = numbered

        def act(translator: "Translator", lines: Sequence[str], source: str = "") -> "list[Translation]":
            forced = None if prefix is None else [prefix] * len(lines)
            return translator.translate(
                lines, translator.search(**search), source=source, split=not no_split, prefixes=forced, first=first,
                align=align, protect=kept, glossary=terms, min_score=min_score,
            )  # fmt: skip

        return router.translate(group, act)

    if source_language == options.AUTO:
        router: Router | Direct = by_language(models, to, load, align)
    else:
        router = Direct(load(choose(models, source_language, to)))
    if not text and not input_file and sys.stdin.isatty():
        log("type text to translate, a line at a time; Ctrl-D ends")
    kind = router.loaded[0].device if router.loaded else "cpu"
    number = 0
    of_a_file = not text and is_file(input_file or "-")
    alone = len(text) == 1 and text != ("-",)
    workers = 2 if kind == "cuda" or of_a_file else 1  # one group is read or written while another is searched
    lines = waiting_lines(text, input_file, OF_A_FILE.get(kind, AT_ONCE))
    with opened(output) as sink, stopping(router):
        for results in ahead(counted(lines), found, workers):
            for routed in results:
                number += 1
                for warning, times in Counter(routed.result.warnings).items():  # of many sentences one line may say it
                    log(f"line {number}: {warning}{f' ({times} times)' if times > 1 else ''}", "warning")
                if routed.note:
                    log(f"line {number}: {routed.note}")
                sink.write(shown(routed, number - 1, search["n_best"], scores, as_json, alone))
            sink.flush()


def by_language(models: tuple[str, ...], to: str, load: "Callable[[Choice], Translator]", align: bool) -> "Router":
    from headway.translate.routing import Router, routes

    router = Router(*routes(models, to), load, align, strict=bool(models))
    for warning in router.warnings:
        log(warning, "warning")
    return router


class Direct:
    """Every line to one translator: what headway.translate.routing.Router is for lines in several languages."""

    def __init__(self, translator: "Translator") -> None:
        self.loaded = [translator]

    def translate(self, lines: Sequence[str], act: "Callable[..., list[Translation]]") -> "list[Routed]":
        from headway.translate.results import Routed

        return [Routed(result, self.loaded[0]) for result in act(self.loaded[0], lines)]


def read_glossary(path: str | None) -> "Glossary | None":
    if path is None:
        return None
    from headway.text.glossary import Glossary

    return Glossary.load(path)


@contextmanager
def stopping(router: "Router | Direct") -> Iterator[None]:
    """Whatever ends this early ends the searches ahead of it."""
    try:
        yield
    except BaseException:
        for translator in router.loaded:
            translator.stop()
        raise


def shown(routed: "Routed", number: int, n_best: int | None, scores: bool, as_json: bool, alone: bool) -> str:
    """One result as asked for: a line, unless it is the only one and text alone, which keeps its lines."""
    from headway.translate.results import one_line

    result = routed.result
    if as_json:
        return json.dumps(as_object(routed, n_best), ensure_ascii=False) + "\n"
    if n_best:
        guesses = result.guesses[:n_best]
        return "".join(
            f"{number} ||| {one_line(guess.text)} ||| {guess.score:.4f}{links_of(guess)}\n" for guess in guesses
        )
    lead, links = f"{result.score:.4f}\t" if scores else "", links_of(result.guesses[0])
    return f"{lead}{result.text if alone and not lead and not links else one_line(result.text)}{links}\n"


def links_of(guess: "Guess") -> str:
    """A further field, if it was asked for."""
    from headway.text.align.words import moses

    return "" if guess.alignment is None else f" ||| {moses(guess.alignment)}".rstrip()


def warn_if_rough(translator: "Translator") -> None:
    from headway.translate.alignment import is_guided

    if not all(is_guided(config) for config in translator.configs):
        log("this model has no head for alignments: they are rough. Train it with train.alignment=guided", "warning")


def as_object(routed: "Routed", n_best: int | None) -> dict[str, Any]:
    result, translator = routed.result, routed.translator
    guesses = [
        {
            "text": guess.text,
            "score": round(guess.score, 6),
            "logp": round(guess.logp, 6),
            "tokens": translator.tokenizers.target.pieces(guess.tokens) if translator else [],
            "token_logps": [round(value, 6) for value in guess.token_logps],
            **({} if guess.alignment is None else {"alignment": guess.alignment}),
            **({} if (sure := guess.confidence) is None else {"confidence": round(sure, 4)}),
        }
        for guess in result.guesses
    ]
    several = {"n_best": guesses} if n_best else {}
    told = {"from": routed.source} if routed.source else {}
    notes = [routed.note] if routed.note else []
    return {"source": result.source, **told, **guesses[0], **several, "warnings": [*result.warnings, *notes]}
