"""How text is cut into tokens for BLEU: at spaces and punctuation, or as languages need it that are written without
spaces. sacreBLEU has the tokenizers; those of Japanese and Korean need mecab, without which characters are counted."""

from collections.abc import Sequence
from importlib.util import find_spec

from headway.errors import HeadwayError
from headway.text.language_codes import primary_language
from headway.text.scripts import count_scripts

SACREBLEU_TOKENIZATIONS = ("13a", "intl", "zh", "char", "ja-mecab", "ko-mecab", "none")
TOKENIZATIONS = ("auto", *SACREBLEU_TOKENIZATIONS, "moses")
MECAB_MODULES = {"ja-mecab": "MeCab", "ko-mecab": "mecab_ko"}
OF_LANGUAGES = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab", **dict.fromkeys(("th", "lo", "km", "my", "bo"), "char")}
OF_SCRIPTS = {
    "Han": "zh",
    "Hangul": "ko-mecab",
    **dict.fromkeys(("Hiragana", "Katakana"), "ja-mecab"),
    **dict.fromkeys(("Thai", "Lao", "Khmer", "Myanmar", "Tibetan"), "char"),
}
MIN_KANA_SHARE = 0.1  # of the letters: Japanese, which has Chinese characters, too
LOOKED_AT_LINES = 200  # of a text whose language nobody has said


def choose_tokenization(language: str, references: Sequence[str] = ()) -> str:
    """That of a language, or of a text by its script; characters where mecab is missing."""
    chosen = OF_LANGUAGES.get(primary_language(language), "") or _choose_by_script(references)
    return "char" if chosen in MECAB_MODULES and find_spec(MECAB_MODULES[chosen]) is None else chosen


def _choose_by_script(lines: Sequence[str]) -> str:
    counts = count_scripts("".join(lines[:LOOKED_AT_LINES]))
    if not counts:
        return "13a"
    kana = counts.get("Hiragana", 0) + counts.get("Katakana", 0)
    if kana > MIN_KANA_SHARE * sum(counts.values()):
        return OF_SCRIPTS["Hiragana"]
    return OF_SCRIPTS.get(max(counts, key=lambda script: counts[script]), "13a")


def check_tokenization(tokenize: str) -> None:
    """Raise if sacreBLEU lacks it, or what it needs."""
    if tokenize not in SACREBLEU_TOKENIZATIONS and tokenize.partition(":")[0] != "moses":
        known = ", ".join(f'"{name}"' for name in TOKENIZATIONS)
        raise HeadwayError(f'tokenize is "{tokenize}": it can be {known} or, say, "moses:de".')
    module = MECAB_MODULES.get(tokenize)
    if module and find_spec(module) is None:
        extra = tokenize.partition("-")[0]
        raise HeadwayError(
            f'tokenize "{tokenize}" needs {module}: pip install "sacrebleu[{extra}]", or count characters with "char".'
        )
