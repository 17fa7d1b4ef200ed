"""`headway translate`: translate lines of text, or a document."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.input_lines import LINES_PER_GROUP, is_regular_file, number_groups, read_line_groups
from headway.cli.pipelined import map_pipelined
from headway.cli.pivot_note import PivotNotes
from headway.cli.result_lines import format_result
from headway.cli.search_progress import show_progress
from headway.cli.terminal import log, open_output
from headway.cli.translate_document import check_document_options, choose_document_route, translate_document
from headway.errors import HeadwayError
from headway.storage.pivots import PivotChoice, Route, choose_route
from headway.storage.registry import ModelChoice

if TYPE_CHECKING:
    from headway.decode.types import Compute, EngineName
    from headway.text.glossary import Glossary
    from headway.text.translation_memory import TranslationMemory
    from headway.translate.options import TranslateOptions
    from headway.translate.pivot import PivotTranslator
    from headway.translate.results import RoutedLine
    from headway.translate.routing import Router
    from headway.translate.translator import Translation, Translator

DEFAULT_MBR_BEAM = 8
# By device. A larger group has more lines of equal length to batch.
LINES_PER_FILE_GROUP = {"cuda": 16_384, "cpu": 4096}


@click.command(
    "translate",
    cls=Verb,
    examples=[
        ('headway translate --model my-model "A dog runs through the snow."', "one sentence"),
        ('headway translate --model en-de --adapter law --to de "A dog runs."', "with an adapter: see headway train"),
        ('headway translate --from de --to en "Ein Hund."', "with an installed model: see headway models"),
        ("headway translate --from auto --to en < mixed.txt", "detect the language of each line"),
        ("headway translate --model my-model < text.en > text.de", "a file, line by line"),
        ("headway translate --model my-model --document report.docx", "a document, with its formatting"),
        ("headway translate --model my-model --document text.xliff --memory old.tmx", "with a translation memory"),
        ('headway translate --model my-model --n-best 3 "A dog runs."', "the three best, as i ||| text ||| score"),
        ('headway translate --model my-model --mbr chrf --samples 32 "A dog runs."', "the best agreed of 32 samples"),
        ('headway translate --model my-model --align "A dog runs."', "with word alignments: text ||| i-j i-j"),
        ('headway translate --model my-model --json "A dog runs."', "all details, one JSON object per line"),
    ],
)
@click.argument("text", nargs=-1)
@options.models
@options.adapter
@option(
    "--from",
    "source_language",
    default="",
    show_default=False,
    metavar="LANG",
    group="Model",
    help="Source language, to choose a model or if it has several; auto: detect it for each line.",
)
@options.target_language
@options.device
@options.engine_options
@option("--input", "-i", "input_file", metavar="FILE", group="Text", help="Read lines from FILE; - is standard input.")
@option(
    "--document",
    aliases=["--file"],
    metavar="FILE",
    group="Text",
    help="Translate a document: .txt, .md, .html, .docx, .pptx, .xlsx, .odt, .odp, .epub, .pdf (its text), .srt, .vtt, "
    ".po, .json, .xliff or .tmx.",
)
@options.output
@options.no_split
@option(
    "--protect", multiple=True, metavar="REGEX", group="Text", help="Leave matching text unchanged; may be repeated."
)
@option("--no-protect", is_flag=True, group="Text", help="Do not protect placeholders, tags, URLs or code.")
@options.search_method
@options.beam_size
@options.length_penalty
@options.penalty
@option("--max-length", type=int, group="Search", help="Maximum output length in tokens. Default: input + 50.")
@option("--max-ratio", type=float, group="Search", help="The same, as a multiple of the input length, plus 50.")
@options.no_repeat_ngram
@options.shortlist
@option("--prefix", metavar="TEXT", group="Search", help="Force every output to start with TEXT.")
@option("--glossary", metavar="FILE", group="Search", help="Required translations, one per line: source, tab, target.")
@option(
    "--memory",
    metavar="FILE",
    group="Search",
    help="Translation memory: .tmx, or one pair per line, with a tab. Texts that it has are not translated again.",
)
@option(
    "--min-similarity",
    type=float,
    default=1.0,
    group="Search",
    help="Also use its translations of texts that are at least so similar, from 0 to 1.",
)
@options.sampling_options
@option(
    "--mbr",
    metavar="METRIC",
    group="Search",
    help="Minimum Bayes risk: the candidate that agrees best with all, by chrf, bleu, chrf++, ter or comet.",
)
@option("--samples", type=click.IntRange(min=2), group="Search", help="With --mbr: draw N candidates. Default: a beam.")
@option(
    "--n-best", type=click.IntRange(min=1), group="Result", help="Print the N best translations: i ||| text ||| score."
)
@option("--align", is_flag=True, group="Result", help="Print word alignments, counted from 0: text ||| i-j i-j.")
@option("--scores", is_flag=True, group="Result", help="Print the score and a tab before each translation.")
@option(
    "--min-confidence",
    aliases=["--min-score"],
    type=float,
    default=0.0,
    group="Result",
    help="Leave lines with lower confidence untranslated; see headway calibrate.",
)
@option("--json", "as_json", is_flag=True, group="Result", help="Print one JSON object per line.")
def translate(
    text: tuple[str, ...], models: tuple[str, ...], adapter: str | None, source_language: str, to: str, device: str,
    engine: "EngineName",
    compute: "Compute", threads: int | None, input_file: str | None, document: str | None, output: str | None,
    no_split: bool, protect: tuple[str, ...], no_protect: bool, prefix: str | None, glossary: str | None,
    memory: str | None, min_similarity: float, batch_tokens: int | None, mbr: str | None, samples: int | None,
    align: bool, scores: bool,
    min_confidence: float, as_json: bool, **search: Any,
) -> None:  # fmt: skip
    """Translate text, a file or standard input.

    Writes one line for each input line, in order; blank lines stay blank. A line of several sentences is translated
    sentence by sentence and keeps its spacing. Warnings go to stderr.

    With --from auto, a line in the target language, or in one that no model translates, is left unchanged. A document
    keeps everything but its text; without --out, report.docx becomes report.de.docx."""
    if document:
        check_document_options(click.get_current_context().params, document, output)
    if protect and no_protect:
        raise click.UsageError("--protect and --no-protect were both given: choose one.", click.get_current_context())
    if text and input_file:
        raise click.UsageError("text and --input were both given: choose one.", click.get_current_context())
    if input_file and output and Path(input_file).resolve() == Path(output).resolve():
        raise click.UsageError("--out is the input file: choose another file.", click.get_current_context())
    if sys.stdin is None and not document and (text or (input_file or "-",)) == ("-",):
        raise click.UsageError("standard input is closed: give text or --input FILE.", click.get_current_context())
    if sys.stdout is None and not output and not document:
        raise HeadwayError("standard output is closed: open it, or give a file with --out.")

    if adapter and not models:
        from headway.storage.adapter import load_adapter

        models = (load_adapter(adapter).base,)
    terms = read_glossary(glossary)
    shown = search["n_best"]
    if mbr or samples:
        search |= choose_candidates(mbr, samples, search)
    known_pairs = read_memory(memory)

    def load(choice: ModelChoice) -> "Translator":
        from headway.decode.probe import probe_engines

        begin = bool(text) and text != ("-",)
        probe = probe_engines(choice.paths, device, engine, compute, threads, start=begin)
        from headway.translate.translator import load_choice  # now: it imports while weights are being loaded

        if choice.paths != models:
            log(f"model {', '.join(choice.paths)}", "detail")
        translator = load_choice(
            choice, device, engine, compute, threads, lambda message: log(message, "detail"), probe
        )  # fmt: skip
        if adapter:
            translator = translator.with_adapter(adapter)
        translator.batch_tokens = batch_tokens or translator.batch_tokens
        make_options(translator).check(translator)
        if align:
            warn_if_unguided(translator)
        return translator

    def load_route(route: Route) -> "Translator | PivotTranslator":
        if not isinstance(route, PivotChoice):
            return load(route)
        from headway.translate.pivot import PivotTranslator

        return PivotTranslator(load(route.first), load(route.second), route)

    def make_options(translator: "Translator | PivotTranslator", source: str = "") -> "TranslateOptions":
        from headway.translate.options import TranslateOptions

        return TranslateOptions(
            source=source,
            split_sentences=not no_split,
            align=align,
            protect=None if no_protect else protect,
            glossary=terms,
            memory=known_pairs,
            min_similarity=min_similarity,
            min_confidence=min_confidence,
            mbr=mbr or "",
            search=translator.search(**search),
        )

    if document:
        document_translator = load_route(choose_document_route(document, models, source_language, to))
        return translate_document(document_translator, make_options(document_translator), document, output)

    def translate_group(numbered: tuple[int, list[str]]) -> "list[RoutedLine]":
        from headway.translate.pivot import translate_route
        from headway.translate.results import RoutedLine
        from headway.translate.search import make_requests

        first, group = numbered

        def find_budget(translator: "Translator") -> RetryBudget:
            progress.watch(translator)
            return retries.setdefault(translator, RetryBudget(order))

        def run(
            translator: "Translator | PivotTranslator", lines: Sequence[str], source: str = ""
        ) -> "list[Translation]":
            prefixes = None if prefix is None else [prefix] * len(lines)
            requests = make_requests(lines, first, prefixes)
            return translate_route(translator, requests, make_options(translator, source), find_budget)

        try:
            if router is not None:
                return router.translate(group, run)
            return [RoutedLine(result, loaded[0]) for result in run(loaded[0], group)]
        finally:
            order.finish_lines(first + len(group))

    from headway.translate.retry_budget import LineOrder, RetryBudget, describe_skipped_retries

    order = LineOrder()
    retries: dict[Translator, RetryBudget] = {}
    router: Router | None = None
    loaded: list[Translator | PivotTranslator] = []
    if source_language == options.AUTO_DETECT:
        router = make_router(models, to, load, align)
    else:
        loaded = [load_route(choose_route(models, source_language, to))]
    if not text and not input_file and sys.stdin.isatty():
        log("type text to translate, one line at a time; end with Ctrl-D")
    kind = loaded[0].device if loaded else "cpu"  # models of a router are loaded with their first line
    number = 0
    pivot_notes = PivotNotes()
    from_file = not text and is_regular_file(input_file or "-")
    single_text = len(text) == 1 and text != ("-",)
    workers = 2 if kind == "cuda" or from_file else 1  # one group is read or written while another is searched
    lines = read_line_groups(text, input_file, LINES_PER_FILE_GROUP.get(kind, LINES_PER_GROUP))
    with (
        open_output(output) as sink,
        stop_searches_on_error(lambda: router.loaded if router else loaded),
        show_progress() as progress,
    ):
        for results in map_pipelined(number_groups(lines), translate_group, workers):
            progress.clear()
            for routed in results:
                number += 1
                pivot_notes.tell_of(routed)
                # Several sentences of a line may have the same warning.
                for warning, times in Counter(routed.result.warnings).items():
                    log(f"line {number}: {warning}{f' ({times} times)' if times > 1 else ''}", "warning")
                if routed.note:
                    log(f"line {number}: {routed.note}")
                sink.write(format_result(routed, number - 1, shown, scores, as_json, single_text))
            sink.flush()
    if skipped := sum(budget.skipped for budget in retries.values()):
        log(describe_skipped_retries(skipped), "warning")


def make_router(models: tuple[str, ...], to: str, load: "Callable[[ModelChoice], Translator]", align: bool) -> "Router":
    from headway.translate.routing import Router, find_routes

    router = Router(*find_routes(models, to), load, align, strict=bool(models))
    for warning in router.warnings:
        log(warning, "warning")
    return router


def choose_candidates(mbr: str | None, samples: int | None, search: dict[str, Any]) -> dict[str, Any]:
    """The search that finds the candidates of --mbr: samples, or all of a beam."""
    context = click.get_current_context()
    if not mbr:
        raise click.UsageError(
            "--samples is for --mbr, which chooses one of them. To print samples: --sample.", context
        )
    if samples:
        return {"sample": True, "n_best": samples}
    if search["sample"]:
        raise click.UsageError("--mbr chooses among samples: say how many, --samples 32.", context)
    width = max(search["beam_size"] or DEFAULT_MBR_BEAM, search["n_best"] or 1)
    return {"beam_size": width, "n_best": width}


def read_glossary(path: str | None) -> "Glossary | None":
    if path is None:
        return None
    from headway.text.glossary import Glossary

    return Glossary.load(path)


def read_memory(path: str | None) -> "TranslationMemory | None":
    if path is None:
        return None
    from headway.text.translation_memory import TranslationMemory

    memory = TranslationMemory.load(path)
    log(f"{path}: {len(memory.units):,} units", "detail")
    return memory


@contextmanager
def stop_searches_on_error(loaded: "Callable[[], Sequence[Translator | PivotTranslator]]") -> Iterator[None]:
    """If the output loop ends early, stop the searches that run ahead of it. `loaded`: the translators so far."""
    try:
        yield
    except BaseException:
        for translator in loaded():
            translator.stop()
        raise


def warn_if_unguided(translator: "Translator") -> None:
    from headway.translate.alignment import is_guided

    if not all(is_guided(config) for config in translator.configs):
        message = "this model was not trained to align, so alignments are unreliable. Train with train.alignment=guided"
        log(message, "warning")
