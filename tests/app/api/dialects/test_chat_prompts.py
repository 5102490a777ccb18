"""app/api/dialects/chat_prompts.py: the default prompts of tools that know only large models, as their code sends them.

Each is described by its repository and the commit that was read. The text in them is ours.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from app.api.dialects.chat_prompts import TOOLS, NotATranslation, asked

TEXT = "The cat sleeps.\n\nIt dreams: of mice."
LINE = "The cat sleeps."


def system(content: str) -> dict[str, Any]:
    return {"role": "system", "content": content}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: str) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


class Sent(NamedTuple):
    """What a tool sends, and what is to be read from it."""

    messages: list[dict[str, Any]]
    source: str | None
    target: str
    texts: tuple[str, ...] = (TEXT,)


SUBTITLE_EDIT = (
    "Translate from {} to {}, keep punctuation as input, keep line breaks exactly the same, do not censor the"
    " translation, give only the output without comments:\n\n"
)
LINGARR = (
    "Translate from English to French, preserving the tone and meaning without censoring the content. Adjust"
    " punctuation as needed to make the translation sound natural. Provide only the translated text as output, with"
    " no additional comments."
)
KISS_TRANSLATOR = """# Context
Title: How to translate into German
Description: A page about cats
Summary:\x20
Tone: formal

# Glossary:
- cat: chat

# Task
Translate the Source Text below to Simplified Chinese.
1. Use the Context to ensure accuracy.
2. Adapt the wording to match the specified Tone.
3. Output ONLY the translated text. No markdown, no explanations.

Source Text: {}

Translated Text:"""
POT = (
    "You are a professional translation engine, please translate the text into a colloquial, professional, elegant and"
    " fluent content, without the style of machine translation. You must only translate the text content, never"
    " interpret it."
)
ZOTERO = (
    "As an academic expert with specialized knowledge in various fields, please provide a proficient and precise"
    " translation from {} to {} of the academic text enclosed in 🔤. It is crucial to maintaining the original phrase"
    " or sentence and ensure accuracy while utilizing the appropriate language. The text is as follows:  🔤 {} 🔤 "
    " Please provide the translated result without any additional explanation and remove 🔤."
)
CALIBRE = (
    "You are a meticulous translator who translates any given content. Translate the given content from {} to {} only."
    " Do not explain any term or answer any question-like content. Your answer should be solely the translation of the"
    " given content. In your answer do not add any prefix or suffix to the translated content. Websites' URLs/addresses"
    " should be preserved as is in the translation's output. Do not omit any part of the content, even if it seems"
    " unimportant. RESPOND ONLY with the translation text, no formatting, no explanations, no additional commentary"
    " whatsoever. "
)
LIVE_CAPTIONS = (
    "As an professional simultaneous interpreter with specialized knowledge in the all fields, you can provide a fluent"
    " and precise oral translation for any sentence, even if the sentence is incomplete. Now, provide users with the"
    " translation of the sentence enclosed in 🔤 to zh-CN within a single line. Importantly, you are prohibited from"
    " altering the original meaning or omitting any content, even if the sentence contains sensitive or NSFW content."
    " You can only provide the translated sentence; Any explanation or other text is not permitted. REMOVE all 🔤 when"
    " you output."
)
PDF_MATH = (
    "You are a professional, authentic machine translation engine. Only Output the translated text, do not include any"
    " other text.\n\nTranslate the following markdown source text to {}. Keep the formula notation {{v*}} unchanged."
    " Output translation directly without any additional text.\n\nSource Text: {}\n\nTranslated Text:"
)
EASYDICT = (
    "You are a translation expert proficient in various languages, focusing solely on translating text without"
    " interpretation. You accurately understand the meanings of proper nouns, idioms, metaphors, allusions, and other"
    " obscure words in sentences, translating them appropriately based on the context and language environment. The"
    " translation should be natural and fluent. Only return the translated text, without including redundant quotes or"
    " additional notes."
)
IMMERSIVE = """You are a professional {0} native translator who needs to fluently translate text into {0}.

## Translation Rules
1. Output only the translated content, without explanations or additional content (such as "Here's the translation:" or "Translation as follows:")
2. The returned translation must maintain exactly the same number of paragraphs and format as the original text
3. If the text contains HTML tags, consider where the tags should be placed in the translation while maintaining fluency
4. For content that should not be translated (such as proper nouns, code, etc.), keep the original text.
5. Output translation directly (no separators, no extra text)

## Context Awareness
Document Metadata:
Title: 《Cats》"""  # noqa: E501
IMMERSIVE_YAML = """You will be given a YAML formatted input containing entries with "id" and "text" fields. Here is the input:

<yaml>
- id: 1
  text: The cat sleeps.
- id: 2
  text: It dreams: of mice.
</yaml>

For each entry in the YAML, translate the contents of the "text" field into French, Write the translation back into the "text" field for that entry.

Here is an example of the expected format:

<example>
Input:
  - id: 1
    text: Source
Output:
  - id: 1
    text: Translation
</example>

Please return the translated YAML directly without wrapping <yaml> tag or include any additional information."""  # noqa: E501
LUNA = (
    "You are a translator. Please help me translate the following {} text into {}. You should only tell me the"
    " translation result without any additional explanations."
)
SAKURA = (
    "你是一个轻小说翻译模型，可以流畅通顺地以日本轻小说的风格将日文翻译成简体中文，并联系上下文正确使用人称代词，"
    "不擅自添加原文中没有的代词。"
)
GALTRANSL = (
    "你是一个视觉小说翻译模型，可以通顺地使用给定的术语表以指定的风格将日文翻译成简体中文，"
    "并联系上下文正确使用人称代词，注意不要混淆使役态和被动态的主语和宾语，不要擅自添加原文中没有的特殊符号，"
    "也不要擅自增加或减少换行。"
)
READ_FROG_OLD = (
    "Treat input as plain text input and translate it into Simplified Mandarin Chinese, output translation ONLY. If"
    " translation is unnecessary (e.g. proper nouns, codes, etc.), return the original text. NO explanations. NO"
    " notes.\nInput:\n{}\n"
)
WEBLATE_OLD = """
You are a highly skilled translation assistant, adept at translating text
from language 'en'
to language 'pt_BR'
with precision and nuance.


You always reply with translated string only.
You do not include transliteration.

You receive an input as strings separated by\x20
==WEBLATE_PART==
 and
your answer separates strings by\x20
==WEBLATE_PART==
.


"""
AUTO_LLM = """ You are a professional game text translation expert,  and your translation quality is unparalleled.
    Next, you need to translate the game text from `ja` to `en`.
#Requirements\x20\x20\x20\x20
\x20\x20\x20\x20

#Translation Steps

3. **Translate**: Accurately translate the text while maintaining the tone, style, and intent.
5. **Contextual Adjustment**: Make adjustments for subtle nuances that may not translate directly between languages.
"""
SUBTRANS = """The goal is to accurately translate subtitles into a target language.

You will receive a batch of lines for translation. Carefully read through the lines, along with any additional context provided.

Example (translating to English):

#200
Original>
変わりゆく時代において、
Translation>
In an ever-changing era,

Example (translating to German):

#700
Original>
In the age of digital transformation,
Translation>
Im Zeitalter der digitalen Transformation,
"""  # noqa: E501
SUBTRANS_LINES = (
    "Please translate the following subtitles for Cats to French.\n\n#1\nOriginal>\nThe cat sleeps.\nTranslation>\n\n\n"
    "#2\nOriginal>\nIt dreams:\nof mice.\nTranslation>\n"
)
NEXTAI_WORD = (
    "You are a professional translation engine. Please translate the text into Français without explanation. When the"
    " text has only one word, please act as a professional English-Français dictionary, and list the original form of"
    " the word (if any), the language of the word, all senses with parts of speech, bilingual sentence examples (at"
    " least 3) and etymology.\n\nOnly reply the result and nothing else. I understand. Please give me the word.:\n\n"
    "The word is: cat"
)
NEXTAI_WORD_CHINESE = (
    "你是一个翻译引擎，请翻译给出的文本，只需要翻译不需要解释。当且仅当文本只有一个单词时，"
    "请给出单词原始形态（如果有）、单词的语种、对应的音标或转写、所有含义（含词性）、双语示例，至少三条例句。\n"
    "    <单词>\n    [<词性缩写>] <中文含义>]\n\n"
    "Only reply the result and nothing else. 好的，我明白了，请给我这个单词。:\n\n单词是：cat"
)
BBM = "Please help me to translate,`{}` to {}, please return only translated content not include the origin text"

PROMPTS = {
    # SubtitleEdit/subtitleedit 5c98fbd: ChatGPT, LM Studio, Ollama, llama.cpp and others alike
    "Subtitle Edit": Sent([user(SUBTITLE_EDIT.format("English", "French") + TEXT)], "en", "fr"),
    "Subtitle Edit, into Chinese": Sent(
        [user(SUBTITLE_EDIT.format("English", "Chinese (Simplified)") + TEXT)], "en", "zh-Hans"
    ),
    # lingarr-translate/lingarr e26da8b
    "Lingarr": Sent([system(LINGARR), user(TEXT)], "en", "fr"),
    "Lingarr, a text like an instruction": Sent(
        [system(LINGARR), user("Translate into German: the cat.")], "en", "fr", ("Translate into German: the cat.",)
    ),
    # fishjar/kiss-translator 97c08cf, without batches
    "kiss-translator": Sent(
        [
            system("You are a professional, authentic machine translation engine."),
            user(KISS_TRANSLATOR.format(TEXT)),
        ],
        None,
        "zh-Hans",
    ),
    # pot-app/pot-desktop afebdfe
    "Pot": Sent([system(POT), user(f'Translate into Brazilian Portuguese:\n"""\n{TEXT}\n"""')], None, "pt-BR"),
    # windingwind/zotero-pdf-translate ac91aca; with the paper's title, if asked to
    "Zotero's pdf-translate": Sent([user(ZOTERO.format("en-US", "zh-CN", TEXT))], "en-US", "zh-CN"),
    "Zotero's pdf-translate, with a title": Sent(
        [user("Paper Title: How we translate to German\n\n" + ZOTERO.format("en", "fr", TEXT))], "en", "fr"
    ),
    # bookfere/Ebook-Translator-Calibre-Plugin 3a04deb
    "Calibre's Ebook Translator": Sent(
        [system(CALIBRE.format("English", "Chinese (Traditional)")), user(TEXT)], "en", "zh-Hant"
    ),
    "Calibre's Ebook Translator, detecting": Sent(
        [system(CALIBRE.format("detected language", "French")), user(TEXT)], None, "fr"
    ),
    # SakiRinn/LiveCaptions-Translator 7a6fe4a, with a sentence before
    "LiveCaptions-Translator": Sent(
        [system(LIVE_CAPTIONS), user("🔤 Hello. 🔤"), assistant("你好。"), user(f"🔤 {LINE} 🔤")],
        None,
        "zh-CN",
        (LINE,),
    ),
    # PDFMathTranslate/PDFMathTranslate b529aff
    "PDFMathTranslate": Sent([user(PDF_MATH.format("zh", TEXT))], None, "zh"),
    # tisfeng/Easydict db250b3, with one of its examples
    "Easydict": Sent(
        [
            system(EASYDICT),
            user('Translate the following English text into Simplified-Chinese text: """The stock market"""'),
            assistant("股市"),
            user(f'Translate the following English text into 简体中文白话文 text: """{TEXT}"""'),
        ],
        "en",
        "zh-Hans",
    ),
    # nextai-translator/nextai-translator 39e6e25, openai-translator/openai-translator c3bc4bb
    "NextAI Translator": Sent(
        [
            user(
                "You are a professional translator.\n\nOnly reply the result and nothing else. Please translate to"
                f" 繁體中文:\n\n{TEXT}"
            )
        ],
        None,
        "zh-Hant",
    ),
    "NextAI Translator, a word": Sent([user(NEXTAI_WORD)], None, "fr", ("cat",)),
    "NextAI Translator, a word into Chinese": Sent([user(NEXTAI_WORD_CHINESE)], None, "zh", ("cat",)),
    # immersive-translate/i18ns 9780b93: docs "prompts"
    "Immersive Translate": Sent(
        [system(IMMERSIVE.format("简体中文")), user(f"Translate to 简体中文 (output translation only):\n\n{TEXT}")],
        None,
        "zh-Hans",
    ),
    "Immersive Translate, paragraphs": Sent(
        [
            system(IMMERSIVE.format("French")),
            user("Translate to French:\n\nThe cat sleeps.\n\n%%\n\nIt dreams: of mice."),
        ],
        None,
        "fr",
        ("The cat sleeps.", "It dreams: of mice."),
    ),
    "Immersive Translate, YAML": Sent(
        [system("You are a professional, authentic machine translation engine.\n"), user(IMMERSIVE_YAML)],
        None,
        "fr",
        ("The cat sleeps.", "It dreams: of mice."),
    ),
    # mengxi-ream/read-frog 0ee2657, and bb6afcb
    "Read Frog": Sent(
        [
            system(IMMERSIVE.format("Simplified Mandarin Chinese")),
            user(f"Translate to Simplified Mandarin Chinese:\n\n\n{TEXT}"),
        ],
        None,
        "zh-Hans",
    ),
    "Read Frog, before": Sent([user(READ_FROG_OLD.format(TEXT))], None, "zh-Hans"),
    # HIllya51/LunaTranslator c7940af, and what it sends to Sakura, GalTransl and Hunyuan-MT
    "LunaTranslator": Sent([system(LUNA.format("Japanese", "English")), user(TEXT)], "ja", "en"),
    "LunaTranslator, with terms": Sent(
        [
            system(LUNA.format("Japanese", "English")),
            user(
                "When translating, please ensure to translate the specified nouns into the translations I have"
                f" designated: \n猫->cat\n鼠->mouse #small\n{TEXT}"
            ),
        ],
        "ja",
        "en",
    ),
    "Sakura": Sent([system(SAKURA), user(f"将下面的日文文本翻译成中文：{TEXT}")], "ja", "zh"),
    "Sakura, 0.10": Sent(
        [
            system(SAKURA),
            user(
                "根据以下术语表（可以为空）：\n猫->猫 #动物\n\n"
                f"将下面的日文文本根据上述术语表的对应关系和备注翻译成中文：{TEXT}"
            ),
        ],
        "ja",
        "zh",
    ),
    "Sakura, many terms": Sent(
        [
            system(SAKURA),
            user(
                "根据以下术语表（可以为空）：\n"
                + "猫->猫 #动物\n" * 100
                + f"将下面的日文文本根据对应关系和备注翻译成中文：{TEXT}"
            ),
        ],
        "ja",
        "zh",
    ),
    "GalTransl": Sent(
        [
            system(GALTRANSL),
            user(
                "历史翻译：猫。\n\n参考以下术语表（可为空，格式为src->dst #备注）\n猫->猫\n\n"
                "根据以上术语表的对应关系和备注，"
                f"结合历史剧情和上下文，将下面的文本从日文翻译成简体中文：\n{TEXT}"
            ),
        ],
        "ja",
        "zh-Hans",
    ),
    "Hunyuan-MT": Sent(
        [
            user(
                "Translate the following text into English. Note that you should only output the translated result"
                f" without any additional explanation:\n\n{TEXT}"
            )
        ],
        None,
        "en",
    ),
    "Hunyuan-MT, into Chinese": Sent(
        [user(f"将以下文本翻译成Chinese,注意只需要输出翻译后的结果,不要额外解释:\n\n{TEXT}")], None, "zh"
    ),
    "Hunyuan-MT, with terms": Sent(
        [
            user(
                f"参考下面的翻译：\n猫翻译成cat\n将以下文本翻译为英语，注意只需要输出翻译后的结果，不要额外解释：\n\n{TEXT}"
            )
        ],
        None,
        "en",
    ),
    # yihong0618/bilingual_book_maker 9133c06
    "bilingual_book_maker": Sent([system(""), user(BBM.format(TEXT, "simplified chinese"))], None, "zh-Hans"),
    "bilingual_book_maker, a batch": Sent(
        [
            system("Professional translator. Input has 2 segments separated by '\n\n@@\n\n'. Output 2 translations."),
            user(
                "Translate the following 2 text segments to french. Separate each translation with '\n\n@@\n\n'. Output"
                " EXACTLY 2 translations.\n\n" + BBM.format("The cat sleeps.\n\n@@\n\nIt dreams: of `mice`.", "french")
            ),
        ],
        None,
        "fr",
        ("The cat sleeps.", "It dreams: of `mice`."),
    ),
    # WeblateOrg/weblate 004a875 (with an example before), and db58819
    "Weblate": Sent(
        [
            system("\nYou are a professional translation engine specialized in structured localization tasks.\n"),
            user(
                '{"source_language": "en", "target_language": "cs", "glossary": [], "strings": [{"source": "Weblate"}]}'
            ),
            assistant('["Weblate"]'),
            user(
                json.dumps(
                    {
                        "source_language": "en",
                        "target_language": "pt_BR",
                        "glossary": [{"source": "cat", "target": "gato"}],
                        "strings": [
                            {"source": LINE, "parts": [{"type": "text", "text": LINE}], "key": "app.cat"},
                            {"source": "Hello, @@PH1@@!", "context": "greeting"},
                        ],
                    }
                )
            ),
        ],
        "en",
        "pt_BR",
        (LINE, "Hello, @@PH1@@!"),
    ),
    "Weblate, before": Sent(
        [system(WEBLATE_OLD), user("The cat sleeps.\n==WEBLATE_PART==\nIt dreams: of mice.")],
        "en",
        "pt_BR",
        ("The cat sleeps.", "It dreams: of mice."),
    ),
    # discourse/discourse-ai c312b31
    "Discourse AI": Sent(
        [
            system('... {"content": "Text to translate", "target_locale": "Target language code"}'),
            user(json.dumps({"content": TEXT, "target_locale": "zh_CN"})),
        ],
        None,
        "zh_CN",
    ),
    # machinewrapped/llm-subtrans 7dc054c
    "llm-subtrans": Sent(
        [system(SUBTRANS), user(SUBTRANS_LINES)], None, "fr", ("The cat sleeps.", "It dreams:\nof mice.")
    ),
    "llm-subtrans, with context": Sent(
        [
            system(SUBTRANS),
            user(
                "<context>\n<description>A film on cats</description>\n</context>\n\n"
                f"{SUBTRANS_LINES}\n\n<summary>Summary of the batch</summary>\n<scene>Summary of the scene</scene>\n"
            ),
        ],
        None,
        "fr",
        ("The cat sleeps.", "It dreams:\nof mice."),
    ),
    # NothingNullNull/XUnity.AutoLLMTranslator 82afa0e
    "XUnity.AutoLLMTranslator": Sent(
        [system(AUTO_LLM), user('[1]="猫が寝ている。"\n[2]="ネズミの夢を\\n見る。"\n')],
        "ja",
        "en",
        ("猫が寝ている。", "ネズミの夢を\\n見る。"),
    ),
    # nidhaloff/deep-translator fa67ada
    "deep-translator": Sent([user(f'Translate the text below into french.\nText: "{TEXT}"')], None, "fr"),
    # What this service asks a large model
    "Interlinear": Sent(
        [
            system("You translate from English into French. Answer with the translation alone: no explanation."),
            user(f"What comes before the text, not to be translated: A cat.\nThe text to translate:\n{TEXT}"),
        ],
        "en",
        "fr",
    ),
    # By hand
    "an instruction before a colon": Sent(
        [user("Translate to French: He said: hello\nand left")], None, "fr", ("He said: hello\nand left",)
    ),
    "an instruction in Chinese": Sent([user(f"请把下面的文字翻译成法语：\n{TEXT}")], None, "fr"),
    "a code": Sent([user(f"Translate to de:\n{TEXT}")], None, "de"),
    "content in parts": Sent(
        [system("Translate the user's text into Ukrainian."), user([{"type": "text", "text": LINE}])],
        None,
        "uk",
        (LINE,),
    ),
    "a developer's message": Sent([{"role": "developer", "content": "Translate into 한국어."}, user(TEXT)], None, "ko"),
    "what an answer begins with": Sent(
        [system("Translate into Italian."), user(LINE), assistant("")], None, "it", (LINE,)
    ),
}


@pytest.mark.parametrize("sent", PROMPTS.values(), ids=PROMPTS)
def test_the_text_and_the_languages_of_a_prompt_are_found(sent: Sent) -> None:
    found = asked(sent.messages)
    assert (found.texts, found.source, found.target) == (sent.texts, sent.source, sent.target)


@pytest.mark.parametrize("sent", [each for each in PROMPTS.values() if len(each.texts) == 1])
def test_the_answer_to_one_text_is_its_translation_alone(sent: Sent) -> None:
    assert asked(sent.messages).answer(["Le chat dort."]) == "Le chat dort."


def test_the_tools_that_a_refusal_names_are_those_tried() -> None:
    tried = {name.split(",")[0] for name in PROMPTS}
    assert {name for name in tried if name[0].isupper() and name != "Interlinear" and name not in TOOLS} == set()


ANSWERS = {
    "Immersive Translate, paragraphs": "Un.\n\n%%\n\nDeux.",
    "Immersive Translate, YAML": "- id: 1\n  text: Un.\n- id: 2\n  text: Deux.\n",
    "bilingual_book_maker, a batch": "Un.\n\n@@\n\nDeux.",
    "Weblate": '["Un.", "Deux."]',
    "Weblate, before": "Un.\n==WEBLATE_PART==\nDeux.",
    "llm-subtrans": "#1\nTranslation>\nUn.\n\n#2\nTranslation>\nDeux.\n\n",
    "llm-subtrans, with context": "#1\nTranslation>\nUn.\n\n#2\nTranslation>\nDeux.\n\n",
    "XUnity.AutoLLMTranslator": '[1]="Un."\n[2]="Deux."\n',
}


@pytest.mark.parametrize("name", [name for name, sent in PROMPTS.items() if len(sent.texts) > 1])
def test_the_answer_to_several_texts_has_the_form_that_the_tool_reads(name: str) -> None:
    assert asked(PROMPTS[name].messages).answer(["Un.", "Deux."]) == ANSWERS[name]


SEGMENTS = json.dumps(
    {
        "targetLanguage": "zh-CN",
        "segments": [{"id": 0, "text": "A <b>cat</b>."}, {"id": 1, "text": "It dreams."}],
        "title": "How to translate into German",
        "glossary": {"cat": "猫"},
        "tone": "formal",
    }
)


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        (
            "Output a single raw JSON object only. No extra text or fences.",
            '{"translations": [{"id": 0, "text": "<b>猫</b>。"}, {"id": 1, "text": "它\\n做梦。"}]}',
        ),
        (
            'Output raw XML-like format only. ...\n<root>\n    <t id="0" sourceLanguage="en">...</t>\n</root>',
            '<root>\n<t id="0"><b>猫</b>。</t>\n<t id="1">它\n做梦。</t>\n</root>',
        ),
        ('Output raw text lines in "ID | Text" format. No Markdown.', "0 | <b>猫</b>。\n1 | 它<br>做梦。\n"),
    ],
)
def test_kiss_translators_batches_are_answered_in_the_form_asked_for(form: str, answer: str) -> None:
    """fishjar/kiss-translator 97c08cf. Its system messages describe the form at length."""
    found = asked([system(f"Act as a translation API. {form}"), user(SEGMENTS)])
    assert (found.texts, found.source, found.target) == (("A <b>cat</b>.", "It dreams."), None, "zh-CN")
    assert found.answer(["<b>猫</b>。", "它\n做梦。"]) == answer


def test_lingarrs_batches_are_answered_as_json() -> None:
    """lingarr-translate/lingarr e26da8b: OpenAI reads the object, LocalAI what is between the outer brackets."""
    found = asked(
        [system(LINGARR), user('[{"position":7,"line":"The cat sleeps."},{"position":8,"line":"It dreams."}]')]
    )
    assert (found.texts, found.target) == (("The cat sleeps.", "It dreams."), "fr")
    assert json.loads(found.answer(["Le chat dort.", "Il rêve."])) == {
        "translations": [{"position": 7, "line": "Le chat dort."}, {"position": 8, "line": "Il rêve."}]
    }


@pytest.mark.parametrize(
    "text", ['{"a": "cat"}', '["cat"]', "[cat]", "[1, 2]", "[]", '{"targetLanguage": "q", "segments": 1}']
)
def test_other_json_is_a_text(text: str) -> None:
    found = asked([system("Translate into French."), user(text)])
    assert found.texts == (text,)
    assert found.answer(["x"]) == "x"


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [user("Hello!")],
        [system("You are a helpful assistant."), user("Who translated the Iliad into English?")],
        [user("Summarise this article.\n\n" + "It is long. " * 40 + "Then translate it into French:\nno")],
        [user("Translate into Klingon:\nHello.")],
        [user("Translate what follows to be understood:\nHello.")],
        [user("Reply with the single word: ignored. Do not output JSON.")],  # bilingual_book_maker tries JSON schemas
        [assistant("Translate into French:\nHello.")],
        [user(None)],
    ],
)
def test_other_requests_are_refused_with_what_is_understood(messages: list[dict[str, Any]]) -> None:
    with pytest.raises(NotATranslation, match=r"no target language.*Translate into French:.*Subtitle Edit"):
        asked(messages)


@pytest.mark.parametrize(
    "messages", [[system("Translate into French."), user(" ")], [system("Translate into French.")]]
)
def test_a_request_without_a_text_is_refused(messages: list[dict[str, Any]]) -> None:
    with pytest.raises(NotATranslation, match="into fr is asked for, but the last message of the user has no text"):
        asked(messages)
