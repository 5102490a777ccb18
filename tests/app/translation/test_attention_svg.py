"""The picture of a sentence's attention shows the weights and tokens it was given, and is XML that runs nothing."""

from __future__ import annotations

import re
import zlib
from base64 import b64decode
from dataclasses import replace
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples

from app.errors import TooMuchText
from app.translation import attention_svg
from app.translation.attention import Attention, Kind, Selection, Weights
from model.bundle import Bundle
from model.tokenizer import Piece

SVG = "{http://www.w3.org/2000/svg}"
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
EVERYTHING = Selection(KINDS)


def attention(bundle: Bundle, source: list[str], target: list[str], layers: int = 2, heads: int = 2) -> Attention:
    """Random attention between tokens, each target token aligned with the source token of its number."""

    def weights(queries: int, keys: int) -> Weights:
        weights: Weights = np.random.default_rng(0).random((layers, heads, queries, keys), np.float32)
        return weights

    return Attention(
        bundle=bundle,
        text=" ".join(source),
        translation=" ".join(target),
        source_tokens=[Piece(0, piece, 0, 0) for piece in source],
        target_tokens=[Piece(0, piece, 0, 0) for piece in target],
        weights={
            "encoder": weights(len(source), len(source)),
            "decoder": weights(len(target), len(target)),
            "cross": weights(len(target), len(source)),
        },
        alignment=[(number % len(source), number) for number in range(len(target))],
    )


@pytest.fixture(scope="module")
def shown(bundle: Bundle) -> Attention:
    return attention(bundle, ["▁How", "▁are", "▁you", "</s>"], ["▁Ça", "▁va", "</s>"])


def drawn(shown: Attention, selection: Selection = EVERYTHING) -> Element:
    return fromstring(attention_svg.draw(shown, selection))


def images(picture: Element) -> list[bytes]:
    found = [image.attrib["href"].removeprefix("data:image/png;base64,") for image in picture.iter(f"{SVG}image")]
    return [b64decode(data, validate=True) for data in found]


def opacities(png: bytes) -> list[list[int]]:
    """The opacities of a grey and alpha image whose lines are not filtered."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, place = {}, 8
    while place < len(png):
        length, name = int.from_bytes(png[place : place + 4]), png[place + 4 : place + 8]
        data, check = png[place + 8 : place + 8 + length], png[place + 8 + length : place + 12 + length]
        assert int.from_bytes(check) == zlib.crc32(name + data)
        chunks[name], place = data, place + 12 + length
    assert [*chunks] == [b"IHDR", b"IDAT", b"IEND"]
    width, height = (int.from_bytes(chunks[b"IHDR"][start : start + 4]) for start in (0, 4))
    pixels = zlib.decompress(chunks[b"IDAT"])
    lines = [pixels[row * (2 * width + 1) :][: 2 * width + 1] for row in range(height)]
    assert len(pixels) == height * (2 * width + 1) and not any(line[0] for line in lines)
    return [list(line[2::2]) for line in lines]


def titles(picture: Element) -> list[str]:
    return [title.text or "" for title in picture.iter(f"{SVG}title")]


def written(picture: Element, parent: str) -> list[str]:
    [group] = picture.findall(f".//*[@id='{parent}']")
    return [text.text or "" for text in group.iter(f"{SVG}text")]


def test_every_pixel_has_its_weight(shown: Attention) -> None:
    pixels = images(drawn(shown))
    expected = [head for kind in KINDS for layer in shown.weights[kind] for head in layer]
    assert len(pixels) == len(expected) == 12
    for png, weights in zip(pixels, expected, strict=True):
        np.testing.assert_allclose(np.array(opacities(png)) / 255, np.sqrt(weights), atol=0.5 / 255 + 1e-6, rtol=0)


def test_axes_are_labelled_with_the_tokens(shown: Attention) -> None:
    picture = drawn(shown)
    for kind in KINDS:
        assert (written(picture, f"{kind}-rows"), written(picture, f"{kind}-columns")) == shown.axes(kind)
    assert written(picture, "decoder-columns") == ["<s>", "▁Ça", "▁va"]


def test_map_is_named_by_its_layer_and_head_in_the_model(shown: Attention) -> None:
    chosen = Selection(["cross"], layers=[5], heads=[3, 0])
    weights: dict[Kind, Weights] = {"cross": shown.weights["cross"][:1]}
    picture = drawn(replace(shown, weights=weights), chosen)
    assert [title for title in titles(picture) if "layer" in title] == [
        "Cross, layer 5, head 3",
        "Cross, layer 5, head 0",
    ]


def test_lines_connect_each_target_token_with_its_aligned_source_token(shown: Attention) -> None:
    picture = drawn(shown)
    [path] = picture.findall(f".//{SVG}path")
    ends = re.findall(r"M(\S+) \S+C.*? (\S+) \d+(?=M|$)", path.attrib["d"])
    words = [(word.attrib["x"], word.text) for word in picture.findall(f".//{SVG}text[@class='word']")]
    source, target = dict(words[:4]), dict(words[4:])
    assert [(source[above], target[below]) for above, below in ends] == [
        ("▁How", "▁Ça"),
        ("▁are", "▁va"),
        ("▁you", "</s>"),
    ]


def test_small_maps_label_each_weight(shown: Attention) -> None:
    told = [title for title in titles(drawn(shown)) if "→" in title]
    assert len(told) == sum(weights.size for weights in shown.weights.values())
    assert told[0] == f"\u2068▁How\u2069 → \u2068▁How\u2069: {float(shown.weights['encoder'][0, 0, 0, 0]):.4g}"


def test_svg_of_twenty_tokens_and_forty_maps_is_under_100_kilobytes(bundle: Bundle) -> None:
    """Random weights, which compress worse than those of a model."""
    picture = attention_svg.draw(attention(bundle, ["▁token"] * 20, ["▁token"] * 20, layers=3, heads=4), EVERYTHING)
    assert picture.count("<image") == 36
    assert len(picture.encode()) < 100_000 * 36 / 40


def test_too_large_svg_is_refused_with_the_limit(shown: Attention) -> None:
    with pytest.raises(TooMuchText, match="148 weights, over the limit of 147"):
        attention_svg.draw(shown, EVERYTHING, max_weights=147)
    attention_svg.draw(shown, EVERYTHING, max_weights=148)


@pytest.mark.parametrize("alignment", [[], [(0, 0), (0, 1)]])
def test_alignment_has_a_text_alternative(shown: Attention, alignment: list[tuple[int, int]]) -> None:
    [description] = drawn(replace(shown, alignment=alignment)).iter(f"{SVG}desc")
    assert (description.text or "").endswith(": 0-0 0-1)" if alignment else ": none)")


ANY = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
HOSTILE = st.sampled_from(
    ["<script>", "]]>", "&amp;", "'\"", "\x00\x1b\r\n\t", "\ufffe\uffff", "漢字", "שלום\u202e", "👩‍🔬", "#x", "--"]
)


@draw_examples(60)
@given(tokens=st.lists(ANY | HOSTILE, min_size=1, max_size=4), others=st.lists(ANY | HOSTILE, min_size=1, max_size=4))
def test_any_token_is_only_text(bundle: Bundle, tokens: list[str], others: list[str]) -> None:
    plain = drawn(attention(bundle, ["a"] * len(tokens), ["b"] * len(others), 1, 1))
    picture = drawn(attention(bundle, tokens, others, 1, 1))
    assert [element.tag for element in picture.iter()] == [element.tag for element in plain.iter()]
    assert written(picture, "cross-rows") == [visible(token) for token in others]
    assert written(picture, "encoder-columns") == [visible(token) for token in tokens]


def visible(token: str) -> str:
    """`token` with invisible characters and those invalid in XML made visible."""
    shown = "".join(chr(0x2400 + ord(character)) if ord(character) < 0x20 else character for character in token)
    return shown.replace("\x7f", "\u2421").replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")


def test_svg_runs_and_loads_nothing(bundle: Bundle) -> None:
    hostile: dict[str, Any] = {"source": ["<script>alert(1)</script>"], "target": ['" onload="alert(1)']}
    picture = drawn(attention(bundle, **hostile))
    drawing = {"svg", "title", "desc", "style", "defs", "filter", "feFlood", "feComposite", "linearGradient", "stop"}
    assert {element.tag.removeprefix(SVG) for element in picture.iter()} == drawing | {
        *("g", "rect", "text", "path", "use", "image")
    }
    for element in picture.iter():
        assert not [name for name in element.attrib if name.startswith("on")]
        assert element.attrib.get("href", "#").startswith(("#", "data:image/png;base64,"))
    [style] = picture.iter(f"{SVG}style")
    assert "@import" not in (style.text or "") and set(re.findall(r"url\((.)", style.text or "")) == {"#"}
