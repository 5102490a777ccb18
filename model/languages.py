"""Languages: codes, English names, the spacing between sentences, and the punctuation that ends them.

Any code may be served; one without a name here is shown as its code. Babel (33 MB) and langcodes (23 MB with its data,
and a second to load) have the same names but for four.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

AUTO = "auto"
"""The code of a source language that is to be detected."""
SEVERAL = "mul"
"""The code of several languages (ISO 639-2)."""
_CODE = re.compile(r"([A-Za-z]{2,8}|[xXiI](?=[-_]))([-_][A-Za-z0-9]{1,8})*")
"""The form of BCP 47 tags (RFC 5646, section 2.1); also accepts "_" for "-"."""

NAMES = {
    "af": "Afrikaans",
    "am": "Amharic",
    "ar": "Arabic",
    "az": "Azerbaijani",
    "be": "Belarusian",
    "bg": "Bulgarian",
    "bn": "Bengali",
    "br": "Breton",
    "bs": "Bosnian",
    "ca": "Catalan",
    "cs": "Czech",
    "cy": "Welsh",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "eo": "Esperanto",
    "es": "Spanish",
    "et": "Estonian",
    "eu": "Basque",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "ga": "Irish",
    "gl": "Galician",
    "gu": "Gujarati",
    "ha": "Hausa",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hu": "Hungarian",
    "hy": "Armenian",
    "id": "Indonesian",
    "is": "Icelandic",
    "it": "Italian",
    "ja": "Japanese",
    "ka": "Georgian",
    "kab": "Kabyle",
    "kk": "Kazakh",
    "km": "Khmer",
    "kn": "Kannada",
    "ko": "Korean",
    "ky": "Kyrgyz",
    "la": "Latin",
    "lo": "Lao",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "mk": "Macedonian",
    "ml": "Malayalam",
    "mn": "Mongolian",
    "mr": "Marathi",
    "ms": "Malay",
    "mt": "Maltese",
    "my": "Burmese",
    "nb": "Norwegian Bokmål",
    "ne": "Nepali",
    "nl": "Dutch",
    "nn": "Norwegian Nynorsk",
    "no": "Norwegian",
    "oc": "Occitan",
    "pa": "Punjabi",
    "pl": "Polish",
    "ps": "Pashto",
    "pt": "Portuguese",
    "pt-BR": "Portuguese (Brazil)",
    "ro": "Romanian",
    "ru": "Russian",
    "si": "Sinhala",
    "sk": "Slovak",
    "sl": "Slovenian",
    "so": "Somali",
    "sq": "Albanian",
    "sr": "Serbian",
    "sv": "Swedish",
    "sw": "Swahili",
    "ta": "Tamil",
    "te": "Telugu",
    "tg": "Tajik",
    "th": "Thai",
    "tk": "Turkmen",
    "tl": "Tagalog",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "ur": "Urdu",
    "uz": "Uzbek",
    "vi": "Vietnamese",
    "xh": "Xhosa",
    "yi": "Yiddish",
    "yo": "Yoruba",
    "yue": "Cantonese",
    "zh": "Chinese",
    "zh-Hans": "Chinese (simplified)",
    "zh-Hant": "Chinese (traditional)",
    "zu": "Zulu",
}

TWO_LETTERS = {
    "afr": "af", "aka": "ak", "alb": "sq", "als": "sq", "amh": "am", "ara": "ar", "arb": "ar", "arm": "hy", "asm": "as",
    "ayr": "ay", "aze": "az", "azj": "az", "bak": "ba", "bam": "bm", "baq": "eu", "bel": "be", "ben": "bn", "bod": "bo",
    "bos": "bs", "bre": "br", "bul": "bg", "bur": "my", "cat": "ca", "ces": "cs", "chi": "zh", "cmn": "zh", "cym": "cy",
    "cze": "cs", "dan": "da", "deu": "de", "dut": "nl", "dzo": "dz", "ekk": "et", "ell": "el", "eng": "en", "epo": "eo",
    "est": "et", "eus": "eu", "ewe": "ee", "fao": "fo", "fas": "fa", "fij": "fj", "fil": "tl", "fin": "fi", "fra": "fr",
    "fre": "fr", "gaz": "om", "geo": "ka", "ger": "de", "gla": "gd", "gle": "ga", "glg": "gl", "gre": "el", "grn": "gn",
    "guj": "gu", "hat": "ht", "hau": "ha", "heb": "he", "hin": "hi", "hrv": "hr", "hun": "hu", "hye": "hy", "ibo": "ig",
    "ice": "is", "ind": "id", "isl": "is", "ita": "it", "jav": "jv", "jpn": "ja", "kan": "kn", "kat": "ka", "kaz": "kk",
    "khk": "mn", "khm": "km", "kik": "ki", "kin": "rw", "kir": "ky", "kmr": "ku", "kon": "kg", "kor": "ko", "lao": "lo",
    "lav": "lv", "lim": "li", "lin": "ln", "lit": "lt", "ltz": "lb", "lug": "lg", "lvs": "lv", "mac": "mk", "mal": "ml",
    "mar": "mr", "may": "ms", "mkd": "mk", "mlg": "mg", "mlt": "mt", "mon": "mn", "mri": "mi", "msa": "ms", "mya": "my",
    "nep": "ne", "nld": "nl", "nno": "nn", "nob": "nb", "nor": "no", "npi": "ne", "nya": "ny", "oci": "oc", "ori": "or",
    "ory": "or", "pan": "pa", "pbt": "ps", "per": "fa", "pes": "fa", "plt": "mg", "pol": "pl", "por": "pt", "pus": "ps",
    "quy": "qu", "ron": "ro", "rum": "ro", "run": "rn", "rus": "ru", "sag": "sg", "san": "sa", "sin": "si", "slk": "sk",
    "slo": "sk", "slv": "sl", "smo": "sm", "sna": "sn", "snd": "sd", "som": "so", "sot": "st", "spa": "es", "sqi": "sq",
    "srd": "sc", "srp": "sr", "ssw": "ss", "sun": "su", "swa": "sw", "swe": "sv", "swh": "sw", "tam": "ta", "tat": "tt",
    "tel": "te", "tgk": "tg", "tgl": "tl", "tha": "th", "tib": "bo", "tir": "ti", "tsn": "tn", "tso": "ts", "tuk": "tk",
    "tur": "tr", "twi": "tw", "uig": "ug", "ukr": "uk", "urd": "ur", "uzb": "uz", "uzn": "uz", "vie": "vi", "wel": "cy",
    "wol": "wo", "xho": "xh", "ydd": "yi", "yid": "yi", "yor": "yo", "zho": "zh", "zsm": "ms", "zul": "zu",
}  # fmt: skip
"""ISO 639-2 and 639-3 codes, those of FLORES-200 included, with the two-letter codes that services use."""

WITHOUT_SPACES = {"bo", "ja", "km", "lo", "my", "th", "wuu", "yue", "zh"}
_NOR_BETWEEN_SENTENCES = {"ja", "wuu", "yue", "zh"}


def language_name(code: str) -> str:
    """The English name of `code`, or of its language if the region has none, or the code itself."""
    return NAMES.get(code) or NAMES.get(language_alone(code)) or code


def joint(source: str, target: str) -> str:
    """The separator between two translated sentences whose originals were adjacent without a space.

    "你好。我很好。" has none; "Hello. I am fine." needs one.
    """
    return " " if language_alone(source) in WITHOUT_SPACES and language_alone(target) not in WITHOUT_SPACES else ""


def spacing(gap: str, source: str, target: str) -> str:
    """The separator between two translated sentences whose originals were separated by the white space `gap`.

    "Hello. I am fine." loses its space in Chinese, and gets an ordinary one where Chinese has an ideographic one. Line
    ends, tabs and columns are kept.
    """
    if gap in (" ", "  ") and language_alone(target) in _NOR_BETWEEN_SENTENCES:
        return gap if language_alone(source) in WITHOUT_SPACES else ""
    return joint(source, target) or gap if gap == "\u3000" else gap


def is_language_code(code: object) -> bool:
    """Whether `code` has the form of a language code, such as "en" or "pt-BR", and is not AUTO."""
    return isinstance(code, str) and _CODE.fullmatch(code) is not None and code.lower() != AUTO


@lru_cache(maxsize=1024)
def language_alone(code: str) -> str:
    """The language of `code` without region or script, in lower case: "en" for "en-US"."""
    return code.replace("_", "-").split("-")[0].lower()


def is_traditional(code: str) -> bool:
    """Whether `code` means Chinese in traditional characters."""
    return _spelled(code) == "zh-hant"


def served_code(wanted: str, codes: Collection[str]) -> str | None:
    """The code in `codes` that a client means by `wanted`, or None.

    Prefers the code itself; then the same one in other case, with "_" for "-", or under another name that services use;
    then its language without region or script; then, if `wanted` has neither, any of its variants.
    """
    if wanted in codes:
        return wanted
    spelled = _spelled(wanted)
    alone = language_alone(spelled)
    variants = [code for code in codes if language_alone(_spelled(code)) == alone]
    for meant in (spelled, alone):
        if found := next((code for code in variants if _spelled(code) == meant), None):
            return found
    return variants[0] if variants and spelled in (alone, "zh-hans") else None


_OTHER_NAMES = {
    **{"zt": "zh-hant", "pb": "pt-br"},  # LibreTranslate's
    **{"iw": "he", "in": "id", "ji": "yi", "jw": "jv", "fil": "tl"},  # Google's, from an older ISO 639
    **{"cht": "zh-hant", "cn": "zh", "jp": "ja", "kr": "ko"},  # common mistakes
    "nb": "no",  # services have one of them
}
_CHINESE = re.compile(r"zh-(?:(hant|tw|hk|mo)|hans|cn|sg)\b.*")


def _spelled(code: str) -> str:
    """`code` in lower case, with hyphens, and for Chinese with the script in place of a region that implies it."""
    alone, *rest = code.replace("_", "-").lower().split("-")
    code = "-".join([TWO_LETTERS.get(alone, alone), *rest])
    if chinese := _CHINESE.fullmatch(code):
        return "zh-hant" if chinese[1] else "zh-hans"
    language = code.partition("-")[0]
    return _OTHER_NAMES.get(code) or _OTHER_NAMES.get(language, language) + code[len(language) :]


END_MARKS_EXPECTED = 0.9
"""A model that met more than this share of its training sources with an end mark takes a text without one for
unfinished."""

_ENDED = re.compile(r"[.!?…。！？।؟።][\"'»”’)\]」』）]*$")
_FULL_STOPS = {"zh": "。", "yue": "。", "ja": "。", "hi": "।", "mr": "।", "ne": "।", "bn": "।", "th": ""}


def ends_sentence(sentence: str) -> bool:
    """Whether `sentence` ends in a full stop, question mark or the like, perhaps before closing marks."""
    return _ENDED.search(sentence) is not None


def full_stop(language: str) -> str:
    """The mark that ends a plain sentence; empty for languages without one."""
    return _FULL_STOPS.get(language_alone(language), ".")
