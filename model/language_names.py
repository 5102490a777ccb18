"""Languages by what people call them: in English, in Chinese, or as their speakers do."""

from __future__ import annotations

import re

from model.languages import NAMES, TWO_LETTERS, is_language_code, is_traditional, language_alone

_OTHER_NAMES = """
ar 阿拉伯 العربية
bg 保加利亚 български
bn 孟加拉 বাংলা
ca 加泰罗尼亚 català
cs 捷克 čeština
da 丹麦 dansk
de 德 deutsch
el 希腊 ελληνικά
en 英
es 西班牙 español castellano
et 爱沙尼亚 eesti
fa 波斯 فارسی farsi
fi 芬兰 suomi
fr 法 français
he 希伯来 עברית
hi 印地 हिन्दी
hr 克罗地亚 hrvatski
hu 匈牙利 magyar
id 印尼 印度尼西亚 bahasa_indonesia
it 意大利 italiano
ja 日 日本
ko 韩 韓 한국어
lt 立陶宛 lietuvių
lv 拉脱维亚 latviešu
ms 马来 bahasa_melayu
nb norsk_bokmål
nl 荷兰 nederlands
no 挪威 norsk
pa panjabi
pl 波兰 polski
pt 葡萄牙 português
ro 罗马尼亚 română
ru 俄 русский
sk 斯洛伐克 slovenčina
sl 斯洛文尼亚 slovenščina
sr 塞尔维亚 српски
sv 瑞典 svenska
th 泰 ไทย
tl filipino
tr 土耳其 türkçe
uk 乌克兰 українська
ur 乌尔都 اردو
vi 越南 tiếng_việt
yue 粤 粵
zh 中 汉 漢
zh-Hans 简体中
zh-Hant 繁体中 繁體中
"""
"""Chinese names without the 语 or 文 at their end; "_" stands for a space."""
_VARIETIES = (
    "simplified|traditional|mandarin|american|british|canadian|australian|brazilian|european|standard|modern|iranian"
    "|northern|north"
)


def _all_names() -> dict[str, str]:
    """The code of each name, in lower case. Those with a variety in brackets are made of the name and the variety."""
    names = {name.casefold(): code for code, name in NAMES.items() if "(" not in name}
    for line in _OTHER_NAMES.split("\n")[1:-1]:
        code, *others = line.split()
        for name in others:
            ends = "语語文" if "\u4e00" <= name[0] <= "\u9fff" else ("",)
            names |= {name.replace("_", " ") + end: code for end in ends}
    return names


_NAMES = _all_names()

LANGUAGE_NAME = (
    rf"(?<![a-z])(?:(?:{_VARIETIES})[ -])*"
    rf"(?:{'|'.join(sorted(map(re.escape, _NAMES), key=len, reverse=True))})(?![a-zà-ÿ])"
    rf"(?: ?[(（][^()（）\n]{{1,30}}[)）]| (?:simplified|traditional)\b)?"
)
"""A pattern for such names, to be used with `re.IGNORECASE`: "Simplified Chinese", "Chinese (simplified)", "法语"."""


def language_named(text: str) -> str | None:
    """The code of the language that `text` names, or is a code of. None for other texts.

    A variety of Chinese or Portuguese gets a code of its own.
    """
    text = text.strip()
    if is_language_code(text) and (alone := TWO_LETTERS.get(language_alone(text), language_alone(text))) in NAMES:
        return text if len(alone) == len(language_alone(text)) else alone
    text = re.sub("[-（]", lambda found: " " if found[0] == "-" else " (", text.casefold())
    name = re.sub(rf"\b(?:{_VARIETIES})\b|\(.*", "", text).strip()
    code = _NAMES.get(name)
    if code == "zh" and (variety := re.search("(simplified|简|簡体)|traditional|繁", text)):
        return "zh-Hans" if variety[1] else "zh-Hant"
    return "pt-BR" if code == "pt" and "brazil" in text else code


def chinese_name(code: str) -> str:
    """The Chinese name of a language, or the code if it has none here."""
    alone = language_alone(code)
    if alone == "zh":
        return f"中文({'繁体' if is_traditional(code) else '简体'})"
    found = re.search(rf"^{re.escape(alone)} ([\u4e00-\u9fff]+)", _OTHER_NAMES, re.MULTILINE)
    return f"{found[1]}语" if found else code
