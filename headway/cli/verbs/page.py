"""`headway page`: the page of `headway serve` as a site of files."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import log

if TYPE_CHECKING:
    from headway.inspect.static_site import SiteText
    from headway.storage.registry import ModelChoice
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import Translator


@click.command(
    "page",
    cls=Verb,
    examples=[
        ("headway page --model my-model --static site", "a site with example texts: open site/index.html"),
        (
            'headway page --model my-model --text "A dog runs." --text "The cat sleeps." --static site',
            "with texts of your own",
        ),
        ("headway page --model my-model --model my-lm --texts lesson.txt --static site", "two models, texts of a file"),
    ],
)
@option(
    "--model",
    "-m",
    "models",
    multiple=True,
    metavar="MODEL",
    group="Model",
    help="Model directory or name (see headway models); repeat for several. Default: chosen by --from and --to, "
    "otherwise en-de.",
)
@options.direction
@options.device
@option("--text", "given", multiple=True, metavar="TEXT", group="Text", help="A text to record; repeat for several.")
@option("--texts", metavar="FILE", group="Text", help="Texts to record, one per line.")
@options.beam_size
@option(
    "--static",
    "out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    group="Result",
    help="Directory of the site.",
)
@option("--overwrite", is_flag=True, group="Result", help="Replace the site in --static.")
def page(
    models: tuple[str, ...], source_language: str, to: str, device: str, given: tuple[str, ...], texts: str | None,
    beam_size: int | None, out: Path, overwrite: bool,
) -> None:  # fmt: skip
    """Write the page with recorded texts as a site that needs no server.

    Every model is traced on every text, and the panels show what was recorded. Without --text and --texts, a few
    example texts are taken. The directory can be opened from a disk or copied to any web space. Each text is taken as
    one sentence; a language model continues it."""
    from headway.files.text_files import read_lines
    from headway.inspect.static_site import write_site

    wanted = [*given, *(line.strip() for line in (read_lines(texts) if texts else ()) if line.strip())]
    if texts and not wanted:
        raise click.UsageError(f"--texts {texts} has no text.", click.get_current_context())
    count = write_site(_record(models, wanted, source_language, to, device, beam_size), out, overwrite=overwrite)
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    log(f"wrote a site with {count} recorded texts to {out}, {size / 1e6:.1f} MB")
    log(f"next: open {out / 'index.html'} in a browser, or copy {out} to a web space")


def _record(
    models: Sequence[str], texts: Sequence[str], source: str, target: str, device: str, beam_size: int | None
) -> "Iterator[SiteText]":
    """Every model on these texts, or without any on examples of its language."""
    from headway.cli.verbs.inspect import trace_model
    from headway.inspect.static_site import SiteText
    from headway.serve.names import free_name
    from headway.storage.registry import choose_models
    from headway.translate.translator import load_single

    names: list[str] = []
    for model in models or (None,):
        choice = choose_models([model] if model else [], source, target)
        names.append(free_name(Path(choice.paths[0]).resolve().name, names))
        loaded = load_single(choice.paths[0], device)
        languages = _find_languages(loaded, choice)
        for text in texts or _example_texts(loaded, languages[0], names[-1]):
            traced = trace_model(loaded, text, choice, beam_size)
            for warning in traced.trace.warnings:
                log(warning, "warning")
            log(f"{names[-1]}: {text} → {traced.trace.output}" if traced.trace.output else f"{names[-1]}: {text}")
            yield SiteText(names[-1], traced, *languages)


def _find_languages(loaded: "Translator | LanguageModel", choice: "ModelChoice") -> tuple[str, str]:
    config = loaded.config
    source = choice.source or next(iter(config.source_languages or ()), "")
    return source, choice.target or next(iter(config.target_languages or ()), "")


def _example_texts(loaded: "Translator | LanguageModel", language: str, name: str) -> list[str]:
    from headway.config.objective_kinds import continues_text, reads_pairs
    from headway.errors import HeadwayError
    from headway.inspect.static_site import EXAMPLE_TEXTS, PROMPTS

    objective = loaded.config.train.objective.kind
    if continues_text(objective):
        return PROMPTS
    texts = EXAMPLE_TEXTS.get(re.split("[-_]", language)[0] if reads_pairs(objective) else "en")
    if objective == "match" and texts:
        return ["\n".join(texts[:2])]
    if texts is None:
        raise HeadwayError(f"there are no example texts in {language or 'the language of ' + name}: give --text.")
    return texts
