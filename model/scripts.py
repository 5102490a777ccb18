"""Writing systems: the script of a letter, and the scripts of a language.

A script is named by the first word of its letters' Unicode names: LATIN, CYRILLIC, CJK.
"""

from __future__ import annotations

import functools
import unicodedata

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
    """The script of a letter or of a combining mark; None if shared by many, or not known here."""
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
