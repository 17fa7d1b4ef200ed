"""Negations: whether a translation has lost the "not" of its source, or has one that the source lacks.

Each language with a table has words that negate for certain, idioms with such words that negate nothing, and words that
say a negation in another way. A negation is missed only where the other side has neither of the first and the third."""

import re
from functools import lru_cache
from typing import NamedTuple

from headway.text.language_codes import primary_language

WORD_START, WORD_END = r"(?<![^\W_])", r"(?![^\W_])"  # an underscore is no letter: _Do not split is in a menu


class NegationWords(NamedTuple):
    """Regular expressions of one language, matched in lower case."""

    certain: str
    idioms: str  # removed before `certain` is looked for
    other: str  # how else a language says that something is not so


NEGATIONS = {
    "en": NegationWords(
        certain=(r"not|never|cannot|no(?!-)|no-one|nothing|nobody|nowhere|none|neither|nor|without|\w+n't"),
        idioms=(
            r"(?:not|\w+n't)(?: \w+)?(?: \w+)? (?:only|just|merely|simply|solely|least|until|till|before)"
            r"|not (?:to mention|to say|that)|or not|if not|not long|why (?:don't|doesn't|didn't|not)|(?:not"
            r"|nothing|no)(?=\?)|next to nothing|no (?:doubt|matter|wonder|sooner|less|fewer|more|later|question"
            r"|problem|further ado)|(?:nothing|none|no one|nobody)(?: else)? (?:but|other|less|short|like|if)"
            r"|no other|never mind|no\.? ?\d+|without (?:saying|doubt|delay|fail|exception|question|further ado)"
            r"|pretend\w* not|\w+n't (?:you|we|they|he|she|it|i|there|that|this)(?=[^.]*\?)|(?:can't|cannot"
            r"|couldn't) (?:help|wait|be too)"
        ),
        other=(
            r"un(?!i|der|ter|cle\b|til|it|ion)\w{3,}|(?:im|in|ir|il)(?:possib|capab|suffici|valid|visib|legal"
            r"|regular|releva|complet|correct|adequa|accura|appropri|secur|stab|compreh|conceiv|conclus|consist"
            r"|defin|depend|dispens|effect|effici|escap|evitab|experien|flexib|frequen|human|justic|perfect"
            r"|practic|precis|proper|respons|sensit|signif|toler|vulnerab|action)\w*|dis(?:a|like|belie|conn"
            r"|contin|courag|hones|obe|order|pleas|qualif|regard|respect|satis|similar|trust|used?\b)\w*|mis\w{3,}"
            r"|non-?\w{2,}|\w+less(?:ly|ness)?|\w+-free|hardly|barely|rarely|seldom|scarcely|few|fewer|little|less"
            r"|lack\w*|fail\w*|refus\w*|reject\w*|den(?:y|ied|ies|ying|ial)|avoid\w*|prevent\w*|absen\w+|except\w*"
            r"|exclu\w+|instead|rather|far from|too|only|missing|gone|lost|stop\w*|forb\w+|prohib\w+|neglect\w*"
            r"|ignor\w*|depriv\w*|empty|zero|nope|away|out of|beyond|outside|otherwise|other than|until|ceas\w*"
            r"|declin\w*|abstain\w*|wrong\w*|false\w*|in vain|block\w*|resist\w*|give up|gave up|hard|weak\w*"
            r"|difficult\w*|kept?|keep\w*|hate\w*|barred|yet|off|loath|loss|at most"
        ),
    ),
    "de": NegationWords(
        certain=(
            r"nicht(?!-)|nichts|kein(?:e[rnms]?|erlei|esfalls|eswegs|s)?|nie|niemals|niemand\w*|nirgend\w*|nein"
            r"|ohne|weder|nimmer|mitnichten"
        ),
        idioms=(
            r"nicht (?:nur|bloß|allein|zuletzt|wahr|lediglich|umsonst|ohne|eher|bevor|mehr als|weniger als"
            r"|länger als|später als|anders als|um)|nicht vor (?=\d)|nichts (?:als|anderes als)|(?:nicht"
            r"|nein)(?=\?)|kein anderer als|kein(?:e[rnms]?)? (?:zweifel|frage|problem|wunder|geringer\w*)"
            r"|oder nicht|wenn nicht|um nicht zu sagen|ohne (?:zweifel|weiteres|frage|unterlass|umschweife"
            r"|rücksicht|ausnahme)|gar nicht erwarten|(?:warum|wieso|weshalb) .{0,60}? nicht"
        ),
        other=(
            r"un(?!d\b|s\b|ser|ter|ten|g[ae]r|iv|io)\w{3,}|\w+los(?:e[rnms]?|igkeit)?|\w*frei\w*|kaum|selten\w*"
            r"|wenig\w*|gering\w*|\w*fehl\w*|\w*mang?el\w*|mängel\w*|\w*weiger\w*|\w*hinder\w*|\w*meid\w*"
            r"|verb(?:ie|o|itt|at)t?\w*|untersag\w*|\w*lehn\w*|\w*leugn\w*|bestreit\w*|außer\w*|ausschl\w+"
            r"|ausgeschl\w+|statt|anstatt|erst|nur|sonst|ansonsten|mi(?:ss|ß)\w*|\w*verzicht\w*|\w*versäum\w*"
            r"|entbehr\w*|leer\w*|null|alles andere als|lediglich|bloß|nicht-?\w+|erspar\w*|scheiter\w*|versag\w*"
            r"|unterl(?:a|ie)(?:ss|ß)\w*|aufhör\w*|aufgehör\w*|hör\w* auf|stopp\w*|enthalt\w*|falsch\w*"
            r"|schlecht\w*|schwer\w*|schwierig\w*|vergeb(?:ens|lich)\w*|umsonst|egal|zweifel\w*|nö|nee|nr"
            r"|\w*vermiss\w*|warten|vergess\w*|verpass\w*|ignor\w*|entfern\w*|in(?:stabil|effi|akzept|formell"
            r"|offiziell|direkt|kompet)\w*|ir(?:relev|rational|regul)\w*|illegal\w*"
        ),
    ),
}


class _Patterns(NamedTuple):
    certain: re.Pattern[str]
    idioms: re.Pattern[str]
    other: re.Pattern[str]


@lru_cache(maxsize=16)
def _compile(language: str) -> _Patterns | None:
    words = NEGATIONS.get(primary_language(language)) if language else None
    return _Patterns(*(re.compile(rf"{WORD_START}(?:{pattern}){WORD_END}") for pattern in words)) if words else None


def find_negation_fault(source: str, output: str, source_language: str, target_language: str) -> str:
    """What is wrong with an output: "lost" if only the source has a negation, "added" if only the output has, else "".
    Languages without a table are not checked."""
    own, other = _compile(source_language), _compile(target_language)
    if own is None or other is None:
        return ""
    source, output = (text.lower().replace("’", "'") for text in (source, output))
    negated, output_negated = (
        bool(patterns.certain.search(text)) for patterns, text in ((own, source), (other, output))
    )
    if negated == output_negated:
        return ""
    if negated:
        return "lost" if _is_missing(source, own, output, other) else ""
    return "added" if _is_missing(output, other, source, own) else ""


def _is_missing(text: str, patterns: _Patterns, counterpart: str, other: _Patterns) -> bool:
    """Whether a text has a negation that its counterpart says in no way. One that stands there as it is was no word of
    the language: the value "none", a title."""
    words = set(patterns.certain.findall(patterns.idioms.sub(" ", text)))
    if not words or other.other.search(counterpart):
        return False
    return words.isdisjoint(patterns.certain.findall(counterpart))
