"""The texts of a job: searched for sentence by sentence, and what comes out is what the translator gives."""

from typing import Any

import pytest

import headway
from headway.serve.batch_queue import BatchQueue
from headway.serve.queue_budget import CallSpeed, QueueBudget
from headway.serve.queued_texts import JobOptions, QueuedTexts
from headway.text.glossary import Glossary
from headway.translate.options import TranslateOptions
from headway.translate.search_calls import run_calls
from headway.translate.translator import Translator


@pytest.fixture(scope="module")
def translator() -> Translator:
    """With placeholders, and a tag for each target language."""
    loaded = headway.load(device="cpu", engine="torch")
    assert isinstance(loaded, Translator)
    assert loaded.summary.placeholders and loaded.summary.tags
    return loaded


TEXTS = [
    "The dog sleeps. A small cat sees the old man! Who runs?\n\nA man reads.",
    "",
    "The <b>dog</b> sees %s and 1,250 cats at https://a.example/b. The end.",
    "The dog runs and the cat sleeps and the man reads and the dog runs and the cat sleeps.",
    "   THE DOG SLEEPS.   ",
    "⟦1⟧ x̄ 你好 dog",
]
GLOSSARY = Glossary({"dog": "Hund", "old man": "alter Mann"})


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({}, {}),
        ({"align": True}, {}),
        ({"glossary": GLOSSARY}, {}),
        ({"protect": ("cat",)}, {}),
        ({"protect": None}, {}),
        ({"split_sentences": False}, {}),
        ({"retry": False}, {}),
        ({"glossary": GLOSSARY, "align": True, "protect": ("cats?",)}, {"n_best": 3}),
        ({}, {"n_best": 5}),
        ({}, {"sample": True, "seed": 3, "n_best": 2}),
        ({}, {"beam_size": 1}),
    ],
)
def test_a_queue_gives_what_the_translator_gives(
    translator: Translator,
    options: dict[str, Any],
    changes: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same tokens, links and warnings, though sentences are searched for in other company."""
    monkeypatch.setattr(CallSpeed, "fits_slice", lambda self, kind, cost, max_cost: cost < 300)
    made = TranslateOptions(search=translator.search(**changes), **options)
    queue = BatchQueue(
        lambda texts, job: QueuedTexts(translator, texts, job),
        lambda calls: run_calls(translator, calls),
        QueueBudget(10**6),
        max_delay=0.0,
        threads=2,
    )
    jobs = [TEXTS, TEXTS[::-1], TEXTS[2:3], ["A man runs."]]
    answers = [queue.submit(texts, JobOptions(made, needs_scores=True)) for texts in jobs]
    for texts, answer in zip(jobs, answers):
        for one, other in zip(answer.result(60), translator.translate(texts, made), strict=True):
            assert [guess.text for guess in one.guesses] == [guess.text for guess in other.guesses]
            assert one.warnings == other.warnings
            for guess, expected in zip(one.guesses, other.guesses):
                assert guess.tokens == expected.tokens
                assert guess.alignment == expected.alignment
                assert guess.score == pytest.approx(expected.score, abs=1e-4)
    queue.close(timeout=10)
    assert not any(thread.is_alive() for thread in queue.threads)


def test_costs_count_hypotheses_and_steps(translator: Translator) -> None:
    def cost(text: str, **changes: Any) -> tuple[float, float]:
        options = TranslateOptions(search=translator.search(**changes))
        [*plans] = QueuedTexts(translator, [text], JobOptions(options)).read(0)
        calls = [next(plan) for plan in plans]
        return sum(call.estimate_cost() for call in calls), sum(call.estimate_max_cost() for call in calls)

    one, worst = cost("The dog sleeps.", beam_size=4)
    assert worst > 2 * one, "an output may be much longer than its source"
    assert cost("The dog sleeps. The dog sleeps.", beam_size=4)[0] == pytest.approx(2 * one)
    assert cost("The dog sleeps.", beam_size=8)[0] == 2 * one
    assert cost("The dog sleeps.", n_best=8)[0] == 2 * one
    assert cost("The dog sleeps.", sample=True, n_best=8)[0] == 2 * one
    assert cost("The dog sleeps.", max_length=2)[1] == 2 * 4
