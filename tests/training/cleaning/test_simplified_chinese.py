"""Simplified Chinese: how training text is converted, and that the service normalises sources the same way."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.text.language_id import Detector
from model.bundle_weights import LoadedBundle
from model.config import ModelConfig
from model.directions import Direction
from model.hypothesis import Hypothesis, Limits
from model.tokenizer import Tokenizer, Tokenizers
from model.transformer import Transformer
from training.adapt.finetune import FineTuning, InitialBundle
from training.cleaning.simplified_chinese import (
    SIMPLIFIED,
    is_simplified_chinese,
    references_in_script,
    simplification_rules,
    simplified,
)
from training.corpora.corpus import LineTally, Pair, read_pairs, write_pairs
from training.data.options import PrepareOptions
from training.data.prepare import prepare_corpora
from training.data.vocabulary import train_vocabulary
from training.evaluation.evaluate import TestSet, evaluate_set, report
from training.pipeline.options import prepare_options
from training.pipeline.recipe_file import RecipeFile
from training.synthetic.teacher import Teacher

pytestmark = pytest.mark.slow

MIXED = [
    Pair("The dragon dances in the square.", "龍在廣場上跳舞。"),
    Pair("The train arrives tomorrow morning.", "火车明天早上到。"),
    Pair("He dries the mushrooms.", "他乾燥蘑菇，看著計畫書。"),
    Pair("They love the garden.", "他们喜欢花园。"),
    Pair("This bridge is famous.", "這座橋很著名。"),
] * 4
LINES = [side for pair in MIXED for side in pair]
TEXT = st.text(st.characters(codec="utf-8") | st.sampled_from("龍乾坤薴苧計畫著e\u0301\u4e7e\ufa0a ▁"), max_size=20)


@functools.cache
def simplifying() -> Tokenizer:
    return Tokenizer(train_vocabulary(LINES, 420, ["en", "zh"], rules=simplification_rules()))


@functools.cache
def keeping() -> Tokenizer:
    return Tokenizer(train_vocabulary(LINES, 420, ["en", "zh"]))


def options(tmp_path: Path, **fields: object) -> PrepareOptions:
    write_pairs(tmp_path / "pairs.tsv", [Pair(f"{n} {en}", f"{n}{zh}") for n, (en, zh) in enumerate(MIXED)])
    chosen = {"source": "en", "target": "zh", "out": tmp_path / "data", "vocab_size": 420, "keep": ("all",)} | fields
    return PrepareOptions((str(tmp_path / "pairs.tsv"),), **chosen)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("龍在廣場上跳舞。", "龙在广场上跳舞。"),
        ("乾燥的乾坤", "干燥的乾坤"),  # by phrases
        ("頭髮發展", "头发发展"),
        ("他們看著我寫著名的計畫", "他们看着我写著名的计划"),
        ("显著的著作", "显著的著作"),  # simplified already
        ("什么裡面", "什么里面"),  # both in one
        ("「你好」，Tom！①", "「你好」，Tom！①"),
        ("", ""),
    ],
)
def test_text_is_simplified_by_phrases(text: str, expected: str) -> None:
    assert simplified(text) == expected
    assert simplified(expected) == expected


@pytest.mark.parametrize("code", ["zh", "zh-CN", "zh_Hans", "zh-SG", "ZH"])
def test_chinese_is_simplified_unless_its_code_says_otherwise(code: str) -> None:
    assert is_simplified_chinese(code)


@pytest.mark.parametrize("code", ["zh-TW", "zh-Hant", "zh_HK", "zh-Hant-TW", "ja", "yue", "en"])
def test_texts_that_are_not_simplified_chinese(code: str) -> None:
    assert not is_simplified_chinese(code)


@pytest.mark.slow
def test_character_normalisation_agrees_with_opencc_on_most_text() -> None:
    for pair in MIXED:
        assert simplifying().normalise(pair.target) == simplified(pair.target).replace("看着", "看著")


def test_traditional_text_becomes_the_tokens_of_simplified_text() -> None:
    assert simplifying().encode("龍在廣場上跳舞。") == simplifying().encode("龙在广场上跳舞。")
    assert simplifying().encode("計畫乾燥") == simplifying().encode("计划干燥")
    assert simplifying().normalise("顯著，瞭望，，①\u00a0é") == "显著，瞭望，，①\u00a0é"


@given(TEXT)
def test_decoding_returns_the_normalised_text(text: str) -> None:
    assert simplifying().decode(simplifying().encode(text)) == simplifying().normalise(text)


@given(TEXT)
def test_normalising_is_idempotent(text: str) -> None:
    once = simplifying().normalise(text)
    assert simplifying().normalise(once) == once


@given(TEXT)
def test_pieces_cover_the_original_text(text: str) -> None:
    pieces = simplifying().pieces(text)
    assert [piece.id for piece in pieces] == simplifying().encode(text)
    assert [piece.start for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    if pieces:
        assert (pieces[0].start, pieces[-1].end) == (0, len(text))


@given(TEXT, st.sampled_from([0.0, 0.5, 1.0]))
def test_resegmented_tokens_have_the_same_text(text: str, dropout: float) -> None:
    ids = simplifying().encode(text)
    [drawn] = simplifying().resegment([ids], dropout, Random(1))
    assert simplifying().decode(drawn) == simplifying().normalise(text)
    assert drawn == ids or dropout


def test_no_rule_undoes_another_and_common_characters_have_one() -> None:
    rules = simplification_rules()
    assert rules["龍"] == "龙" and rules["計畫"] == "计划" and "著" not in rules and "看" not in rules
    assert rules["乾"] == "干" and "乾坤" not in rules  # SentencePiece has no rule that keeps
    assert len(rules) > 4000
    for old, new in rules.items():
        assert len(old) == len(new) <= 2  # spans of pieces stay those of the text sent
        if len(new) == 1:
            assert new not in rules


def test_prepared_text_is_simplified_and_counted(tmp_path: Path) -> None:
    said: list[str] = []
    prepare_corpora(options(tmp_path, dev_size=10), said.append)
    dev, _ = read_pairs(tmp_path / "data" / "dev.tsv")
    assert len(dev) == 10
    assert not set("".join(pair.target for pair in dev)) & set("龍廣場計畫這橋")
    assert any(f"12 lines repaired: {SIMPLIFIED}" in line for line in said)
    tokenizer = Tokenizer.load(tmp_path / "data" / "sentencepiece.model")
    assert tokenizer.normalise("龍") == "龙" and not tokenizer.has_piece("龍")


@pytest.mark.slow
def test_given_development_pairs_are_simplified_too(tmp_path: Path) -> None:
    write_pairs(tmp_path / "dev.tsv", [Pair("A dragon.", "一條龍。")])
    prepare_corpora(options(tmp_path, dev=str(tmp_path / "dev.tsv")), lambda line: None)
    assert read_pairs(tmp_path / "data" / "dev.tsv")[0] == [Pair("A dragon.", "一条龙。")]


@pytest.mark.parametrize("fields", [{"script": "keep"}, {"target": "zh-TW"}])
def test_other_chinese_is_unchanged(tmp_path: Path, fields: dict[str, object]) -> None:
    said: list[str] = []
    prepare_corpora(options(tmp_path, **fields), said.append)
    assert not any(SIMPLIFIED in line for line in said)
    assert Tokenizer.load(tmp_path / "data" / "sentencepiece.model").normalise("龍") == "龍"


@pytest.mark.parametrize(
    ("source", "target", "script", "sides", "rules"),
    [
        ("en", "zh", "auto", (True, True), True),
        ("zh", "en", "auto", (True, True), True),
        ("en", "fr", "auto", (False, False), False),
        ("en", "zh-TW", "simplified", (True, True), True),
        ("zh", "ja", "auto", (True, False), False),
        ("zh-TW", "zh-CN", "auto", (False, True), False),
    ],
)
def test_only_chinese_is_converted(
    source: str, target: str, script: str, sides: tuple[bool, bool], rules: bool
) -> None:
    asked = PrepareOptions(("-",), source, target, Path("data"), script=script)
    assert (asked.simplified_sides(), asked.normalises_characters()) == (sides, rules)


@pytest.mark.parametrize(
    ("target", "tokenizer", "said", "simplified"),
    [
        ("zh", simplifying, {}, True),
        ("zh", keeping, {}, False),  # made with --script keep
        ("zh-TW", simplifying, {}, True),  # with --script simplified
        ("zh-TW", keeping, {}, False),
        ("zh", keeping, {"script": "auto"}, True),
        ("fr", keeping, {}, False),
    ],
)
def test_fine_tuning_keeps_the_script_of_the_bundle(
    target: str, tokenizer: Callable[[], Tokenizer], said: dict[str, Any], simplified: bool
) -> None:
    both = Tokenizers.joint(tokenizer())
    sides = {"source": "en", "target": target, "direction": Direction("en", target), "tokenizers": both}
    bundle = SimpleNamespace(**sides, source_tokenizer=both.source, folder=Path("b"), limits=Limits(), config={})
    recipe = RecipeFile(pairs=("-",), prepare=said)
    asked = prepare_options(recipe, Path("work"), FineTuning(InitialBundle(cast(LoadedBundle, bundle))), ())
    assert asked.simplified_sides()[1] == simplified


@pytest.mark.parametrize(("script", "target"), [("traditional", "zh"), ("simplified", "fr")])
def test_script_without_a_meaning_is_refused(script: str, target: str) -> None:
    with pytest.raises(ValueError, match="--script"):
        PrepareOptions(("-",), "en", target, Path("data"), script=script)


def test_traditional_text_is_recognised_as_chinese() -> None:
    detector = Detector(["en", "zh"])
    assert detector.detect("請問這座橋很著名嗎？").language == "zh"


def test_references_are_compared_in_the_script_that_the_model_writes() -> None:
    assert references_in_script(["這座橋。", "火车。"], simplifying()) == ["这座桥。", "火车。"]
    assert references_in_script(["這座橋。"], keeping()) == ["這座橋。"]


def test_figure_says_how_many_references_were_converted_to_simplified() -> None:
    size = simplifying().vocab_size
    config = ModelConfig(size, size, d_model=16, num_heads=2, d_ff=16, encoder_layers=1, decoder_layers=1)
    test, said = TestSet("set", MIXED[:5], LineTally()), list[str]()
    result = evaluate_set(Transformer(config), Tokenizers.joint(simplifying()), Limits(64, 8), "zh", test)
    assert {metric["references_simplified"] for metric in result.metrics()} == {3}
    report(result, test, Limits(64, 8), said.append)
    assert any("3 references in traditional characters were simplified" in line for line in said)


def test_closest_pair_to_a_traditional_reference_is_found() -> None:
    def ended(text: str) -> Hypothesis:
        ids = simplifying().encode(text)
        done = Hypothesis(ids, 99)
        done.tokens, done.log_probs, done.finish_reason = [*ids, simplifying().eos_id], [-1.0] * (len(ids) + 1), "stop"
        return done

    decoded = Hypothesis([5], 99)
    decoded.finished = [ended("我们你在上。"), ended("龙爱广场上。")]  # as near to "龍愛廣場上。" as it stands
    bundle = cast(LoadedBundle, SimpleNamespace(target="zh", target_tokenizer=simplifying()))
    settings = {"device": "cpu", "precision": "float32", "beam": 2, "rows": 2, "nearest": True, "sample": None}
    teacher = Teacher(Path("b"), "b", **settings, seed=1, max_ratio=4.0, threads=1)  # type: ignore[arg-type]
    assert teacher.choose(bundle, decoded, "龍愛廣場上。") == ("龙爱广场上。", "")
