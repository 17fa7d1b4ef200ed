"""`headway translate --document`: choose a model and translate a document."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.options import AUTO_DETECT
from headway.cli.pivot_note import PivotNotes
from headway.cli.search_progress import show_progress
from headway.cli.terminal import log
from headway.errors import HeadwayError
from headway.storage.pivots import Route, choose_route

if TYPE_CHECKING:
    from headway.translate.options import TranslateOptions
    from headway.translate.pivot import PivotTranslator
    from headway.translate.translator import Translator

LINE_ONLY_OPTIONS = ("input_file", "prefix", "n_best", "align", "scores", "as_json")  # not for documents


def check_document_options(given: dict[str, Any], file: str, output: str | None) -> None:
    """Refuse options that are not for documents, before a model is loaded."""
    from headway.documents import FORMAT_MODULES, output_suffix

    context = click.get_current_context()
    names = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    if given["text"]:
        raise click.UsageError("text and --document were both given: choose one.", context)
    for name in LINE_ONLY_OPTIONS:
        if given[name]:
            raise click.UsageError(f"{names[name]} is for lines of text, not for --document.", context)
    suffix = output_suffix(file)
    if output and Path(file).resolve() == Path(output).resolve():
        raise click.UsageError("--out is the input document: choose another file.", context)
    if output and FORMAT_MODULES.get(Path(output).suffix.lower()) != FORMAT_MODULES[suffix]:
        raise click.UsageError(f"--out: {output} must end in {suffix}, as a translation of {file} does.", context)


def choose_document_route(file: str, models: tuple[str, ...], source: str, to: str) -> Route:
    """The model for a document, or two in a row; with --from auto, by the language detected in its text."""
    if source != AUTO_DETECT:
        return choose_route(models, source, to)
    from headway.documents import sample_text
    from headway.text.line_language import LineLanguageDetector
    from headway.translate.routing import find_routes

    routes, target = find_routes(models, to)
    language = LineLanguageDetector([*routes, target], target).detect(sample_text(file))
    if language in routes:
        log(f"{file} is in {language}")
        return routes[language]
    if not language:
        raise HeadwayError(f"{file} has no text to detect its language by. Name it with --from.")
    problem = f"is in {target} already" if language == target else f'seems to be in "{language}"'
    raise HeadwayError(
        f"{file} {problem}; the available models translate from {', '.join(routes)} to {target}. If the language is "
        "wrong, name it with --from."
    )


def translate_document(
    translator: "Translator | PivotTranslator", options: "TranslateOptions", file: str, output: str | None
) -> None:
    """Translate the document and write it to `output`, by default beside the original."""
    from headway.documents import segment_translator, translate_file
    from headway.translate.pivot import PivotTranslator

    legs = translator.legs if isinstance(translator, PivotTranslator) else (translator,)
    language = options.target or translator.target or next(iter(legs[-1].summary.target_languages), "")
    out = output or default_output_path(file, language)
    PivotNotes().tell(translator)
    with show_progress(*legs):
        counts = translate_file(file, out, segment_translator(translator, options), language=language)
    for warning in counts.warnings:
        log(warning, "warning")
    log(f"{out}: {counts.translated:,} of {counts.segments:,} segments translated")


def default_output_path(file: str, language: str) -> str:
    """report.de.docx for report.docx; an existing file is not replaced."""
    from headway.documents import output_suffix

    path = Path(file)
    suffix = path.suffix if path.suffix.lower() == output_suffix(file) else output_suffix(file)
    out = path.with_name(f"{path.stem}.{language or 'translated'}{suffix}")
    if out.exists():
        raise HeadwayError(f"{out} exists already. Remove it, or give another file with --out.")
    return str(out)
