"""Say, once for each direction, that lines are translated through another language."""

from typing import TYPE_CHECKING

from headway.cli.terminal import log
from headway.text.language_names import language_name

if TYPE_CHECKING:
    from headway.translate.pivot import PivotTranslator
    from headway.translate.results import RoutedLine
    from headway.translate.translator import Translator


class PivotNotes:
    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()

    def tell_of(self, routed: "RoutedLine") -> None:
        if routed.result.pivot is not None:
            self.tell(routed.translator)

    def tell(self, translator: "Translator | PivotTranslator | None") -> None:
        pivot = getattr(translator, "pivot", "")
        if translator is None or not pivot or (translator.source, translator.target) in self._known:
            return
        self._known.add((translator.source, translator.target))
        log(
            f"translated through {language_name(pivot)}: no model here translates from {translator.source} to "
            f"{translator.target} directly"
        )
