"""Writing systems: the script of a letter, the scripts of a language, and the letters that it has only in quotations.

A script is named by the first word of its letters' Unicode names: LATIN, CYRILLIC, CJK.
"""

from __future__ import annotations

import functools
import unicodedata

from model.languages import language_alone

LATIN, HAN = "LATIN", "CJK"
KANA = frozenset({"HIRAGANA", "KATAKANA"})
_LANGUAGES = {
    "ARABIC": "ar ary arz azb bal ckb dv fa ks ku mzn pnb ps sd sdh skr ug ur uzs",
    "ARMENIAN": "hy",
    "BENGALI": "as bn bpy mni",
    HAN: "hak ja nan wuu yue zh",
    "CYRILLIC": "ab av ba be bg ce cu cv kk kv ky mk mn os ru rue sah sr tg tt tyv udm uk",
    "DEVANAGARI": "awa bho doi gom hi mag mai mr ne new sa",
    "ETHIOPIC": "am ti",
    "GEORGIAN": "ka xmf",
    "GREEK": "el grc",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "HANGUL": "ko",
    "HEBREW": "hbo he yi",
    "HIRAGANA": "ja",
    "KANNADA": "kn",
    "KATAKANA": "ja",
    "KHMER": "km",
    "LAO": "lo",
    "MALAYALAM": "ml",
    "MYANMAR": "my shn",
    "ORIYA": "or",
    "SINHALA": "si",
    "TAMIL": "ta",
    "TELUGU": "te",
    "THAI": "th",
    "TIBETAN": "bo dz",
    "TIFINAGH": "zgh",
}
_WRITERS = {script: frozenset(codes.split()) for script, codes in _LANGUAGES.items()}
_ALSO_LATIN = frozenset({"ku", "sr"})
_NOT_LATIN = frozenset().union(*_WRITERS.values()) - _ALSO_LATIN
SCRIPTS = frozenset({LATIN, *_WRITERS})


@functools.lru_cache(maxsize=8192)
def script_of(character: str) -> str | None:
    """The script of a letter or combining mark; None if several scripts share it, or it is not in the tables."""
    words = unicodedata.name(character, "").split()
    name = words[1] if words[:1] in (["FULLWIDTH"], ["HALFWIDTH"]) else words[0] if words else ""
    return name if name in SCRIPTS else None


def is_written_in(language: str, script: str) -> bool:
    """Whether `language`, without a region, is written in `script`. Unknown languages count as written in Latin
    letters."""
    return language not in _NOT_LATIN if script == LATIN else language in _WRITERS[script]


def sole_language(script: str) -> str | None:
    """The only language written in `script`, if there is exactly one."""
    writers = _WRITERS.get(script, frozenset())
    return next(iter(writers)) if len(writers) == 1 else None


_BLOCKS = {
    "GREEK": "\u0370-\u0373\u0376-\u037d\u037f-\u0383\u0386\u0388-\u03ff\u1f00-\u1fbc\u1fc2-\u1fcc\u1fd0-\u1fdb"
    "\u1fe0-\u1fec\u1ff2-\u1ffc",
    "CYRILLIC": "\u0400-\u052f\u1c80-\u1c8f\u2de0-\u2dff\ua640-\ua69f",
    "ARMENIAN": "\u0531-\u0556\u0560-\u0588",
    "HEBREW": "\u0591-\u05bd\u05bf-\u05c2\u05c4-\u05f2\ufb1d-\ufb4f",
    "ARABIC": "\u0610-\u061a\u0620-\u065f\u066e-\u06d3\u06d5-\u06ef\u06fa-\u06ff\u0750-\u077f\u08a0-\u08ff"
    "\ufb50-\ufd3d\ufd50-\ufdff\ufe70-\ufefc",
    "DEVANAGARI": "\u0900-\u0963\u0970-\u097f\ua8e0-\ua8ff",
    "BENGALI": "\u0980-\u09e5\u09f0\u09f1",
    "GURMUKHI": "\u0a01-\u0a65\u0a70-\u0a76",
    "GUJARATI": "\u0a81-\u0ae5\u0af9-\u0aff",
    "ORIYA": "\u0b01-\u0b65\u0b71",
    "TAMIL": "\u0b82-\u0be5",
    "TELUGU": "\u0c00-\u0c65",
    "KANNADA": "\u0c80-\u0ce5",
    "MALAYALAM": "\u0d00-\u0d65\u0d7a-\u0d7f",
    "SINHALA": "\u0d81-\u0df3",
    "THAI": "\u0e01-\u0e3a\u0e40-\u0e4e",
    "LAO": "\u0e81-\u0ece\u0edc-\u0edf",
    "TIBETAN": "\u0f00\u0f40-\u0fbc",
    "MYANMAR": "\u1000-\u103f\u1050-\u108f\ua9e0-\ua9ef\uaa60-\uaa7f",
    "GEORGIAN": "\u10a0-\u10ff\u1c90-\u1cbf\u2d00-\u2d2d",
    "ETHIOPIC": "\u1200-\u135f\u1380-\u138f\u2d80-\u2dde\uab01-\uab2e",
    "TIFINAGH": "\u2d30-\u2d6f",
    "KHMER": "\u1780-\u17d3\u17d7\u17dc",
    "HANGUL": "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb",
    "HIRAGANA": "\u3041-\u309f",
    "KATAKANA": "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f",
    "CJK": "\u2e80-\u2fd5\u3005\u3007\u3105-\u312f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af",
}
"""Letters, and combining marks, of each script except Latin, as ranges for a character class of `re`.

The sets of `regex`, \\p{Script=Greek} and so on, take 12 times as long to find on this project's READMEs, and include
digits and punctuation.
"""
_ALSO_CYRILLIC = {"az", "bs", "tk", "uz"}
"""Written in Latin letters today, but in Cyrillic in many texts."""


def foreign_letters(language: str) -> str:
    """Ranges, for a character class of `re`, of the letters that a text in `language` has only in quotations.

    They are those of scripts that the language is not written in. Latin letters occur in any text.
    """
    code = language_alone(language)
    return "".join(
        ranges
        for script, ranges in _BLOCKS.items()
        if not is_written_in(code, script) and not (script == "CYRILLIC" and code in _ALSO_CYRILLIC)
    )
