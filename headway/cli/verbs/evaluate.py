"""`headway evaluate`: BLEU, chrF, other metrics and perplexity on held-out text."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import options
from headway.cli.app import Verb, option
from headway.cli.pair_input import check_pair_files, model_languages, read_given_pairs
from headway.cli.search_progress import show_progress
from headway.cli.terminal import log, open_output, print_table
from headway.text.bleu_tokenization import TOKENIZATIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from headway.decode.types import Compute, EngineName
    from headway.text.metric_scores import MetricScore, MetricSettings
    from headway.translate.language_model import LanguageModel
    from headway.translate.solver import Solver
    from headway.translate.translator import Translator
    from headway.workflows.evaluation import Evaluation

    LoadModel = Callable[[str], Translator | LanguageModel]


@click.command(
    "evaluate",
    cls=Verb,
    examples=[
        ("headway evaluate --model my-model --source test.en --target test.de", "BLEU and chrF, with their signatures"),
        (
            "headway evaluate --model my-model --source test.en --target test.de --lowercase --tokenize moses",
            "scored as in older papers",
        ),
        (
            "headway evaluate --model my-model --compare other-model --source test.en --target test.de",
            "two models, with a significance test",
        ),
        (
            "headway evaluate --model my-model --source test.en --target test.de --metric chrf++,ter,comet",
            "other metrics; COMET needs unbabel-comet",
        ),
        ("headway evaluate --model my-model --pairs test.en-de.tsv", "both sides in one file"),
        ("headway evaluate --model my-model --adapter law --compare my-model --pairs test.en-de.tsv", "what it brings"),
        ("headway evaluate --model my-lm --text test.txt", "perplexity of a language model"),
        ("headway evaluate --model my-classifier --data test.tsv", "accuracy and F1 of a task, with intervals"),
        ("headway evaluate --model my-solver --data test-16.jsonl", "the share of problems that is solved"),
        ("headway evaluate --model my-vit --images test", "the same of pictures, a folder for each label"),
    ],
)
@options.models
@options.adapter
@option("--compare", multiple=True, metavar="MODEL", group="Model", help="Model to compare with; may be repeated.")
@options.index
@options.direction
@options.device
@options.engine_options
@option("--source", "-s", metavar="FILE", group="Text", help="Text to translate.")
@option("--target", "-t", metavar="FILE", group="Text", help="Reference translation, line by line.")
@options.one_pair_file
@options.columns
@option("--text", metavar="FILE", group="Text", help="Text to measure the perplexity of a language model on.")
@option("--data", multiple=True, metavar="FILE", group="Text", help="Labelled text to measure a task on.")
@option(
    "--images",
    multiple=True,
    metavar="PATH",
    group="Text",
    help="Labelled pictures to measure a model of pictures on: a folder with a folder for each label, or a TSV.",
)
@options.no_split
@option(
    "--metric",
    "metrics",
    metavar="NAMES",
    group="Score",
    help="Metrics, with commas: bleu, chrf, chrf++, ter, comet, comet-kiwi. Default: bleu,chrf.",
)
@option(
    "--comet-model",
    default="",
    show_default=False,
    metavar="NAME",
    group="Score",
    help="Another COMET model, by its name on the hub or the path of a checkpoint.",
)
@option("--lowercase", is_flag=True, group="Score", help="Ignore case.")
@option(
    "--tokenize",
    type=click.Choice(TOKENIZATIONS),
    default="auto",
    metavar="NAME",
    group="Score",
    help="Tokenization for BLEU: auto, by the target language; 13a, intl, zh, char, ja-mecab, ko-mecab, none, moses.",
)
@option(
    "--examples",
    "example_count",
    type=click.IntRange(min=0),
    default=3,
    group="Score",
    help="Number of best and worst lines to print.",
)
@option(
    "--out",
    "-o",
    "output",
    aliases=["--output"],
    type=click.Path(path_type=Path),
    metavar="FILE",
    group="Score",
    help="Save the translations.",
)
@options.search_method
@options.beam_size
@options.length_penalty
@options.penalty
@options.shortlist
def evaluate(
    models: tuple[str, ...], adapter: str | None, compare: tuple[str, ...], index: str | None,
    source_language: str, to: str, device: str,
    engine: "EngineName", compute: "Compute", threads: int | None, source: str | None, target: str | None,
    pairs: str | None, columns: tuple[str, str] | None, text: str | None, data: tuple[str, ...],
    images: tuple[str, ...], example_count: int, output: Path | None, no_split: bool, metrics: str | None,
    comet_model: str, lowercase: bool, tokenize: str, **search: Any,
) -> None:  # fmt: skip
    """Evaluate a translator on held-out text, a language model's perplexity, or a task on labelled text."""

    def load_one(path: str) -> "Translator | LanguageModel":
        from headway.translate.translator import load_single

        return load_single(path, device, engine, compute, threads)

    if data or images:
        if text or source or target or pairs or not models or (data and images):
            given = "--data" if data else "--images"
            raise click.UsageError(
                f"{given} measures a task: give --model, and no other text.", click.get_current_context()
            )
        return print_task_scores((*models, *compare), data, images, load_one, example_count, output)
    if bool(text) == bool(source or target or pairs):
        raise click.UsageError("give --source and --target, or --pairs, or --text.", click.get_current_context())
    if text and not models:
        raise click.UsageError("--text needs a language model: give --model.", click.get_current_context())
    if text:
        return print_perplexity((*models, *compare), text, load_one, adapter, index)
    if index:
        raise click.UsageError("--index is for the perplexity of a text: give --text.", click.get_current_context())
    check_pair_files(source, target, pairs, columns, output)
    if output and not output.parent.is_dir():
        raise click.UsageError(f"--out: there is no folder {output.parent}.", click.get_current_context())
    from headway.files.text_files import read_pairs
    from headway.text.metric_scores import MetricSettings, parse_metrics

    names_of_metrics = parse_metrics(metrics) if metrics else []
    if any(name.startswith("comet") for name in names_of_metrics):
        from headway.text.comet import require_comet

        require_comet()
    from headway.storage.registry import choose_models
    from headway.text.bleu_tokenization import choose_tokenization
    from headway.text.metrics import find_best_and_worst
    from headway.translate.options import TranslateOptions
    from headway.translate.retry_budget import describe_skipped_retries
    from headway.translate.translator import load_choice
    from headway.workflows.evaluation import compare_evaluations, target_language
    from headway.workflows.evaluation import evaluate as measure

    runs: list[tuple[str, Evaluation]] = []
    choices = [choose_models(names, source_language, to) for names in (models, *((other,) for other in compare))]
    if source and target:
        lines = list(read_pairs(source, target))
    else:
        languages = model_languages(choices[0].paths[0], choices[0].direction)
        lines = list(read_given_pairs(None, None, pairs, languages, columns))
    sources, targets = [a for a, _ in lines], [b for _, b in lines]
    for names, choice in zip((models or choices[0].paths, *((other,) for other in compare)), choices):
        translator = load_choice(choice, device, engine, compute, threads, lambda message: log(message, "detail"))
        if adapter and choice is choices[0]:
            translator = translator.with_adapter(adapter)
        how = TranslateOptions(
            target=choice.target, split_sentences=not no_split, search=translator.search(**search)
        )  # fmt: skip
        if tokenize == "moses" and translator.summary.target_languages:
            tokenize = f"moses:{choice.target or translator.summary.target_languages[0]}"
        elif tokenize == "auto":
            tokenize = choose_tokenization(target_language(translator, how), targets)
        with show_progress(translator):
            evaluation = measure(translator, sources, targets, how, lowercase=lowercase, tokenize=tokenize)
        if evaluation.skipped_retries:
            log(describe_skipped_retries(evaluation.skipped_retries), "warning")
        runs.append((" + ".join(names), evaluation))
    first = runs[0][1]
    settings = MetricSettings(lowercase, tokenize, comet_model, translator.device)
    tables = [measure_all(names_of_metrics, run, sources, targets, settings) for _, run in runs]
    printed = [score.line for score in tables[0]] or [first.scores.bleu_line, first.scores.chrf_line]
    click.echo("\n".join(printed))
    click.echo(
        f"{len(lines)} line{'s' * (len(lines) != 1)} in {first.seconds:.1f} s: "
        f"{first.sentences_per_second:.1f} lines/s, {first.tokens_per_second:.0f} tokens/s; "
        f"warnings on {first.warnings}"
    )
    if output:
        with open_output(str(output)) as sink:
            sink.writelines(f"{line}\n" for line in first.hypotheses)
        log(f"wrote the translations to {output}")
    if compare and tables[0]:
        print_comparison(runs, tables, targets, settings)
    elif compare:
        rows = [(runs[0][0], f"{first.scores.bleu:.2f}", f"{first.scores.chrf:.2f}", "")]
        for name, run in runs[1:]:
            chance = compare_evaluations(first, run, targets, lowercase=lowercase, tokenize=tokenize).p_value
            rows.append((name, f"{run.scores.bleu:.2f}", f"{run.scores.chrf:.2f}", f"{chance:.3f}"))
        print_table(("model", "BLEU", "chrF", "p (paired bootstrap)"), rows)
    best, worst = find_best_and_worst(first.hypotheses, targets, example_count)
    for title, examples in (("best", best), ("worst", worst)):
        for line in examples:
            click.echo(f"\n{title}: line {line.number}, chrF {line.chrf:.1f}")
            click.echo(f"  source     {sources[line.number - 1]}")
            click.echo(f"  translated {line.hypothesis}")
            click.echo(f"  expected   {line.reference}")


def measure_all(
    metrics: list[str], run: "Evaluation", sources: list[str], targets: list[str], settings: "MetricSettings"
) -> "list[MetricScore]":
    from headway.text.metric_scores import compute_metric

    return [compute_metric(metric, run.hypotheses, targets, sources, settings) for metric in metrics]


def print_comparison(
    runs: "list[tuple[str, Evaluation]]",
    tables: "list[list[MetricScore]]",
    targets: list[str],
    settings: "MetricSettings",
) -> None:
    """Each model with its scores, and how likely its difference from the first is due to chance."""
    from headway.text.metric_scores import TITLES, compare_metric

    header = ["model"]
    for score in tables[0]:
        header += [TITLES[score.metric], f"p ({TITLES[score.metric]})"]
    rows = []
    for (name, run), table in zip(runs, tables):
        row = [name]
        for score, first in zip(table, tables[0]):
            outputs = (runs[0][1].hypotheses, run.hypotheses)
            chance = "" if table is tables[0] else compare_metric(first, score, outputs, targets, settings).p_value
            row += [f"{score.score:.4f}" if score.segments else f"{score.score:.2f}", f"{chance:.3f}" if chance else ""]
        rows.append(tuple(row))
    print_table(tuple(header), rows)


def print_task_scores(
    models: tuple[str, ...], data: tuple[str, ...], images: tuple[str, ...], load: "LoadModel", example_count: int,
    output: Path | None,
) -> None:  # fmt: skip
    """Metrics with their intervals, a table of labels, and examples of what is wrong."""
    from headway.cli.picture_input import read_pictures_to_evaluate
    from headway.data.labelled_files import read_labelled
    from headway.errors import HeadwayError
    from headway.text.task_metrics import BOOTSTRAP_SAMPLES
    from headway.translate.picture_model import PictureModel
    from headway.translate.solver import Solver
    from headway.translate.task_evaluation import describe_errors, evaluate_task
    from headway.translate.task_model import TaskModel

    for path in models:
        model = load(path)
        if isinstance(model, Solver):
            print_problem_scores(model, f"{path}: " if len(models) > 1 else "", data, example_count, output)
            output = None
            continue
        if not isinstance(model, TaskModel):
            raise HeadwayError(f"{path} was not trained for a task: give --source and --target, or --text.")
        if isinstance(model, PictureModel) != bool(images):
            reads, wanted = ("pictures", "--images") if isinstance(model, PictureModel) else ("text", "--data")
            raise HeadwayError(f"{path} reads {reads}: give {wanted}.")
        labelled = read_pictures_to_evaluate(images) if images else read_labelled(data, model.task)
        found = evaluate_task(model, labelled.examples)
        name = f"{path}: " if len(models) > 1 else ""
        for score in found.scores:
            click.echo(f"{name}{score.name} {score.value:.4f} (95 % interval {score.low:.4f} to {score.high:.4f})")
        count = f"{labelled.lines:,} example{'s' * (labelled.lines != 1)}"
        click.echo(f"{name}{count}; {BOOTSTRAP_SAMPLES:,} bootstrap samples")
        if labelled.empty_count:
            log(f"{labelled.empty_count:,} examples without text were left out", "warning")
        table, wrong = describe_errors(model, labelled, found)
        if table:
            print_table(("label", "precision", "recall", "F1", "examples"), table)
        for line in wrong[:example_count]:
            click.echo(line)
        if output and path == models[0]:
            with open_output(str(output)) as sink:
                sink.writelines(f"{one.label or ' '.join(one.tags) or one.score}\n" for one in found.predictions)
            log(f"wrote the predictions to {output}")


def print_problem_scores(
    solver: "Solver", name: str, data: tuple[str, ...], example_count: int, output: Path | None
) -> None:
    """The share of problems that is solved, by kind and size, and examples of what is wrong."""
    from headway.data.labelled_files import read_labelled
    from headway.translate.problem_evaluation import describe_answers, evaluate_problems

    labelled = read_labelled(data, "solve")
    found = evaluate_problems(solver, labelled.examples)
    for score in found.scores:
        click.echo(f"{name}{score.name} {score.value:.4f} (95 % interval {score.low:.4f} to {score.high:.4f})")
    click.echo(f"{name}{labelled.lines:,} problems; 1,000 bootstrap samples")
    table, wrong = describe_answers(labelled.examples, found)
    print_table(("problem", "nodes", "right", "problems"), table)
    for line in wrong[:example_count]:
        click.echo(line)
    if output:
        with open_output(str(output)) as sink:
            sink.writelines(f"{answer.text}\n" for answer in found.answers)
        log(f"wrote the answers to {output}")


def print_perplexity(
    models: tuple[str, ...], text: str, load: "LoadModel", adapter: str | None = None, index: str | None = None
) -> None:
    from headway.config.objective_kinds import TASKS, is_denoising
    from headway.errors import HeadwayError
    from headway.files.text_files import read_lines
    from headway.translate.language_model import LanguageModel
    from headway.workflows.evaluation import measure_denoising

    lines = list(read_lines(text))
    content = "\n".join(lines) + "\n"
    for path in models:
        model = load(path)
        objective = model.config.train.objective.kind
        if not isinstance(model, LanguageModel) and not is_denoising(objective):
            raise HeadwayError(f"{path} is a translator: give --source and --target.")
        if objective in TASKS:
            raise HeadwayError(f"{path} was trained for the task {objective}: give its test data as --data.")
        if adapter and path == models[0]:
            model = model.with_adapter(adapter)
        if index and isinstance(model, LanguageModel):
            model = model.with_index(index)
        if isinstance(model, LanguageModel):
            result = model.perplexity(content)
        else:
            result = measure_denoising(model, lines)
        name = f"{path}: " if len(models) > 1 else ""
        kind = {"causal": "tokens", "permutation": "tokens", "masked": "hidden tokens"}.get(
            objective, "tokens of targets"
        )
        guessed = "" if result.accuracy is None else f", {result.accuracy:.2%} of them guessed"
        click.echo(
            f"{name}perplexity {result.perplexity:.3f}, {result.loss:.4f} nats a token, "
            f"{result.bits_per_character:.4f} bits a character ({result.tokens:,} {kind}{guessed})"
        )
        if result.next_sentence_accuracy is not None:
            click.echo(
                f"{name}next sentence: {result.next_sentence_accuracy:.2%} of {result.pairs:,} pairs right, "
                f"{result.next_sentence_loss:.4f} nats a pair"
            )
