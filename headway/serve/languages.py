"""Languages as clients name them, and which one a text is in."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from headway.serve.errors import ApiError
from headway.text.language_codes import primary
from headway.text.language_id import detect
from headway.text.line_language import Detector

# What clients call languages, and what they are in their model's words, whichever of the two it uses.
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


class Detected(NamedTuple):
    language: str
    confidence: int  # from 0 to 100: an integer, as some clients can read nothing else


def name_of(code: str) -> str:
    return NAMES.get(code.lower().replace("_", "-")) or NAMES.get(primary(code)) or code


def resolve(given: str, known: Iterable[str]) -> str | None:
    """The code of a model that a client means: pt-BR, pt_br and, where there is no other, pt. None: it has no such."""
    codes = list(known)
    wanted = given.lower().replace("_", "-")
    spelt = {code.lower().replace("_", "-"): code for code in reversed(codes)}
    if wanted in spelt:
        return spelt[wanted]
    for group in ALIASES:
        if wanted in group:
            return next((code for spelling, code in spelt.items() if spelling in group), None)
    return next((code for code in codes if primary(code) == primary(given)), None)


def detected(text: str, known: Collection[str]) -> list[Detected]:
    """Those of the known languages that a text may be in, the likeliest first, at least one. The confidence is of all
    languages that there are: a text in another one gets a small one. Not cheap, the first time above all."""
    if not known:
        raise ApiError(
            400, "Invalid request: this server has no model that translates, and so no languages to tell apart"
        )
    return _among(text, known, Detector(known).name(text))


def heard(text: str, known: Collection[str], target: str) -> Detected:
    """The language of a text that is to be translated, be it known or not; the first of those that are known, with a
    confidence of 0, where there is nothing to tell it by."""
    detector = Detector(known)
    sources = [code for code in known if code != target]
    if sources and detector.languages.isdisjoint(sources):
        told = f'the language "{sources[0]}" cannot be told from others by its text. Send it as source'
        raise ApiError(400, f"Invalid request: {told}")
    name = detector.name(text)
    if name and resolve(name, known) is None:
        return Detected(name, round(100 * dict(detect(text)).get(name, 0.0)))
    return _among(text, known, name)[0]


def untranslated(language: str) -> str:
    """Why a text in a language that nobody translates stays as it is."""
    return f"it seems to be in {name_of(language)} ({language}), which is not translated here, and stays as it is"


def unknown(language: str, what: str) -> ApiError:
    """Of what cannot stay as it is."""
    seems = f"{what} seems to be in {name_of(language)} ({language}), which is not translated here"
    return ApiError(400, f"Invalid request: {seems}. If that is wrong, send its language as source")


def _among(text: str, known: Collection[str], name: str) -> list[Detected]:
    """name: what a detector said, which knows more of short texts than shares tell."""
    shares = dict(detect(text))
    found = [Detected(code, round(100 * shares.get(primary(code), 0.0))) for code in known]
    best = resolve(name, known) if name else None
    found.sort(key=lambda one: (one.language != best, -one.confidence))
    first = Detected(found[0].language, max(one.confidence for one in found)) if found[0].language == best else found[0]
    return [first, *(one for one in found[1:] if one.confidence)]
