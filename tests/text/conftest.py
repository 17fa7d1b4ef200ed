"""One small tokenizer of each kind, trained once. The text is made here: no file, no download."""

import itertools

import pytest

from headway.text.tokenizer.tokenizer import Tokenizer

WHO = """The dog|A small cat|Der Hund|Eine kleine Katze|Mr. Müller|Nobody|Somebody|Everyone|Die Nachbarin|Unser Lehrer
The old teacher|My neighbour|Ein Vogel|Many birds|Alle Kinder|Some children""".replace("\n", "|").split("|")
DOES = """sees|sieht|doesn't see|eats 12 of|vergisst|sings about|remembers|beschreibt|understands|versteht
measures|misst|translates|übersetzt|paints|zeichnet""".replace("\n", "|").split("|")
WHAT = """the green house.|das grüne Haus!|a café (in 2024)|東京の夜|привет, мир|⟨pad⟩ and <s> </s>|the quiet river
den ruhigen Fluss|yesterday's newspaper|die gestrige Zeitung|everything twice|alles doppelt|wonderful music
wunderbare Musik|an impossible question?|eine unmögliche Frage?""".replace("\n", "|").split("|")
LINES = [" ".join(words) for words in itertools.product(WHO, DOES, WHAT)][::3]


@pytest.fixture(scope="session")
def lines() -> list[str]:
    return LINES


@pytest.fixture(scope="session")
def trained() -> dict[str, Tokenizer]:
    configs = ["bpe(512)", "unigram(512)", "bytes", "characters", "wordpiece(512)"]
    made = [Tokenizer.train(LINES, config, tags=["de", "fr"]) for config in configs]
    return {tokenizer.kind: tokenizer for tokenizer in made}
