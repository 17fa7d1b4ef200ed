"""DirectionTokens: the control tokens around the texts of one direction.

    what the encoder reads    source_lead, the text, source_tail
    what the decoder reads    start, target_lead, the output …

                 source_lead    source_tail     target_lead
    Headway      ⟨to:de⟩        ⟨/s⟩                           a tag where a model has several target languages
    NLLB         eng_Latn       </s>            deu_Latn
    mBART                       </s> en_XX                     its start token names the target language
    BART         <s>            </s>            <s>
    MADLAD       <2de>          </s>                           whatever the source language is: "-de" in source_prefix

An output begins with target_lead whatever the user demands: a prefix of the user's own comes after it, and neither
hypotheses nor texts contain it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headway.errors import HeadwayError
from headway.text.tokenizer.pair import Tokenizers


@dataclass(frozen=True)
class DirectionTokens:
    source: str = ""  # language; "" where it is not known
    target: str = ""
    source_lead: tuple[int, ...] = ()
    source_tail: tuple[int, ...] = ()  # the end token, and what follows it
    target_lead: tuple[int, ...] = ()

    def wrap_source(self, ids: Iterable[int]) -> list[int]:
        """A source as the model reads it."""
        return [*self.source_lead, *ids, *self.source_tail]

    @property
    def source_count(self) -> int:
        """How many are added to a source."""
        return len(self.source_lead) + len(self.source_tail)


def find_direction_tokens(tokenizers: Tokenizers, source: str, target: str, *, tagged: bool) -> DirectionTokens:
    """Those of a direction. `tagged`: the model has several target languages."""
    reader = tokenizers.source
    writer = tokenizers.target
    directions = (f"{source}-{target}", f"-{target}")
    prefixed = [key.partition("-")[2] for key in reader.source_prefix if "-" in key]
    is_known = target in reader.tags or target in writer.target_prefix
    if tagged and not is_known and reader.source_prefix.keys().isdisjoint(directions):
        known = ", ".join(reader.tags or writer.target_prefix or prefixed) or "none"
        raise HeadwayError(f'this tokenizer has no token for the target language "{target}". It knows: {known}.')
    tag = [reader.tags[target]] if tagged and target in reader.tags else []
    keys = (*directions, source)
    return DirectionTokens(
        source,
        target,
        (*tag, *_look_up(reader.source_prefix, keys)),
        (reader.end, *_look_up(reader.source_suffix, keys)),
        tuple(_look_up(writer.target_prefix, (target,))),
    )


def _look_up(table: Mapping[str, Sequence[int]], keys: Sequence[str]) -> Sequence[int]:
    """The ids of the first of these languages that is there; "" stands for all others."""
    found = next((key for key in (*keys, "") if key in table), None)
    if found is not None:
        return table[found]
    if not table:
        return ()
    language = keys[-1]
    given = f'has no token for the language "{language}"' if language else "must be told the language of the text"
    raise HeadwayError(f"this model {given}: name it with --from and --to. It knows: {', '.join(table)}.")
