"""`headway translate --file`: a document in, a document out."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.options import AUTO
from headway.cli.terminal import log
from headway.errors import HeadwayError
from headway.storage.registry import Choice, choose

if TYPE_CHECKING:
    from headway.translate.translator import Translator

FOR_LINES = ("input_file", "prefix", "n_best", "align", "scores", "as_json")  # what makes sense line by line only


def refuse(given: dict[str, Any], file: str, output: str | None) -> None:
    """What a document cannot be asked for, before a model is loaded."""
    from headway.documents import KNOWN, type_of

    context = click.get_current_context()
    names = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    if given["text"]:
        raise click.UsageError("text and --file were both given: choose one.", context)
    for name in FOR_LINES:
        if given[name]:
            raise click.UsageError(f"{names[name]} is for lines of text, not for --file.", context)
    kind = type_of(file)
    if output and Path(file).resolve() == Path(output).resolve():
        raise click.UsageError("--output is the file of --file: name another.", context)
    if output and KNOWN.get(Path(output).suffix.lower()) != KNOWN[kind]:
        raise click.UsageError(f"--output: {output} must end in {kind}, as {file} does.", context)


def choice_for(file: str, models: tuple[str, ...], source: str, to: str) -> Choice:
    """What translates a document; by the language of its text, if that is to be told by it."""
    if source != AUTO:
        return choose(models, source, to)
    from headway.documents import beginning
    from headway.text.line_language import Detector
    from headway.translate.routing import routes

    found, target = routes(models, to)
    language = Detector([*found, target]).name(beginning(file))
    if language in found:
        log(f"{file} is in {language}")
        return found[language]
    if not language:
        raise HeadwayError(f"{file} has no text to tell its language by. Name it: --from.")
    told = f"is in {target} already" if language == target else f'seems to be in "{language}"'
    raise HeadwayError(
        f"{file} {told}, and what is there translates from {', '.join(found)} to {target}. If that is wrong, name its "
        "language: --from."
    )


def translate_document(
    translator: "Translator", search: dict[str, Any], file: str, output: str | None, more: dict[str, Any]
) -> None:
    """more: what Translator.translate takes beside a search."""
    from headway.documents import through, translate_file

    out = output or beside(file, translator.target or next(iter(translator.outline.target_languages), ""))
    counts = translate_file(file, out, through(translator, translator.search(**search), **more))
    for warning in counts.warnings:
        log(warning, "warning")
    log(f"{out}: {counts.translated:,} of {counts.segments:,} segments translated")


def beside(file: str, language: str) -> str:
    """report.de.docx for report.docx. What is there already is left alone."""
    path = Path(file)
    out = path.with_name(f"{path.stem}.{language or 'translated'}{path.suffix}")
    if out.exists():
        raise HeadwayError(f"{out} is there already. Remove it, or name another file with --output.")
    return str(out)
