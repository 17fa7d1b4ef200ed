"""The names of languages in English, and those that people write over the columns of a table."""

from functools import cache

from headway.text.language_codes import CANONICAL_CODES, primary_language

LANGUAGE_NAMES = {
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

NATIVE_NAMES = {
    "deutsch": "de", "français": "fr", "francais": "fr", "español": "es", "espanol": "es", "italiano": "it",
    "português": "pt", "portugues": "pt", "nederlands": "nl", "polski": "pl", "svenska": "sv", "dansk": "da",
    "suomi": "fi", "čeština": "cs", "magyar": "hu", "română": "ro", "türkçe": "tr", "русский": "ru",
    "українська": "uk", "ελληνικά": "el", "中文": "zh", "日本語": "ja", "한국어": "ko", "العربية": "ar",
}  # fmt: skip
THREE_LETTER_CODES = {
    "eng": "en", "deu": "de", "ger": "de", "fra": "fr", "fre": "fr", "spa": "es", "ita": "it", "por": "pt", "nld": "nl",
    "dut": "nl", "pol": "pl", "ces": "cs", "cze": "cs", "rus": "ru", "ukr": "uk", "swe": "sv", "dan": "da", "fin": "fi",
    "nor": "no", "hun": "hu", "ron": "ro", "rum": "ro", "tur": "tr", "ell": "el", "jpn": "ja", "zho": "zh", "chi": "zh",
    "kor": "ko", "ara": "ar", "heb": "he", "hin": "hi", "vie": "vi", "tha": "th", "ind": "id",
}  # fmt: skip


def language_name(code: str) -> str:
    """In English; the code itself where it has no name here."""
    return LANGUAGE_NAMES.get(code.lower().replace("_", "-")) or LANGUAGE_NAMES.get(primary_language(code)) or code


def language_from_name(name: str) -> str:
    """The code that a name or code stands for: "English", "en_GB" and "eng" are en; "" if it stands for none."""
    name = name.strip().casefold()
    if name.replace("_", "-") in LANGUAGE_NAMES:
        return name.replace("_", "-")
    first = name.replace("_", "-").partition("-")[0]
    primary = CANONICAL_CODES.get(first, first)  # of three letters only those below: tel is also a telephone
    return _codes_by_name().get(name, "") or (primary if primary in LANGUAGE_NAMES else "")


@cache
def _codes_by_name() -> dict[str, str]:
    return {**{name.casefold(): code for code, name in LANGUAGE_NAMES.items()}, **NATIVE_NAMES, **THREE_LETTER_CODES}
