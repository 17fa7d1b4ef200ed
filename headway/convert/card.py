"""The card of an imported model: where it comes from, under which licence, and what it has lost."""

from collections.abc import Sequence
from pathlib import Path

from headway import __version__
from headway.convert.architecture import Architecture
from headway.convert.options import ImportOptions
from headway.storage.card import format_front_matter, read_card

TITLES = {
    "translation": "A translator", "causal": "A language model", "permutation": "A permutation language model",
    "masked": "A masked language model", "classify": "A classifier of texts", "tag": "A tagger of words",
    "match": "A classifier of pairs of texts", "embed": "An encoder of texts",
    "classify pictures": "A classifier of pictures", "embed pictures": "An encoder of pictures",
}  # fmt: skip


def format_import_card(
    architecture: Architecture, source: Path, options: ImportOptions, languages: Sequence[str] = ()
) -> str:
    """The text of README.md. The licence is the one in the front matter of the original's README.md."""
    licence = read_card(source if source.is_dir() else source.parent).licence
    head = format_front_matter([*dict.fromkeys(languages)], {}, licence, options.origin)
    rows = [
        ("imported from", options.origin or str(source.absolute())),
        ("family", architecture.family),
        ("licence", licence or "not known: see where the model comes from"),
        ("imported by", f"Headway {__version__}"),
    ]
    table = "\n".join(f"| {name} | {' '.join(value.split())} |" for name, value in rows)
    lost = "".join(f"\n- {what}" for what in architecture.lost)
    text = f"{head}# {TITLES[architecture.use]} of the family {architecture.family}\n\n| | |\n|---|---|\n{table}\n"
    return text + (f"\nIt does not have:\n{lost}\n" if lost else "")
