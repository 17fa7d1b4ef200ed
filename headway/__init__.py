"""Headway: train, run and inspect Transformers. Two text files in, a translator out.

    load("en-de")            -> Translator or LanguageModel     translator("text", target="de") -> str
    load("de-zh")            -> PivotTranslator, where two installed models in a row have it
    load_translator(a, b)    -> Translator, of several models   translator.translate(lines, TranslateOptions(…))
    train(pairs, out=…)      -> TrainingResult                  result.translator
    presets.base(…)          -> Config                          Tokenizer, Glossary, Search: their parts

`__all__` is the public API: see docs/python.md. Names are imported when they are first used, so that `import headway`
imports no torch.

Packages, each of which imports only from those to its right:
cli → serve → compare → contracts → workflows → answering → documents → train → inspect → convert → translate → decode →
storage → nn → retrieval → data → text → config → files
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import headway.config.presets as presets
    from headway.config.config import Config as Config
    from headway.config.search import Search as Search
    from headway.data.rows import Corpus as Corpus
    from headway.errors import ConfigError as ConfigError
    from headway.errors import HeadwayError as HeadwayError
    from headway.text.glossary import Glossary as Glossary
    from headway.text.tokenizer.tokenizer import Tokenizer as Tokenizer
    from headway.train.result import TrainingResult as TrainingResult
    from headway.train.training import train as train
    from headway.translate.language_model import LanguageModel as LanguageModel
    from headway.translate.options import TranslateOptions as TranslateOptions
    from headway.translate.pivot import PivotTranslator as PivotTranslator
    from headway.translate.results import Guess as Guess
    from headway.translate.results import Translation as Translation
    from headway.translate.translator import Translator as Translator
    from headway.translate.translator import load as load
    from headway.translate.translator import load_translator as load_translator

__version__ = "0.1.0"

_HOMES = {
    "Config": "headway.config.config:Config",
    "ConfigError": "headway.errors:ConfigError",
    "Corpus": "headway.data.rows:Corpus",
    "Glossary": "headway.text.glossary:Glossary",
    "Guess": "headway.translate.results:Guess",
    "HeadwayError": "headway.errors:HeadwayError",
    "LanguageModel": "headway.translate.language_model:LanguageModel",
    "PivotTranslator": "headway.translate.pivot:PivotTranslator",
    "Search": "headway.config.search:Search",
    "Tokenizer": "headway.text.tokenizer.tokenizer:Tokenizer",
    "TrainingResult": "headway.train.result:TrainingResult",
    "TranslateOptions": "headway.translate.options:TranslateOptions",
    "Translation": "headway.translate.results:Translation",
    "Translator": "headway.translate.translator:Translator",
    "load": "headway.translate.translator:load",
    "load_translator": "headway.translate.translator:load_translator",
    "presets": "headway.config.presets",
    "train": "headway.train",
}

__all__ = [
    "Config",
    "ConfigError",
    "Corpus",
    "Glossary",
    "Guess",
    "HeadwayError",
    "LanguageModel",
    "PivotTranslator",
    "Search",
    "Tokenizer",
    "TrainingResult",
    "TranslateOptions",
    "Translation",
    "Translator",
    "__version__",
    "load",
    "load_translator",
    "presets",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headway' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    value: Any = import_module(module)
    if attribute:
        value = getattr(value, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
