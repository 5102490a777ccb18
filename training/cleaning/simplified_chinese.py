"""Simplified Chinese: converts text with OpenCC before training, and makes rules that serving applies.

The rules go into the vocabulary, see `training.data.vocabulary`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from model.languages import language_alone
from model.tokenizer import Tokenizer
from training.corpora.corpus import LineTally, NumberedPair, Pair

SIMPLIFIED = "traditional characters made simplified"
_CHINESE = re.compile(r"(?i)zh|cmn")
_TRADITIONAL = re.compile(r"(?i)hant|tw|hk|mo")
_HAN_LANGUAGES = re.compile(r"(?i)zh|cmn|yue|wuu|lzh|nan|hak|gan|hsn|ja|ko|vi")
_HAN_BLOCKS = (range(0x2E80, 0xA000), range(0xF900, 0xFB00), range(0x20000, 0x33480))
_AMBIGUOUS = "乾俱沈甦畫瞭藉覆鉅鍊"
"""Characters whose simplified form depends on the word, often enough to matter (docs/training-data.md): 畫 in 計畫."""


def is_simplified_chinese(code: str) -> bool:
    """Whether `code` is Chinese in simplified characters: zh, zh-CN, zh-Hans, not zh-TW."""
    base, *rest = re.split("[-_]", code)
    return bool(_CHINESE.fullmatch(base)) and not any(map(_TRADITIONAL.fullmatch, rest))


def is_chinese(code: str) -> bool:
    """Whether `code` is Chinese, in either kind of characters."""
    return bool(_CHINESE.fullmatch(language_alone(code)))


def has_own_ideographs(code: str) -> bool:
    """Whether text in the language has ideographs that must not change: Japanese, zh-TW."""
    return bool(_HAN_LANGUAGES.fullmatch(language_alone(code))) and not is_simplified_chinese(code)


def simplified(text: str) -> str:
    """`text` with its traditional characters simplified, by phrase: 乾燥 becomes 干燥, 乾坤 stays.

    In Taiwan 著 is also used for the mainland's 着, in 看著 but not in 著名; OpenCC can tell these apart if it knows
    that the text is from Taiwan. In simplified text it would make 显着 of 显著, so this applies only to text with
    other traditional characters.
    """
    plain = str(_opencc("t2s").convert(text))
    if plain == text or "著" not in plain:
        return plain
    taiwanese = str(_opencc("tw2s").convert(text))
    if len(taiwanese) != len(plain):
        return plain
    return "".join(there if here == "著" else here for here, there in zip(plain, taiwanese, strict=True))


def simplify_pairs(
    pairs: Iterator[NumberedPair], sides: tuple[bool, bool], repaired: LineTally
) -> Iterator[NumberedPair]:
    """Yields the pairs with the selected `sides` simplified; counts changed pairs in `repaired`."""
    for number, pair in pairs:
        changed = Pair(*(simplified(text) if asked else text for text, asked in zip(pair, sides, strict=True)))
        if changed != pair:
            repaired.add(SIMPLIFIED, number, pair)
        yield number, changed


def has_simplified_only(tokenizer: Tokenizer) -> bool:
    """Whether the vocabulary, and so the model, has no traditional characters: see `simplification_rules`."""
    return tokenizer.normalise("龍") == "龙"


def references_in_script(references: list[str], tokenizer: Tokenizer) -> list[str]:
    """References for comparison: simplified if the model writes only simplified characters."""
    return list(map(simplified, references)) if has_simplified_only(tokenizer) else references


@cache
def simplification_rules() -> dict[str, str]:
    """Normalisation rules for traditional characters, and for phrases of two characters that need their own.

    No rule applies to another's result, so normalising twice is the same as once.
    """
    characters = [chr(code) for block in _HAN_BLOCKS for code in block]
    rules = {old: new for old, new in zip(characters, _converted(characters), strict=True) if old != new}
    rules = {old: new for old, new in rules.items() if new not in rules}
    return rules | _phrases(rules)


def _phrases(rules: dict[str, str]) -> dict[str, str]:
    """Phrases of two characters that OpenCC converts differently than each alone: 計畫 is 计划, 畫 is 画.

    SentencePiece has no rule that preserves its input, so 乾 is 干 in 乾坤 as well.
    """
    usual = [chr(code) for code in range(0x4E00, 0xA000)]
    others = [other for other in usual if other in rules or _converted([other]) == [other]]
    phrases = [phrase for odd in _AMBIGUOUS for other in others for phrase in (other + odd, odd + other)]
    one_by_one = str.maketrans(rules)
    found = zip(phrases, _converted(phrases), strict=True)
    return {old: new for old, new in found if new != old.translate(one_by_one) and not set(new) & rules.keys()}


def _converted(texts: list[str]) -> list[str]:
    return str(_opencc("t2s").convert("\n".join(texts))).split("\n")


@cache
def _opencc(name: str) -> Any:
    """Loaded on first use: serving never needs it."""
    import opencc

    return opencc.OpenCC(name)
