"""`headway evaluate`: how good a model is on text that it has not seen."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.terminal import log, opened, table

if TYPE_CHECKING:
    from headway.decode.types import Compute, EngineName
    from headway.workflows.evaluation import Evaluation


@click.command(
    "evaluate",
    cls=Verb,
    examples=[
        ("headway evaluate --model my-model --source test.en --target test.de", "BLEU and chrF, with their signatures"),
        (
            "headway evaluate --model my-model --source test.en --target test.de --lowercase --tokenize moses",
            "as older papers score",
        ),
        (
            "headway evaluate --model my-model --compare other-model --source test.en --target test.de",
            "two models, and whether their difference is chance",
        ),
        ("headway evaluate --model my-lm --text test.txt", "perplexity of a language model"),
    ],
)
@options.models
@option("--compare", multiple=True, metavar="MODEL", group="Model", help="Another model to compare with.")
@options.direction
@options.device
@options.engines
@option("--source", "-s", metavar="FILE", group="Text", help="Text to translate.")
@option("--target", "-t", metavar="FILE", group="Text", help="Its right translation, line by line.")
@option("--text", metavar="FILE", group="Text", help="Text for a language model.")
@option("--no-split", is_flag=True, group="Text", help="Take each line as one sentence.")
@option("--lowercase", is_flag=True, group="Score", help="Count without regard to case.")
@option(
    "--tokenize", type=click.Choice(["13a", "moses", "none"]), default="13a", group="Score", help="How BLEU cuts words."
)
@option(
    "--examples", "shown", type=click.IntRange(min=0), default=3, group="Score", help="Best and worst lines to show."
)
@option("--output", type=click.Path(path_type=Path), metavar="FILE", group="Score", help="Save the translations.")
@option("--beam-size", "-b", type=int, group="Search", help="Hypotheses followed. Default: the model's.")
@option(
    "--length-penalty", "alpha", type=float, group="Search", help="Above 0 prefers longer output. Default: the model's."
)
@option(
    "--penalty",
    type=click.Choice(["paper", "power", "none"]),
    group="Search",
    help="Its formula. Default: the model's.",
)
@options.shortlist
def evaluate(
    models: tuple[str, ...], compare: tuple[str, ...], source_language: str, to: str, device: str, engine: "EngineName", compute: "Compute",
    threads: int | None, source: str | None, target: str | None,
    text: str | None, shown: int, output: Path | None, no_split: bool, lowercase: bool, tokenize: str, **search: Any,
) -> None:  # fmt: skip
    """Measure a translator on held-out text, or a language model's perplexity."""
    if bool(text) == bool(source or target) or bool(source) != bool(target):
        raise click.UsageError("give --source and --target, or --text.", click.get_current_context())
    if text and not models:
        raise click.UsageError("--text needs a language model: name it with --model.", click.get_current_context())
    if text:
        return perplexity((*models, *compare), text, device)
    assert source and target
    if output and output.resolve() in (Path(source).resolve(), Path(target).resolve()):
        raise click.UsageError("--output is a file that is read: name another.", click.get_current_context())
    if output and not output.parent.is_dir():
        raise click.UsageError(f"--output: there is no folder {output.parent}.", click.get_current_context())
    from headway.files.text_files import read_pairs
    from headway.storage.registry import choose
    from headway.text.metrics import best_and_worst
    from headway.translate.translator import load_translator
    from headway.workflows.evaluation import against
    from headway.workflows.evaluation import evaluate as measure

    pairs = list(read_pairs(source, target))
    sources, targets = [a for a, _ in pairs], [b for _, b in pairs]
    runs: list[tuple[str, Evaluation]] = []
    choices = [choose(models, source_language, to), *(choose([other], source_language, to) for other in compare)]
    for names, choice in zip((models or choices[0].paths, *((other,) for other in compare)), choices):
        tell = lambda told: log(told, "detail")  # noqa: E731
        translator = load_translator(
            choice.paths, device, engine, compute, threads, tell=tell, direction=choice.direction
        )
        if tokenize == "moses" and translator.outline.target_languages:
            tokenize = f"moses:{choice.target or translator.outline.target_languages[0]}"
        runs.append(
            (
                " + ".join(names),
                measure(
                    translator, sources, targets, search=translator.search(**search), to=choice.target, split=not no_split,
                    lowercase=lowercase, tokenize=tokenize,
                ),
            )
        )  # fmt: skip
    first = runs[0][1]
    click.echo(first.scores.bleu_line)
    click.echo(first.scores.chrf_line)
    click.echo(
        f"{len(pairs)} line{'s' * (len(pairs) != 1)} in {first.seconds:.1f} s: {first.sentences_per_second:.1f} lines/s, "
        f"{first.tokens_per_second:.0f} tokens/s; warnings on {first.warnings}"
    )
    if output:
        with opened(str(output)) as sink:
            sink.writelines(f"{line}\n" for line in first.hypotheses)
        log(f"translations are in {output}")
    if compare:
        rows = [(runs[0][0], f"{first.scores.bleu:.2f}", f"{first.scores.chrf:.2f}", "")]
        for name, run in runs[1:]:
            chance = against(first, run, targets, lowercase=lowercase, tokenize=tokenize).p_value
            rows.append((name, f"{run.scores.bleu:.2f}", f"{run.scores.chrf:.2f}", f"{chance:.3f}"))
        table(("model", "BLEU", "chrF", "p (paired bootstrap)"), rows)
    best, worst = best_and_worst(first.hypotheses, targets, shown)
    for title, lines in (("best", best), ("worst", worst)):
        for line in lines:
            click.echo(f"\n{title}: line {line.number}, chrF {line.chrf:.1f}")
            click.echo(f"  source     {sources[line.number - 1]}")
            click.echo(f"  translated {line.hypothesis}")
            click.echo(f"  expected   {line.reference}")


def perplexity(models: tuple[str, ...], text: str, device: str) -> None:
    from headway.errors import HeadwayError
    from headway.files.text_files import read_lines
    from headway.translate.language_model import LanguageModel
    from headway.translate.translator import load

    content = "\n".join(read_lines(text)) + "\n"
    for path in models:
        model = load(path, device)
        if not isinstance(model, LanguageModel):
            raise HeadwayError(f"{path} is a translator: give --source and --target.")
        found = model.perplexity(content)
        name = f"{path}: " if len(models) > 1 else ""
        kind = "tokens" if model.config.train.objective.kind == "causal" else "hidden tokens"
        click.echo(
            f"{name}perplexity {found.perplexity:.3f}, {found.loss:.4f} nats a token, "
            f"{found.bits_per_character:.4f} bits a character ({found.tokens:,} {kind})"
        )
