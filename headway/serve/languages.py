"""Language codes and names as clients use them, and language detection."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from headway.serve.errors import ApiError
from headway.text.language_codes import primary_language
from headway.text.language_id import guess_languages
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
NAMES = {
    "af": "Afrikaans", "am": "Amharic", "ar": "Arabic", "as": "Assamese", "az": "Azerbaijani", "be": "Belarusian",
    "bg": "Bulgarian", "bn": "Bengali", "br": "Breton", "bs": "Bosnian", "ca": "Catalan", "cs": "Czech", "cy": "Welsh",
    "da": "Danish", "de": "German", "dz": "Dzongkha", "el": "Greek", "en": "English", "eo": "Esperanto",
    "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fo": "Faroese",
    "fr": "French", "fy": "Western Frisian", "ga": "Irish", "gd": "Scottish Gaelic", "gl": "Galician", "gu": "Gujarati",
    "ha": "Hausa", "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "ht": "Haitian Creole", "hu": "Hungarian",
    "hy": "Armenian", "ia": "Interlingua", "id": "Indonesian", "ig": "Igbo", "is": "Icelandic", "it": "Italian",
    "ja": "Japanese", "jv": "Javanese", "ka": "Georgian", "kab": "Kabyle", "kk": "Kazakh", "km": "Khmer",
    "kn": "Kannada", "ko": "Korean", "ku": "Kurdish", "ky": "Kyrgyz", "la": "Latin", "lb": "Luxembourgish",
    "ln": "Lingala", "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian", "mg": "Malagasy", "mi": "Maori",
    "mk": "Macedonian", "ml": "Malayalam", "mn": "Mongolian", "mr": "Marathi", "ms": "Malay", "mt": "Maltese",
    "my": "Burmese", "nb": "Norwegian Bokmål", "ne": "Nepali", "nl": "Dutch", "nn": "Norwegian Nynorsk",
    "no": "Norwegian", "oc": "Occitan", "or": "Odia", "pa": "Punjabi", "pl": "Polish", "ps": "Pashto",
    "pt": "Portuguese", "pt-br": "Portuguese (Brazil)", "qu": "Quechua", "ro": "Romanian", "ru": "Russian",
    "rw": "Kinyarwanda", "se": "Northern Sami", "sd": "Sindhi", "si": "Sinhala", "sk": "Slovak", "sl": "Slovenian",
    "so": "Somali", "sq": "Albanian", "sr": "Serbian", "su": "Sundanese", "sv": "Swedish", "sw": "Swahili",
    "ta": "Tamil", "te": "Telugu", "tg": "Tajik", "th": "Thai", "tk": "Turkmen", "tl": "Tagalog", "tr": "Turkish",
    "tt": "Tatar", "ug": "Uyghur", "uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese", "vo": "Volapük",
    "wa": "Walloon", "xh": "Xhosa", "yi": "Yiddish", "yo": "Yoruba", "zh": "Chinese", "zh-hans": "Chinese (simplified)",
    "zh-hant": "Chinese (traditional)", "zu": "Zulu",
}  # fmt: skip


class DetectedLanguage(NamedTuple):
    language: str
    confidence: int  # from 0 to 100: an integer, because some clients can read nothing else


def language_name(code: str) -> str:
    return NAMES.get(code.lower().replace("_", "-")) or NAMES.get(primary_language(code)) or code


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


def detect_languages(text: str, known: Collection[str]) -> list[DetectedLanguage]:
    """Those of the known languages that a text may be in, the likeliest first, at least one. The confidence is among
    all languages, known or not, so it is low for a text in another language. Slow on its first call."""
    if not known:
        raise ApiError(400, "Invalid request: this server has no translation model, so it knows no languages to detect")
    return _rank_languages(text, known, LineLanguageDetector(known).detect(text))


def detect_source(text: str, known: Collection[str], target: str) -> DetectedLanguage:
    """The language of a text to translate, known or not; the first known one, with a confidence of 0, for a text
    without letters to detect it by."""
    detector = LineLanguageDetector(known)
    sources = [code for code in known if code != target]
    if sources and detector.languages.isdisjoint(sources):
        raise ApiError(
            400,
            f'Invalid request: the language "{sources[0]}" cannot be detected from its text. Send it as source',
        )
    name = detector.detect(text)
    if name and resolve_code(name, known) is None:
        return DetectedLanguage(name, round(100 * dict(guess_languages(text)).get(name, 0.0)))
    return _rank_languages(text, known, name)[0]


def untranslated_warning(language: str) -> str:
    """For a text in a language that no model translates, which is returned unchanged."""
    return f"it seems to be in {language_name(language)} ({language}), which is not translated here, and stays as it is"


def unsupported_language(language: str, what: str) -> ApiError:
    """For a file or a stream in a language that no model translates."""
    seems = f"{what} seems to be in {language_name(language)} ({language}), which is not translated here"
    return ApiError(400, f"Invalid request: {seems}. If that is wrong, send its language as source")


def _rank_languages(text: str, known: Collection[str], name: str) -> list[DetectedLanguage]:
    """name: the detector's answer, which comes first: for short texts it is better than the probabilities alone."""
    probabilities = dict(guess_languages(text))
    found = [DetectedLanguage(code, round(100 * probabilities.get(primary_language(code), 0.0))) for code in known]
    best = resolve_code(name, known) if name else None
    found.sort(key=lambda one: (one.language != best, -one.confidence))
    first = found[0]
    if first.language == best:
        first = DetectedLanguage(first.language, max(one.confidence for one in found))
    return [first, *(one for one in found[1:] if one.confidence)]
