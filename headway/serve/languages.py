"""Language codes and names as clients use them, and language detection."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from headway.serve.errors import ApiError
from headway.text.language_codes import primary_language
from headway.text.language_id import guess_languages
from headway.text.language_names import language_name
from headway.text.line_language import LineLanguageDetector

# Codes for the same language: clients may use one of a set and a model another.
ALIASES = [
    {"zh", "zh-hans", "zh-cn", "zh-sg", "cmn"},
    {"zh-hant", "zh-tw", "zh-hk", "zt"},
    {"pt-br", "pb"},
    {"no", "nb"},
    {"he", "iw"},
    {"id", "in"},
    {"tl", "fil"},
]


class DetectedLanguage(NamedTuple):
    language: str
    confidence: int  # from 0 to 100: an integer, because some clients can read nothing else


def resolve_code(given: str, known: Iterable[str]) -> str | None:
    """The known code that a client means: pt-BR by pt_br and, where there is no other, by pt. None: there is none."""
    codes = list(known)
    wanted = given.lower().replace("_", "-")
    by_spelling = {code.lower().replace("_", "-"): code for code in reversed(codes)}
    if wanted in by_spelling:
        return by_spelling[wanted]
    for group in ALIASES:
        if wanted in group:
            return next((code for spelling, code in by_spelling.items() if spelling in group), None)
    return next((code for code in codes if primary_language(code) == primary_language(given)), None)


def detect_languages(texts: Sequence[str], known: Collection[str]) -> list[DetectedLanguage]:
    """Those of the known languages that the texts may be in, the likeliest first, at least one. The confidence is among
    all languages, known or not, so it is low for a text in another language; that of several texts is the average, in
    the order of how much text it speaks of. Slow on its first call."""
    if not known:
        raise ApiError(400, "Invalid request: this server has no translation model, so it knows no languages to detect")
    detector = LineLanguageDetector(known)
    confidences: dict[str, list[int]] = {}
    weights: Counter[str] = Counter()
    for text in texts:
        for language, confidence in _rank_languages(text, known, detector):
            confidences.setdefault(language, []).append(confidence)
            weights[language] += confidence * len(text)
    averages = [DetectedLanguage(code, round(sum(all_of) / len(all_of))) for code, all_of in confidences.items()]
    return averages if len(texts) == 1 else sorted(averages, key=lambda one: -weights[one.language])


def detect_source(text: str, known: Collection[str], target: str) -> DetectedLanguage:
    """The language of a text to translate, known or not; the first known one, with a confidence of 0, for a text
    without letters to detect it by."""
    detector = LineLanguageDetector(known, target)
    sources = [code for code in known if code != target]
    if sources and detector.languages.isdisjoint(sources):
        raise ApiError(
            400,
            f'Invalid request: the language "{sources[0]}" cannot be detected from its text. Send it as source',
        )
    name = detector.detect(text)
    if name and resolve_code(name, known) is None:
        return DetectedLanguage(name, round(100 * dict(guess_languages(text)).get(name, 0.0)))
    return _rank_languages(text, known, detector)[0]


def untranslated_warning(language: str) -> str:
    """For a text in a language that no model translates, which is returned unchanged."""
    return f"it seems to be in {language_name(language)} ({language}), which is not translated here, and stays as it is"


def unsupported_language(language: str, what: str) -> ApiError:
    """For a file or a stream in a language that no model translates."""
    seems = f"{what} seems to be in {language_name(language)} ({language}), which is not translated here"
    return ApiError(400, f"Invalid request: {seems}. If that is wrong, send its language as source")


def _rank_languages(text: str, known: Collection[str], detector: LineLanguageDetector) -> list[DetectedLanguage]:
    """The detector's answer comes first: it knows more than the probabilities alone."""
    short = detector.short_probabilities(text)
    probabilities = short or dict(guess_languages(text))
    found = [
        DetectedLanguage(code, round(100 * probabilities.get(code if short else primary_language(code), 0.0)))
        for code in known
    ]
    name = detector.detect(text)
    best = resolve_code(name, known) if name else None
    found.sort(key=lambda one: (one.language != best, -one.confidence))
    first = found[0]
    if first.language == best and not short:
        first = DetectedLanguage(first.language, max(one.confidence for one in found))
    return [first, *(one for one in found[1:] if one.confidence)]
