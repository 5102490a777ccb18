"""What a prompt written for a large language model asks to be translated, and the form that the answer takes.

Reads the default prompts of the tools in `TOOLS`, and others that name the target language before the text. Takes time
in proportion to the length of the messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from model.language_names import LANGUAGE_NAME, language_named
from model.languages import language_alone

TOOLS = (
    "bilingual_book_maker, Calibre's Ebook Translator, deep-translator, Discourse AI, Easydict, Immersive Translate,"
    " kiss-translator, Lingarr, LiveCaptions-Translator, llm-subtrans, LunaTranslator (also for Sakura, GalTransl and"
    " Hunyuan-MT), NextAI Translator, PDFMathTranslate, Pot, Read Frog, Subtitle Edit, Weblate,"
    " XUnity.AutoLLMTranslator and Zotero's pdf-translate"
)

_TEXTS = (
    (r"text is as follows:  🔤 ", " 🔤  Please"),  # Zotero's pdf-translate
    (r"\A🔤 ", " 🔤"),  # LiveCaptions-Translator
    (r"\nSource Text: ", "\n\nTranslated Text:"),  # kiss-translator, PDFMathTranslate
    (r'\btranslate\b[^"\n]*\n?"""\n?', '"""'),  # Pot, Easydict
    (r"\btranslate,\s?`", "` to "),  # bilingual_book_maker
    (r'\btranslate\b[^\n]*\nText: "', '"'),  # deep-translator
    (r"\btranslate\b[^\n]*\nInput:\n", ""),  # Read Frog until 1.0
    (r"\bYAML\b[^<]*<yaml>\n", "</yaml>"),  # Immersive Translate, if told to use YAML
    (r"\bsubtitles\b[^\n]*\n\n(?=#\d+\nOriginal>)", ""),  # llm-subtrans
    (r"\A你是一个翻译引擎.*中文含义.*单词是：", ""),  # NextAI Translator, a word into Chinese
    (r"\btranslate the text into\b.*\bThe word is: ", ""),  # the same into another language
    # LunaTranslator, after terms and earlier translations: for Sakura, GalTransl and Hunyuan-MT, and for other models
    (r"\A(?:根据|参考|历史翻译|Reference the).*?\n(?:根据|结合|将|Translate)[^\n:：]*[:：]\s*", ""),
    (r"\AWhen translating, please ensure[^\n]*\n(?:[^\n]*->[^\n]*\n)*", ""),
    (r"\bThe text to translate:\n", ""),  # ours, in app/llm/templates
)
"""What is before and after the text in a user's message. The rest of the message may name the languages."""
_AFTER_INSTRUCTION = re.compile(r"(?:\([^()\n]*\)|[^\n:：])*+[\n:：]")
"""From the languages to the text in any other message: the text comes after a colon, or on another line."""
_LONGEST_START = 300
"""Characters before such an instruction. Later in a message it may be part of a text."""
_LONGEST_INSTRUCTION = 8_000

_CODE = "[A-Za-z]{2,3}"
_LANGUAGE = rf"{LANGUAGE_NAME}|{_CODE}[-_](?:[A-Za-z]{{2}}|Han[st])\b"
_QUOTE = "[`'\"“”「」<]?"
_INSTRUCTION = re.compile(
    # Codes alone look like words: "to be". They count after "from en", and before the end of a clause.
    r"(?<!\()\btranslat(?:e|es|ing|ion|or)\b(?:[^.]|\.(?!\s)){0,200}?\s"
    rf"(?:from (?:language )?{_QUOTE}(?P<source>{_LANGUAGE}|{_CODE}\b){_QUOTE}\s+)?"
    rf"(?:in)?to\s+(?:language )?{_QUOTE}(?P<target>{_LANGUAGE}|{_CODE}(?(source)\b|(?=[`'\".,:;)\n]|\Z| only\b)))"
    rf"|(?:[从從的将將](?P<source_zh>{_LANGUAGE})(?:文本)?[^，。：\n]{{0,30}}?)?"
    rf"(?:翻译|翻譯|译|譯)(?:成|为|為|到)\s*{_QUOTE}(?P<target_zh>{_LANGUAGE})|(?P<word_zh>中文)含义",
    re.IGNORECASE,
)
_GIVEN = re.compile(rf"\bfollowing ({LANGUAGE_NAME}) text\b", re.IGNORECASE)
_TARGET_KEYS = ("targetLanguage", "target_language", "target_locale")

_LISTS = (
    # llm-subtrans
    (r"#(?P<id>\d+)\nOriginal>\n(?P<text>(?:(?!\nOriginal>).)*?)\n+Translation>", "#{id}\nTranslation>\n{text}\n\n"),
    # Immersive Translate's YAML
    (r"(?m)^[ ]*- id: (?P<id>\S+)\n[ ]+(?P<field>\w+): (?P<text>[^\n]*)", "- id: {id}\n  {field}: {text}\n"),
    # XUnity.AutoLLMTranslator
    (r'(?m)^\[(?P<id>\d+)\]="(?P<text>[^\n]*)"', '[{id}]="{text}"\n'),
)
"""Several texts in one message, and the template of what answers each."""
_SEPARATOR = re.compile(r"((?<=\S)\s*\n[ \t]*+(?:%%|==WEBLATE_PART==|@@)[ \t]*+\n\s*+)")
"""A line between texts: Immersive Translate and Read Frog, Weblate until 2025, bilingual_book_maker."""

_Pair = tuple[str | None, str]


class NotATranslation(ValueError):
    """The messages do not ask for a translation, or not for one alone."""


@dataclass(frozen=True)
class Asked:
    """Texts to translate from `source`, None if that is to be detected, and the content that answers with them."""

    texts: tuple[str, ...]
    answer: Callable[[Sequence[str]], str] = "".join
    source: str | None = None
    target: str = ""


def asked(messages: Sequence[Mapping[str, Any]]) -> Asked:
    """What `messages`, those of a chat completion, ask for. Earlier questions and answers count for nothing.

    Raises NotATranslation, which says what was understood.
    """
    said = [(message.get("role"), _content(message.get("content"))) for message in messages]
    system = "\n".join(text for role, text in said if role in ("system", "developer"))
    user = next((text for role, text in reversed(said) if role == "user"), "").strip("\ufeff \n")
    found = _json(user, system)
    if found and found.target:
        return found
    by_system = _languages(system)
    pair, text = _instructed(user, by_system) or (by_system, user)
    if pair is None:
        raise NotATranslation(
            "This service only translates, and found no target language in the messages. Begin the message with"
            f' "Translate into French:", or name the language in the system message. It reads the prompts of {TOOLS}.'
        )
    if not text.strip():
        raise NotATranslation(
            f"A translation into {pair[1]} is asked for, but the last message of the user has no text."
        )
    return replace(found or _listed(text), source=pair[0], target=pair[1])


def _content(content: Any) -> str:
    """A message's text, which may be in parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


def _instructed(user: str, by_system: _Pair | None) -> tuple[_Pair, str] | None:
    """The languages and the text of a message with an instruction."""
    for before, after in _TEXTS:
        begin = re.compile(before, re.DOTALL | re.IGNORECASE).search(user, 0, _LONGEST_INSTRUCTION)
        end = user.rfind(after) if after else len(user)
        if begin and begin.end() <= end:
            # Titles and abstracts of what is translated come before the instruction.
            pairs = _pairs(f"{user[: begin.end()]} {user[end:]}")
            if pair := pairs[-1] if pairs else by_system:
                return pair, user[begin.end() : end].strip("\n")
    first = _INSTRUCTION.search(user, 0, 2 * _LONGEST_START)
    if first is None or first.start() > _LONGEST_START or not (rest := _AFTER_INSTRUCTION.match(user, first.end())):
        return None
    pair = _languages(user[: rest.end()])
    if pair is None or (by_system and language_alone(by_system[1]) != language_alone(pair[1])):
        return None  # a text that looks like an instruction
    return pair, user[rest.end() :].lstrip()


def _languages(text: str) -> _Pair | None:
    return next(iter(_pairs(text)), None)


def _pairs(text: str) -> list[_Pair]:
    """The languages of each instruction in `text`."""
    text = text[:_LONGEST_INSTRUCTION]
    given = _GIVEN.search(text)
    pairs = []
    for found in _INSTRUCTION.finditer(text):
        source = found["source"] or found["source_zh"] or (given[1] if given else "")
        if target := language_named(found["target"] or found["target_zh"] or found["word_zh"]):
            pairs.append((language_named(source), target))
    return pairs


def _listed(text: str) -> Asked:
    for pattern, template in _LISTS:
        if items := [found.groupdict() for found in re.finditer(pattern, text, re.DOTALL)]:
            return Asked(tuple(item["text"] for item in items), partial(_filled, template, items, "text"))
    texts, between = (parts := _SEPARATOR.split(text))[::2], [*parts[1::2], ""]
    return Asked(tuple(texts), lambda done: "".join(f"{new}{gap}" for new, gap in zip(done, between, strict=True)))


def _filled(template: str, items: Sequence[Mapping[str, Any]], key: str, done: Sequence[str]) -> str:
    return "".join(template.format_map({"id": "", **item, key: new}) for item, new in zip(items, done, strict=True))


def _json(text: str, system: str) -> Asked | None:
    """The texts of a message that is JSON, and its languages if it names them."""
    try:
        given = json.loads(text) if text[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None
    if isinstance(given, list):
        return _records(given, "line", "")  # Lingarr
    if not isinstance(given, dict):
        return None
    target = language_named(str(next((given[key] for key in _TARGET_KEYS if given.get(key)), "")))
    if isinstance(content := given.get("content"), str):
        found: Asked | None = Asked((content,))  # Discourse AI
    else:
        found = _records(given.get("strings"), "source", "strings") or _records(given.get("segments"), "text", system)
    return (
        replace(found, source=language_named(str(given.get("source_language"))), target=target)
        if found and target
        else None
    )


def _records(records: Any, key: str, form: str) -> Asked | None:
    """The texts of JSON objects. The answer's form is Weblate's, or what kiss-translator's system message says."""
    if not isinstance(records, list) or not records:
        return None
    if not all(isinstance(each, dict) and isinstance(each.get(key), str) for each in records):
        return None

    def answer(done: Sequence[str]) -> str:
        if form == "strings":
            return json.dumps(list(done), ensure_ascii=False)
        if "<root>" in form:
            return "<root>\n" + _filled('<t id="{id}">{text}</t>\n', records, key, done) + "</root>"
        if "ID | Text" in form:
            return _filled("{id} | {text}\n", records, key, [new.replace("\n", "<br>") for new in done])
        # Lingarr and kiss-translator find the list in an object and without one.
        items = [{**each, key: new} for each, new in zip(records, done, strict=True)]
        return json.dumps({"translations": items}, ensure_ascii=False)

    return Asked(tuple(each[key] for each in records), answer)
