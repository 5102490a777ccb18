"""The requests of `benchmarks.golden_answers`: the same for the same texts, seed and count."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks import golden_texts
from benchmarks.golden_answers import Asked, Call, Configuration
from benchmarks.golden_documents import documents
from benchmarks.golden_large_model import SUPPORT, TEMPLATES
from benchmarks.golden_texts import LANGUAGES, NAMES, PLAIN, ROOT, Draw, markup, texts_of

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
BOUNDARY = "----golden"
PAIRS = ("en-de", "en-fr", "en-es", "en-zh", "de-en", "fr-en", "es-en", "zh-en")
PIVOTS = ("de-es", "zh-fr", "fr-de", "es-zh", "fr-es", "zh-de", "de-fr", "es-fr", "de-zh", "fr-zh", "es-de", "zh-es")
GLOSSARIES = {
    "glossaries/home.en-fr.tsv": "house\tbaraque\ncat\tminet\nwindow\tlucarne\nfile\tdossier\nTom\tThomas\n",
    "glossaries/home.en-de.tsv": "house\tBude\ncat\tMieze\nwindow\tLuke\nfile\tAkte\nTom\tThomas\n",
    "glossaries/home.de-en.tsv": "Haus\tmansion\nKatze\tkitty\n",
    "glossaries/home.en-zh.tsv": "house\t宅子\ncat\t喵星人\nTom\t阿汤\n",
}
CONFIGURATIONS = (
    Configuration("default", {"glossaries": "@FOLDER@/glossaries"}, GLOSSARIES),
    Configuration(
        "memory", {"translation_memory": "@FOLDER@/memory.db", "glossaries": "@FOLDER@/glossaries"}, GLOSSARIES
    ),
    Configuration("source", {"min_quality": "0.35", "low_quality": "source"}),
    Configuration("warn", {"min_quality": "0.5", "low_quality": "warn"}),
    Configuration(
        "large model",
        {"llm_pairs": "en-fr,en-de,de-en,de-fr,en-ja,ja-en", "llm_below": "0.3"},
        has_large_model=True,
    ),
    Configuration(
        "small limits", {"max_text_chars": "300", "max_items": "4", "max_body_bytes": "4000", "pivot": "false"}
    ),
)
FOREIGN = (
    "Il gatto dorme sul tavolo della cucina.", "Кошка спит на столе.", "猫がテーブルの上で寝ています。",
    "O gato dorme na mesa.", "Kot śpi na stole.", "قطة نائمة", "Katten sover på bordet.", "고양이가 자요.",
)  # fmt: skip
"""Sentences in languages that no bundle reads."""
Made = Iterator[tuple[str, Sequence[Call]]]
"""Kinds, and what is asked."""


def post(path: str, body: object) -> Call:
    return Call("POST", path, JSON, json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def form(path: str, fields: Mapping[str, Any]) -> Call:
    return Call("POST", path, FORM, urlencode(fields, doseq=True).encode())


def get(path: str, fields: Mapping[str, Any] | None = None, **more: Any) -> Call:
    return Call("GET", f"{path}?{urlencode(fields, doseq=True)}" if fields else path, **more)


def upload(path: str, name: str, content: bytes, fields: Mapping[str, str], method: str = "POST", **more: Any) -> Call:
    parts = [
        *(f'Content-Disposition: form-data; name="{key}"\r\n\r\n{value}'.encode() for key, value in fields.items()),
        f'Content-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + content,
    ]
    body = b"".join(b"--%s\r\n%s\r\n" % (BOUNDARY.encode(), part) for part in parts)
    return Call(
        method, path, f"multipart/form-data; boundary={BOUNDARY}", body + f"--{BOUNDARY}--\r\n".encode(), **more
    )


def pair_of(draw: Draw, pairs: Sequence[str] = PAIRS) -> tuple[str, str]:
    source, _, target = draw.choice(pairs).partition("-")
    return source, target


def plain(draw: Draw, code: str) -> tuple[str, str]:
    """A kind of plain text, and one of it."""
    kind = draw.choices(list(PLAIN), [weight for weight, _ in PLAIN.values()])[0]
    return kind, PLAIN[kind][1](draw, code)


# ---- Our own API


def plain_texts(draw: Draw) -> Made:
    while True:
        source, target = pair_of(draw)
        kind, text = plain(draw, source)
        yield f"plain.{kind}", [post("/translate", {"text": text, "source": source, "target": target})]


def several(draw: Draw) -> Made:
    while True:
        source, target = pair_of(draw)
        texts = [plain(draw, source)[1] for _ in range(draw.randint(2, 6))]
        yield "plain.several", [post("/translate", {"text": texts, "source": source, "target": target})]


def lines(draw: Draw) -> Made:
    while True:
        source, target = pair_of(draw)
        text = golden_texts.wrapped(draw, source) if draw.random() < 0.8 else golden_texts.spaced(draw, source)
        body = {"text": text, "source": source, "target": target, "line_breaks": draw.choice(["join", "auto"])}
        yield "plain.lines", [post("/translate", body)]


def _page(draw: Draw, kind: str, code: str) -> str:
    match kind:
        case "page":
            return markup(draw, code)
        case "inline":
            return golden_texts.tagged(draw, code)
        case "literals":
            return draw.choice([text for text in draw.texts.literals if "<" in text])
        case "xml":
            return golden_texts.xml(draw, code)
    return plain(draw, code)[1]


def pages(draw: Draw) -> Made:
    while True:
        source, target = pair_of(draw)
        kind = draw.choices(["page", "page", "inline", "literals", "xml", "plain"], [5, 4, 3, 2, 4, 2])[0]
        text = _page(draw, kind, source)
        name = "xml" if kind == "xml" else f"html.{kind}"
        yield name, [post("/translate", {"text": text, "source": source, "target": target, "format": "html"})]


def streams(draw: Draw) -> Made:
    while True:
        source, target = pair_of(draw, PAIRS * 3 + PIVOTS)
        is_html = draw.random() < 0.25
        one = markup(draw, source) if is_html else draw.choice([plain(draw, source)[1], draw.sentences(source, 2, 5)])
        text = one if draw.random() < 0.7 else [one, draw.sentence(source), plain(draw, source)[1]]
        body: dict[str, Any] = {"text": text, "source": source, "target": target}
        body["format"] = "html" if is_html else "text"
        if draw.random() < 0.15:
            body |= {"source": "auto"}
        if draw.random() < 0.1:
            body |= {"glossary": _terms(draw, draw.sentence(source))}
        yield f"stream.{'html' if is_html else 'text'}", [post("/translate/stream", body)]


def pivots(draw: Draw) -> Made:
    while True:
        source, target = pair_of(draw, PIVOTS)
        body: dict[str, Any] = {"text": plain(draw, source)[1], "source": source, "target": target}
        kind = draw.choices(["plain", "html", "alternatives", "alignment", "glossary"], [10, 3, 1, 1, 2])[0]
        if kind == "html":
            body |= {"text": markup(draw, source), "format": "html"}
        elif kind == "alternatives":
            body |= {"text": draw.sentence(source), "alternatives": draw.randint(1, 3)}
        elif kind == "alignment":
            body |= {"alignment": True}
        elif kind == "glossary":
            body |= {"glossary": _terms(draw, body["text"])}
        yield f"pivot.{kind}", [post("/translate", body)]


def _of_some_language(draw: Draw, kind: str, code: str) -> str | list[str]:
    other = draw.sentence(draw.choice(LANGUAGES))
    match kind:
        case "mixed":
            return f"{draw.sentence(code)} {other}"
        case "unclear":
            return draw.choice([draw.label(code), golden_texts.odd(draw, code), draw.sentence(code)[:9]])
        case "foreign":
            return draw.choice(FOREIGN)
        case "wrong":
            return other
        case "html":
            return markup(draw, code)
        case "several":
            return [other, draw.label(code), draw.choice(FOREIGN)]
    return draw.sentence(code)


def detections(draw: Draw) -> Made:
    while True:
        code, target = draw.choice(LANGUAGES), draw.choice(LANGUAGES)
        kind = draw.choices(
            ["right", "mixed", "unclear", "foreign", "wrong", "html", "several"], [8, 2, 4, 2, 3, 2, 2]
        )[0]
        text = _of_some_language(draw, kind, code)
        source = draw.choice([one for one in LANGUAGES if one != target]) if kind == "wrong" else "auto"
        body = {"text": text, "source": source, "target": target, "format": "html" if kind == "html" else "text"}
        yield f"detection.{kind}", [post("/translate", body)]


def alternatives(draw: Draw) -> Made:
    while True:
        source, target = pair_of(draw)
        text = draw.choice(
            [draw.sentence(source), draw.label(source), draw.sentences(source, 2, 2), plain(draw, source)[1]]
        )
        body = {"text": text[:200], "source": source, "target": target, "alternatives": draw.choice([1, 2, 2, 3, 5, 8])}
        if draw.random() < 0.15:
            body |= {"text": golden_texts.tagged(draw, source), "format": "html"}
        elif draw.random() < 0.2:
            body |= {"glossary": _terms(draw, text)}
        yield "alternatives", [post("/translate", body)]


def alignments(draw: Draw) -> Made:
    while True:
        source, target = pair_of(draw)
        body = {"text": plain(draw, source)[1], "source": source, "target": target, "alignment": True}
        if draw.random() < 0.2:
            body |= {"text": [body["text"], draw.sentence(source)], "alternatives": draw.choice([0, 0, 1])}
        yield "alignment", [post("/translate", body)]


def _terms(draw: Draw, text: str) -> dict[str, str]:
    """Terms of the text with unusual translations, which the model has to be forced to."""
    words = [word for word in re.findall(r"[^\W\d_]{3,}", text) if word.isascii() or len(word) < 20] or ["Tom"]
    given = [
        "Zwiebelturm",
        "truc bleu",
        "R&D",
        "Xyz",
        "pomme de pin",
        "{x}",
        "iPhone 15",
        "Käse-Igel",
        "测试词",
        "la caña",
    ]
    terms = {draw.choice(words): draw.choice(given) for _ in range(draw.randint(1, 3))}
    if draw.random() < 0.3:
        start = draw.randrange(len(words))
        terms[" ".join(words[start : start + 2])] = draw.choice(given)
    if draw.random() < 0.2:
        terms[draw.choice(words)] = draw.choice(words)  # stays as it is
    return terms


def glossaries(draw: Draw) -> Made:
    while True:
        source, target = pair_of(draw)
        kind = draw.choices(["inline", "html", "named", "several"], [8, 3, 3, 2])[0]
        text = plain(draw, source)[1]
        body: dict[str, Any] = {"text": text, "source": source, "target": target}
        if kind == "html":
            body |= {"text": (text := markup(draw, source)), "format": "html"}
        if kind == "several":
            body |= {"text": [text, draw.sentence(source), draw.sentence(source)]}
        body["glossary"] = _terms(draw, text)
        if kind == "named":
            source, target = pair_of(draw, ("en-fr", "en-de", "de-en", "en-zh") * 4 + ("en-es",))
            words = ["house", "cat", "window", "file", "Tom", "cats", "House", "Haus", "Katze"]
            text = draw.put_in(draw.sentence(source), *draw.choices(words, k=draw.randint(1, 2)))
            body = {"text": text, "source": source, "target": target, "glossary": "home"}
        yield f"glossary.{kind}", [post("/translate", body)]


def prefixes(draw: Draw) -> Made:
    openings = {
        "de": ["Ich", "Das ist", "Wir hab", "Tom w", "„", "Der kl", "Es gibt "],
        "fr": ["Je", "C'est", "Nous av", "Tom a", "« ", "La pet", "Il y a "],
        "es": ["Yo", "Es", "Hemos", "Tom est", "¿", "La pequeñ", "Hay "],
        "zh": ["我", "这是", "我们", "汤姆", "“", "他"],
        "en": ["I", "This is", "We hav", "Tom w", '"', "The sm", "There are "],
    }
    while True:
        source, target = pair_of(draw, PAIRS * 3 + PIVOTS[:2])
        pairs = draw.texts.pairs.get(target) if source == "en" else None
        text, prefix = draw.sentence(source), draw.choice(openings[target])
        if pairs and draw.random() < 0.7:
            text, whole = draw.choice(pairs)
            prefix = whole[: draw.randint(1, len(whole))]
        body: dict[str, Any] = {"text": text, "source": source, "target": target, "prefix": prefix}
        if draw.random() < 0.3:
            body |= {"alternatives": draw.choice([1, 3])}
        yield "prefix", [post("/translate", body)]


def scores(draw: Draw) -> Made:
    while True:
        source, target = pair_of(draw)
        pairs = draw.texts.pairs.get(target if source == "en" else source) or [
            (draw.sentence("en"), draw.sentence("de"))
        ]
        found = draw.choices(pairs, k=draw.randint(1, 3))
        if draw.random() < 0.3:
            found.append((draw.sentence("en"), draw.sentence(target if source == "en" else source)))
        given = [{"text": one, "translation": other} for one, other in found]
        if target == "en":
            given = [{"text": each["translation"], "translation": each["text"]} for each in given]
        body = {"pairs": given if len(given) > 1 else given[0], "source": source, "target": target}
        yield "score", [post("/score", body)]


def attentions(draw: Draw) -> Made:
    while True:
        source, target = pair_of(draw)
        body: dict[str, Any] = {"text": draw.sentence(source)[:60], "source": source, "target": target}
        body |= {"layers": [0], "heads": [draw.randrange(4)], "kinds": draw.sample(["encoder", "decoder", "cross"], 1)}
        body["as"] = draw.choice(["json", "json", "bertviz", "svg"])
        if draw.random() < 0.3:
            body["target_text"] = draw.sentence(target)[:60]
        yield "attention", [post("/attention", body)]


# ---- Documents


def files(draw: Draw) -> Made:
    found = documents(draw)
    for number, (name, content) in enumerate(cycle(found)):
        source, target = pair_of(draw, ("en-fr", "en-fr", "en-fr", "en-de", "en-es", "en-zh", "de-en", "de-fr"))
        fields = {"source": source, "target": target}
        if number >= len(found):  # the second time with options
            fields |= draw.choice(
                [
                    {"as": "review"}, {"as": "xliff"}, {"source": "auto"}, {"glossary": '{"file": "dossier bleu"}'},
                    {"sheet_names": "true"}, {"redo_fuzzy": "true"}, {"encoding": "keep"}, {"line_breaks": "join"},
                    {"line_breaks": "keep"}, {"columns": "text"}, {"columns": "en=fr"}, {"columns": "2"},
                    {"paths": "$.title"}, {"paths": "$..title, $.menu.*"},
                ]
            )  # fmt: skip
        suffix = name.rpartition(".")[2]
        how = draw.choices(["own", "cut", "libretranslate", "deepl", "report", "reviewed"], [12, 1, 1, 2, 1, 1])[0]
        kind = f"document.{suffix}"
        if how == "cut" and len(content) > 2:
            content = content[: draw.randrange(len(content))]
            yield f"{kind}.cut", [upload("/translate/file", name, content, fields)]
        elif how == "libretranslate":
            made = {"source": fields["source"], "target": target}
            capture = {"name": r"/download_file/([^\"]+)"}
            yield (
                f"{kind}.libretranslate",
                [
                    upload("/libretranslate/translate_file", name, content, made, capture=capture),
                    get("/libretranslate/download_file/@name@"),
                ],
            )
        elif how == "deepl":
            yield f"{kind}.deepl", _deepl_document(name, content, target)
        elif how == "report":
            capture = {"path": "x-interlinear-report: (.+)"}
            yield f"{kind}.report", [upload("/translate/file", name, content, fields, capture=capture), get("@path@")]
        elif how == "reviewed":
            asked = {**fields, "as": "xliff"}
            capture = {"review": r"(?s)\n\n(.*)"}
            yield (
                f"{kind}.reviewed",
                [
                    upload("/translate/file", name, content, asked, capture=capture),
                    _with_review(name, content, fields, b"@review@"),
                ],
            )
        else:
            yield kind, [upload("/translate/file", name, content, fields)]


def _with_review(name: str, content: bytes, fields: Mapping[str, str], review: bytes) -> Call:
    call = upload("/translate/file", name, content, fields)
    part = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="review"; filename="r.xliff"\r\n\r\n'.encode()
    return Call("POST", call.path, call.media_type, part + review + b"\r\n" + call.body)


def _deepl_document(name: str, content: bytes, target: str) -> Sequence[Call]:
    capture = {"id": r'"document_id":"(\w+)"', "key": r'"document_key":"(\w+)"'}
    key = b'{"document_key": "@key@"}'
    return [
        upload(
            "/deepl/v2/document", name, content, {"target_lang": target.upper(), "source_lang": "EN"}, capture=capture
        ),
        Call("POST", "/deepl/v2/document/@id@", JSON, key, until='"status":"(done|error)"'),
        Call("POST", "/deepl/v2/document/@id@/result", JSON, key),
    ]


# ---- Dialects


def dialects(draw: Draw) -> Made:
    makers: Sequence[Callable[[Draw], tuple[str, Sequence[Call]]]] = (
        _libretranslate, _libretranslate, _libretranslate, _deepl, _deepl, _deepl, _deepl, _deepl_glossary, _google,
        _google, _azure, _azure, _small, _small, _small, _chat, _chat, _free, _evaluation,
    )  # fmt: skip
    while True:
        kind, calls = draw.choice(makers)(draw)
        yield f"dialect.{kind}", calls


def _libretranslate(draw: Draw) -> tuple[str, Sequence[Call]]:
    source, target = pair_of(draw, PAIRS * 2 + PIVOTS)
    if draw.texts.cases and draw.random() < 0.1:
        case = dict(draw.choice(draw.texts.cases))
        return "libretranslate", [
            post("/libretranslate/translate", {**case, "target": draw.choice(["de", "fr", "es", "zh"])})
        ]
    body: dict[str, Any] = {
        "q": plain(draw, source)[1],
        "source": draw.choice([source, source, "auto"]),
        "target": target,
    }
    if draw.random() < 0.3:
        body |= {"q": markup(draw, source), "format": "html"}
    if draw.random() < 0.2:
        body |= {"alternatives": draw.randint(1, 3)}
    if draw.random() < 0.2:
        body |= {"q": [body["q"], draw.sentence(source)]}
        return "libretranslate", [post("/libretranslate/translate", body)]
    if draw.random() < 0.15:
        return "libretranslate", [post("/libretranslate/detect", {"q": body["q"]})]
    return "libretranslate", [draw.choice([post, form])("/libretranslate/translate", body)]


def _deepl(draw: Draw) -> tuple[str, Sequence[Call]]:
    source, target = pair_of(draw, PAIRS * 2 + PIVOTS)
    body: dict[str, Any] = {"text": [plain(draw, source)[1]], "target_lang": target.upper()}
    if draw.random() < 0.7:
        body["source_lang"] = source.upper()
    kind = draw.choices(["plain", "xml", "html", "formality", "splitting"], [4, 4, 2, 3, 2])[0]
    if kind == "xml":
        body |= {"text": [golden_texts.xml(draw, source)], "tag_handling": "xml"}
        body |= draw.choice([{}, {"ignore_tags": ["b", "i"]}, {"splitting_tags": ["title"], "outline_detection": False},
                             {"non_splitting_tags": ["title"]}, {"outline_detection": False}])  # fmt: skip
    elif kind == "html":
        body |= {"text": [markup(draw, source)], "tag_handling": "html"}
    elif kind == "formality":
        body["text"] = [
            draw.choice([draw.sentence(source), "How are you? Have you seen your friends?", "Open your door."])
        ]
        body["formality"] = draw.choice(["more", "less", "prefer_more", "prefer_less", "default"])
    elif kind == "splitting":
        body |= {"text": [golden_texts.spaced(draw, source)], "split_sentences": draw.choice(["0", "1", "nonewlines"])}
    if draw.random() < 0.2:
        body["text"].append(draw.sentence(source))
    if draw.random() < 0.25 and "outline_detection" not in body:
        return f"deepl.{kind}", [form("/deepl/v2/translate", body)]
    return f"deepl.{kind}", [post("/deepl/v2/translate", body)]


def _deepl_glossary(draw: Draw) -> tuple[str, Sequence[Call]]:
    text = draw.sentence("en")
    terms = "\n".join(f"{term}\t{given}" for term, given in _terms(draw, text).items())
    made = {"name": "g", "source_lang": "en", "target_lang": "de", "entries": terms, "entries_format": "tsv"}
    made_call = post("/deepl/v2/glossaries", made)
    return "deepl.glossary", [
        Call("POST", made_call.path, JSON, made_call.body, {"id": r'"glossary_id": ?"([\w-]+)"'}),
        post("/deepl/v2/translate", {"text": [text], "source_lang": "EN", "target_lang": "DE", "glossary_id": "@id@"}),
        get("/deepl/v2/glossaries/@id@/entries"),
        get("/deepl/v3/glossaries/@id@"),
        Call("DELETE", "/deepl/v2/glossaries/@id@"),
    ]


def _evaluation(draw: Draw) -> tuple[str, Sequence[Call]]:
    code = draw.choice(["de", "fr"])
    pairs = draw.texts.pairs.get(code) or [(draw.sentence("en"), draw.sentence(code))]
    segments = [{"source": one, "target": other} for one, other in draw.choices(pairs, k=2)]
    segments[0]["target"] = draw.choice([segments[0]["target"], segments[0]["source"], draw.sentence(code)])
    body = {"metadata": {"source_language": "en", "target_language": code}, "segments": segments}
    call = post("/deepl/v1/quality-evaluation", body)
    return "deepl.evaluation", [
        Call("POST", call.path, JSON, call.body, {"id": r'"job_id": ?"([\w-]+)"'}),
        get("/deepl/v1/quality-evaluation/@id@"),
    ]


def _google(draw: Draw) -> tuple[str, Sequence[Call]]:
    source, target = pair_of(draw, PAIRS * 2 + PIVOTS)
    text, page, other = plain(draw, source)[1], markup(draw, source), draw.sentence(source)
    given, languages = draw.choice(["auto", source]), {"source": source, "target": target}
    v2, single, several = "/google/language/translate/v2", "/google/translate_a/single", "/google/translate_a/t"
    calls = (
        post(v2, {"q": [text, other], "format": "text", **languages}),
        get(v2, {"q": page, "target": target}),
        form(v2, {"q": text, **languages}),
        post(f"{v2}/detect", {"q": [text, other]}),
        get(single, {"q": text, "sl": given, "tl": target}),
        form(single, {"q": text, "sl": source, "tl": target, "dj": "1"}),
        form(several, {"q": [text, other], "sl": given, "tl": target}),
        form(several, {"q": page, "sl": source, "tl": target, "format": "html"}),
    )
    return "google", [draw.choice(calls)]


def _azure(draw: Draw) -> tuple[str, Sequence[Call]]:
    source, target = pair_of(draw, PAIRS * 2 + PIVOTS)
    query: dict[str, Any] = {"api-version": "3.0", "to": draw.choice([target, f"{target},{draw.choice(LANGUAGES)}"])}
    inputs: list[dict[str, Any]] = [{"Text": plain(draw, source)[1]}, {"Text": draw.sentence(source)}][
        : draw.randint(1, 2)
    ]
    kind = draw.choices(["plain", "html", "detect", "new"], [4, 2, 1, 2])[0]
    if draw.random() < 0.6:
        query["from"] = source
    if kind == "html":
        query["textType"] = "html"
        inputs = [{"Text": markup(draw, source)}]
    if kind == "detect":
        return "azure", [post("/azure/detect?api-version=3.0", inputs)]
    if kind == "new":
        targets = [{"language": target}]
        body = {"inputs": [{"text": each["Text"], "language": source, "targets": targets} for each in inputs]}
        return "azure", [post("/azure/translate?api-version=2026-06-06", body)]
    return "azure", [post(f"/azure/translate?{urlencode(query)}", inputs)]


def _small(draw: Draw) -> tuple[str, Sequence[Call]]:
    source, target = pair_of(draw, PAIRS * 2 + PIVOTS)
    text, given = plain(draw, source)[1], draw.choice([source, "auto"])
    flores = {"en": "eng_Latn", "de": "deu_Latn", "fr": "fra_Latn", "es": "spa_Latn", "zh": "zho_Hans"}
    chinese = {"en": "英语", "de": "德语", "fr": "法语", "es": "西班牙语", "zh": "中文(简体)"}
    fields = {"text": text, "source_lang": source.upper(), "target_lang": target.upper()}
    asked: Mapping[str, Callable[[], Call]] = {
        "deeplx": lambda: post("/deeplx/translate", fields),
        "deeplx.html": lambda: post(
            "/deeplx/v1/translate", {**fields, "text": markup(draw, source), "tag_handling": "html"}
        ),
        "deeplx.official": lambda: post("/deeplx/v2/translate", {**fields, "text": [text, draw.sentence(source)]}),
        "mtranserver": lambda: post("/mtranserver/translate", {"from": given, "to": target, "text": text}),
        "mtranserver.html": lambda: post(
            "/mtranserver/translate", {"from": source, "to": target, "text": markup(draw, source), "html": True}
        ),
        "mtranserver.batch": lambda: post(
            "/mtranserver/translate/batch", {"from": given, "to": target, "texts": [text, "Tom"]}
        ),
        "mtranserver.detect": lambda: post("/mtranserver/detect", {"text": text, "minConfidence": 0.5}),
        "immersive": lambda: post(
            "/immersive/translate",
            {"source_lang": given, "target_lang": target, "text_list": [text, draw.label(source)]},
        ),
        "kiss": lambda: post("/kiss/translate", {"text": text, "from": given, "to": target}),
        "hcfy": lambda: post("/hcfy/translate", {"text": text, "destination": [chinese[target], chinese["en"]]}),
        "hcfy.named": lambda: post(
            "/hcfy/translate", {"text": text, "source": chinese[source], "destination": [chinese[target]], "name": "x"}
        ),
        "nllb": lambda: post(
            "/nllb/translate", {"source": [text], "src_lang": flores[source], "tgt_lang": flores[target]}
        ),
        "nllb.api": lambda: get(
            "/nllb/api/v4/translator", {"text": text, "source": flores[source], "target": flores[target]}
        ),
        "plain": lambda: get("/plain/translate", {"text": text, "from": given, "to": target}),
        "omegat": lambda: get("/omegat/translate", {"text": text, "source": source, "target": target}),
    }
    name = draw.choice(list(asked))
    return name, [asked[name]()]


def _chat(draw: Draw) -> tuple[str, Sequence[Call]]:
    sys.path.append(str(SUPPORT))
    prompts = importlib.import_module("tests.app.api.dialects.test_chat_prompts").PROMPTS
    messages = draw.choice(list(prompts.values())).messages
    text = json.dumps(draw.sentence("en"), ensure_ascii=False)[1:-1]
    content = json.dumps(messages, ensure_ascii=False).replace("The cat sleeps.", text)
    body: dict[str, Any] = {"messages": json.loads(content), "model": "m", "stream": draw.random() < 0.4}
    if body["stream"]:
        body["stream_options"] = {"include_usage": draw.random() < 0.5}
    return f"openai.{'stream' if body['stream'] else 'whole'}", [post("/openai/v1/chat/completions", body)]


def _free(draw: Draw) -> tuple[str, Sequence[Call]]:
    """What has no text."""
    paths = (
        "/languages", "/models", "/health", "/ready", "/libretranslate/languages", "/libretranslate/frontend/settings",
        "/libretranslate/health", "/libretranslate/spec", "/deepl/v2/languages?type=target", "/deepl/v2/languages",
        "/deepl/v3/languages", "/deepl/v3/languages/resources", "/deepl/v2/glossary-language-pairs", "/deepl/v2/usage",
        "/google/language/translate/v2/languages?target=en", "/azure/languages", "/mtranserver/languages",
        "/mtranserver/version", "/openai/v1/models", "/deepl/v2/write/rephrase", "/deepl/v3/voice/x", "/openapi.json",
        "/deepl", "/google", "/azure", "/plain", "/nllb", "/omegat", "/catalogue", "/adaptation", "/models/jobs", "/",
        "/docs", "/nothing", "/memory?source=en&target=fr",
    )  # fmt: skip
    return "free", [get(draw.choice(paths))]


# ---- Errors


WRONG: Sequence[Any] = (
    {}, [], None, 7, "text", {"text": "Hello."}, {"text": "Hello.", "source": "en"},
    {"text": 7, "source": "en", "target": "fr"}, {"text": ["a", 7], "source": "en", "target": "fr"},
    {"text": "a", "source": "en", "target": "xx"}, {"text": "a", "source": "xx", "target": "fr"},
    {"text": "a", "source": "en", "target": "en"}, {"text": "a", "source": "en", "target": "auto"},
    {"text": "a", "source": "en", "target": "fr", "more": 1}, {"text": "a", "source": "", "target": "fr"},
    {"text": "a", "source": "en", "target": "fr", "alternatives": 9},
    {"text": "a", "source": "en", "target": "fr", "alternatives": "2"},
    {"text": "a", "source": "en", "target": "fr", "format": "pdf"},
    {"text": "a", "source": "en", "target": "fr", "alignment": True, "format": "html"},
    {"text": "a", "source": "en", "target": "fr", "prefix": "b", "glossary": {"a": "b"}},
    {"text": ["a", "b"], "source": "en", "target": "fr", "prefix": "b"},
    {"text": "a", "source": "en", "target": "fr", "line_breaks": "join", "alignment": True},
    {"text": "a", "source": "en", "target": "fr", "glossary": "none"},
    {"text": "a", "source": "en", "target": "fr", "glossary": {"a": 1}},
    {"text": "a", "source": "en", "target": "fr", "glossary": {"": "b"}},
    {"text": "a", "source": "en", "target": "fr", "memory": "exact"},
    {"text": "a", "source": "en", "target": "fr", "memory": "some"},
    {"text": "a", "source": "en", "target": "fr", "engine": "llm"},
    {"text": "a", "source": "en", "target": "fr", "engine": "best"},
    {"text": "a", "source": "en", "target": "fr", "deadline_ms": 0},
    {"text": "a" * 50_001, "source": "en", "target": "fr"}, {"text": ["a"] * 1_001, "source": "en", "target": "fr"},
    {"text": "\ud800", "source": "en", "target": "fr"}, {"q": "a", "source": "en", "target": "fr"},
    {"pairs": [], "source": "en", "target": "fr"}, {"pairs": {"text": "a"}, "source": "en", "target": "fr"},
    {"pairs": {"text": "a", "translation": "b"}, "source": "auto", "target": "fr"},
    {"text": "a " * 600, "source": "en", "target": "fr"}, {"text": "a", "source": "EN", "target": "FR-ca"},
    {"text": "a", "source": "en-GB", "target": "zh-TW"}, {"text": "a", "source": "en", "target": "fr", "layers": [99]},
    {"text": "a", "source": "en", "target": "fr", "kinds": []},
)  # fmt: skip
BROKEN = (
    b"",
    b"{",
    b'{"text": "a", }',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"text": NaN}',
    b'"a"',
    b"{}{}",
    b'{"a":1,"a":2}',
)
OWN_PATHS = ("/translate", "/translate/stream", "/score", "/attention")
OTHER_PATHS = (
    "/libretranslate/translate", "/deepl/v2/translate", "/google/language/translate/v2", "/azure/translate",
    "/deeplx/translate", "/mtranserver/translate", "/kiss/translate", "/immersive/translate", "/hcfy/translate",
    "/nllb/translate", "/plain/translate", "/omegat/translate", "/openai/v1/chat/completions", "/translate/file",
    "/deepl/v2/document", "/libretranslate/translate_file", "/deepl/v2/glossaries", "/deepl/v3/glossaries", "/memory",
    "/libretranslate/detect", "/libretranslate/suggest", "/google/translate_a/single", "/mtranserver/translate/batch",
)  # fmt: skip


def _wrong(draw: Draw, kind: str, path: str) -> Call:
    match kind:
        case "field":
            return post(path, draw.choice(WRONG))
        case "json":
            return Call("POST", path, JSON, draw.choice(BROKEN))
        case "type":
            return Call("POST", path, draw.choice(["", "text/plain", FORM, "multipart/form-data"]), b"a=b")
        case "method":
            return Call(draw.choice(["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"]), path)
    return upload(
        "/translate/file",
        draw.choice(["a.exe", "a", "a.docx", "a.json", "a.xliff", "a.pdf", "a.po", "a.html", ""]),
        draw.choice([b"", b"Hello.", b"PK\3\4", b"{", b"<a", b"%PDF-1.4", b"\x00\xff"]),
        draw.choice([{"source": "en", "target": "fr"}, {"source": "en"}, {"target": "xx", "source": "en"}, {}]),
    )


def errors(draw: Draw) -> Made:
    while True:
        path = draw.choice([*OWN_PATHS, *OWN_PATHS, *OTHER_PATHS])
        kind = draw.choices(["field", "json", "type", "method", "file"], [10, 3, 1, 1, 1])[0]
        yield f"error.{kind}", [_wrong(draw, kind, path)]


def limits(draw: Draw) -> Made:
    """Of the configuration with small limits."""
    while True:
        source, target = pair_of(draw, PAIRS[:4] + PIVOTS)
        text = draw.choice([draw.sentence(source), draw.sentences(source, 3, 9), "a" * draw.randint(1, 5000)])
        body = {"text": draw.choice([text, [text] * draw.randint(1, 6)]), "source": source, "target": target}
        path = draw.choice(["/translate", "/translate/stream", "/libretranslate/translate", "/deepl/v2/translate"])
        if "libre" in path:
            body["q"] = body.pop("text")
        elif "deepl" in path:
            body = {"text": [text], "source_lang": source.upper(), "target_lang": target.upper()}
        yield "error.limits", [post(path, body)]


# ---- Configurations of their own


def quality(draw: Draw) -> Made:
    while True:
        source, target = pair_of(draw, PAIRS * 3 + PIVOTS)
        kind = draw.choices(["plain", "html", "stream", "alternatives", "glossary", "several"], [10, 4, 2, 1, 2, 1])[0]
        body: dict[str, Any] = {"text": plain(draw, source)[1], "source": source, "target": target}
        if kind == "html":
            body |= {"text": markup(draw, source), "format": "html"}
        elif kind == "alternatives":
            body |= {"alternatives": 2}
        elif kind == "glossary":
            body |= {"glossary": _terms(draw, body["text"])}
        elif kind == "several":
            body |= {"text": [body["text"], draw.sentences(source, 2, 3)]}
        path = "/translate/stream" if kind == "stream" else "/translate"
        yield f"quality.{kind}", [post(path, body)]


def _filled(draw: Draw, template: tuple[str, str, str] | None = None) -> tuple[str, str, str]:
    """A sentence that the large model's stub knows, and its translations."""
    template = template or draw.choice(TEMPLATES)
    fillers = [
        *NAMES,
        "Paris",
        "12",
        "7",
        "1,250",
        "30",
        "{name}",
        "%s",
        "{0}",
        "10:30",
        "a.txt",
        "my brother",
        "Sunday",
    ]
    values = draw.sample(fillers, template[0].count("{}"))
    english, french, german = (each.format(*values) for each in template)
    return english, french, german


def large_model(draw: Draw) -> Made:
    while True:
        kind = draw.choices(
            ["llm", "auto", "below", "stream", "html", "glossary", "several", "alone", "unserved", "local", "pivot",
             "file", "dialect"],
            [10, 6, 5, 3, 3, 3, 2, 3, 1, 1, 2, 1, 2],
        )[0]  # fmt: skip
        source, target = pair_of(draw, ("en-fr", "en-fr", "en-de"))
        text = _filled(draw)[0]
        body: dict[str, Any] = {"text": text, "source": source, "target": target, "engine": "llm"}
        path = "/translate"
        if kind == "auto":
            del body["engine"]
        elif kind == "below":
            body |= {"engine": "auto", "llm_below": draw.choice([0, 0.1, 0.3, 0.5, 0.9, 1])}
            body["text"] = draw.choice([text, draw.sentence("en"), f"{text} {_filled(draw)[0]} {draw.sentence('en')}"])
        elif kind == "stream":
            path = "/translate/stream"
            body["text"] = f"{text} {_filled(draw)[0]} {plain(draw, 'en')[1]}"
        elif kind == "html":
            words = text.split(" ")
            at = draw.randrange(len(words))
            words[at] = f"<b>{words[at]}</b>"
            body |= {"text": f"<p>{' '.join(words)}</p>", "format": "html"}
        elif kind == "glossary":
            body |= {"glossary": _terms(draw, text)}
        elif kind == "several":
            body |= {"text": [text, f"{_filled(draw)[0]}\n{_filled(draw)[0]}", plain(draw, "en")[1]]}
        elif kind == "alone":
            body |= {"target": "ja", "text": draw.choice([text, f"{text} {_filled(draw)[0]}", f"<p>{text}</p>"])}
            body |= {"engine": draw.choice([None, "auto", "llm", "local"])}
            body |= {"format": "html"} if "<p>" in body["text"] else {}
        elif kind == "unserved":
            source, target = pair_of(draw, ("en-es", "en-zh", "fr-en", "en-ko", "es-de"))
            body |= {"source": source, "target": target, "text": draw.sentence(source)}
        elif kind == "local":
            body |= {"engine": "local"}
        elif kind == "pivot":
            body |= {"source": "de", "target": draw.choice(["fr", "en"]), "text": draw.sentence("de")}
        elif kind == "file":
            content = "\n\n".join(_filled(draw)[0] for _ in range(3)).encode()
            fields = {"source": source, "target": target, "engine": draw.choice(["llm", "auto"])}
            yield "llm.file", [upload("/translate/file", draw.choice(["a.txt", "a.md"]), content, fields)]
            continue
        elif kind == "dialect":
            asked = {"q": text, "source": source, "target": target, "engine": "llm"}
            yield "llm.dialect", [post("/libretranslate/translate", asked)]
            continue
        yield f"llm.{kind}", [post(path, body)]


def _remembered(draw: Draw) -> Iterator[Call]:
    """Fills the memories."""
    for place, target in enumerate(("fr", "de"), 1):
        filled = [_filled(draw, template) for template in TEMPLATES for _ in range(3)]
        pairs = [{"text": each[0], "translation": each[place]} for each in filled]
        pairs += [{"text": one, "translation": other} for one, other in draw.texts.pairs.get(target, [])[:400]]
        body = {"source": "en", "target": target, "pairs": pairs}
        yield Call("PUT", "/memory", JSON, json.dumps(body, ensure_ascii=False).encode())


def memory(draw: Draw) -> Made:
    setup = list(_remembered(draw))
    yield "setup", setup
    known = {call["target"]: call["pairs"] for call in (json.loads(each.body) for each in setup)}
    while True:
        target = draw.choice(["fr", "de"])
        text: str = draw.choice(known[target])["text"]
        kind = draw.choices(
            ["exact", "fuzzy", "repair", "off", "terms", "html", "stream", "search", "several", "pivot", "file",
             "dialect", "values", "invalid", "export", "deepl"],
            [4, 5, 8, 1, 3, 3, 2, 1, 2, 1, 1, 1, 4, 1, 0.3, 1],
        )[0]  # fmt: skip
        body: dict[str, Any] = {"text": text, "source": "en", "target": target}
        path = "/translate"
        if kind in ("fuzzy", "repair", "terms", "stream", "several"):
            body |= {"text": _changed(draw, text), "memory": draw.choice(["fuzzy", "repair", "repair"])}
        if kind == "fuzzy":
            body |= {"memory": "fuzzy"}
        elif kind == "repair":
            body |= {"memory": "repair", "repair_tolerance": draw.choice([0, 0, 0.5, 2, 10])}
        elif kind == "off":
            body |= {"memory": "off"}
        elif kind == "terms":
            body |= {"glossary": draw.choice(["home", _terms(draw, body["text"])])}
        elif kind == "html":
            body |= {"text": f"<p>{text} <b>{_changed(draw, text)}</b></p>", "format": "html"}
            body |= {"memory": draw.choice(["exact", "fuzzy", "repair"])}
        elif kind == "stream":
            path = "/translate/stream"
            body |= {"text": f"{text} {body['text']} {draw.sentence('en')}"}
        elif kind == "several":
            body |= {"text": [text, body["text"], f"{text} {body['text']}"]}
        elif kind == "pivot":
            body |= {"source": draw.choice(["de", "es"]), "text": draw.sentence("de"), "target": "fr"}
        elif kind == "values":
            body |= {"text": _filled(draw)[0]}
        elif kind == "search":
            query = {"source": "en", "target": target, "text": _changed(draw, text), "limit": 4}
            yield "memory.search", [get("/memory/search", query)]
            continue
        elif kind == "file":
            content = f"{text}\n\n{_changed(draw, text)} {text}\n".encode()
            yield "memory.file", [upload("/translate/file", "a.txt", content, {"source": "en", "target": target})]
            continue
        elif kind == "dialect":
            yield "memory.dialect", [post("/libretranslate/translate", {"q": text, "source": "en", "target": target})]
            continue
        elif kind == "invalid":
            yield "memory.invalid", [_invalid_change(draw)]
            continue
        elif kind == "export":
            yield "memory.export", [get("/memory", {"source": "en", "target": target})]
            continue
        elif kind == "deepl":
            asked = {"text": [text, _changed(draw, text)], "source_lang": "EN", "target_lang": target.upper()}
            yield (
                "memory.deepl",
                [
                    get("/deepl/v3/translation_memories", capture={"id": r'"translation_memory_id": ?"([\w-]+)"'}),
                    post("/deepl/v2/translate", {**asked, "translation_memory_id": "@id@"}),
                ],
            )
            continue
        yield f"memory.{kind}", [post(path, body)]


def _invalid_change(draw: Draw) -> Call:
    """A change of the memory that is refused: a valid one would change the answers of others."""
    bodies: Sequence[object] = (
        {"source": "en", "target": "fr", "pairs": []}, {"source": "en", "target": "xx", "pairs": []}, {}, [],
        {"source": "en", "target": "fr", "pairs": [{"text": "a"}]},
        {"source": "auto", "target": "fr", "pairs": [{"text": "a", "translation": "b"}]},
    )  # fmt: skip
    return Call("PUT", "/memory", JSON, json.dumps(draw.choice(bodies)).encode())


def _changed(draw: Draw, text: str) -> str:
    """The text with a word or two replaced, added or left out."""
    words = text.split(" ")
    others = ["blue", "old", "Marie", "7", "99", "quickly", "the garden", "yesterday", "not", "{n}", "green", "my"]
    for _ in range(draw.choice([1, 1, 1, 2])):
        at = draw.randrange(len(words))
        match draw.choice(["replace", "replace", "insert", "remove", "capital"]):
            case "replace":
                words[at] = draw.choice(others)
            case "insert":
                words.insert(at, draw.choice(others))
            case "remove" if len(words) > 2:
                del words[at]
            case _:
                words[at] = words[at].capitalize()
    return " ".join(words)


# ---- All of them


KINDS: Sequence[tuple[str, float, Callable[[Draw], Made]]] = (
    ("default", 34, plain_texts),
    ("default", 1.5, several),
    ("default", 1.5, lines),
    ("default", 13, pages),
    ("default", 5, streams),
    ("default", 5, pivots),
    ("default", 5, detections),
    ("default", 2.5, alternatives),
    ("default", 3.5, alignments),
    ("default", 5, glossaries),
    ("default", 2, prefixes),
    ("default", 2, scores),
    ("default", 0.8, attentions),
    ("default", 5, files),
    ("default", 10, dialects),
    ("default", 3.5, errors),
    ("memory", 6, memory),
    ("source", 2, quality),
    ("warn", 2, quality),
    ("large model", 6, large_model),
    ("small limits", 0.7, limits),
)
"""Configurations, shares of the requests, and what makes them."""


def all_requests(
    count: int, corpora: Path | None
) -> tuple[Sequence[Configuration], dict[str, list[Asked]], Mapping[str, int]]:
    """The configurations, what each is asked, and how many texts of each source there were."""
    shared = ROOT.parent / "shared"
    corpora = corpora or (shared / "corpora" if (shared / "corpora").is_dir() else None)
    texts = texts_of(corpora, shared if (shared / "cases").is_dir() else None)
    made = dict[str, list[Asked]]()
    total, number, seen = sum(share for _, share, _ in KINDS), 0, Counter[str]()
    for configuration, share, make in KINDS:
        asked = made.setdefault(configuration, [])
        requests = make(Draw(f"{configuration} {make.__name__}", texts))
        for _ in range(max(1, round(count * share / total))):
            kind, calls = next(requests)
            if kind == "setup":
                asked += [Asked(number := number + 1, kind, [call]) for call in calls]
                kind, calls = next(requests)
            kind = kind if configuration in ("default", "memory", "large model") else f"{configuration}.{kind}"
            asked.append(Asked(number := number + 1, kind, calls))
            seen[kind] += 1
    return CONFIGURATIONS, made, texts.sources
