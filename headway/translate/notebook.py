"""What a notebook shows of a translator: a table of what it is. Nothing is loaded for it."""

from typing import TYPE_CHECKING

from headway.files.notebook_html import render_table
from headway.text.language_codes import describe_languages
from headway.translate.reloading import describe_paths

if TYPE_CHECKING:
    from headway.translate.translator import Translator


def render_translator(translator: "Translator") -> str:
    summary, settings = translator.summary, translator.engines.load_settings
    search, tokenizers = summary.search, translator.tokenizers
    rows = [
        ("model", "in memory" if settings is None else describe_paths(settings.paths)),
        ("languages", describe_languages(summary.source_languages, summary.target_languages) or "unknown"),
        ("engine", translator.engines.describe()),
        ("vocabulary", f"{tokenizers.source.size:,} → {tokenizers.target.size:,} tokens"),
        ("search", f"beam {search.beam_size}, length penalty {search.alpha:g} ({search.penalty})"),
    ]
    return render_table((), rows, "Headway translator")
