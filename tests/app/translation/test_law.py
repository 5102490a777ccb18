"""app/text/ and app/translation/: the law of docs/protected-text.md: symbols, codes, numbers, marks and tags are in
the translation exactly once.

An hour of it is in `make soak`, by `benchmarks.kept_text`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis_profiles import draw_examples
from shared_fixtures import SHIPPED, Service, serving

from benchmarks.kept_text import NAMED, NAMES, SENTENCES, Direction, directions, draw, faults

pytestmark = [pytest.mark.slow, pytest.mark.bundle]
DIRECTIONS = directions(SHIPPED)


@pytest.fixture(scope="module")
def shipped() -> Iterator[Service]:
    """The service of all bundles that ship."""
    with serving((SHIPPED,), precision="int8") as service:
        assert service.run(service.state.deployments.current.engine.wait_started())
        yield service


def translate(service: Service, direction: Direction, texts: list[str], **options: object) -> list[str]:
    body = {"text": texts, "source": direction.source, "target": direction.target, **options}
    response = service.post("/translate", body)
    assert response.status_code == 200, response.text
    return [item["text"] for item in response.json()["translations"]]


@draw_examples(100)
@given(choose=st.randoms(use_true_random=False), direction=st.sampled_from(DIRECTIONS))
def test_what_is_not_a_word_comes_back_exactly_once(
    shipped: Service, choose: random.Random, direction: Direction
) -> None:
    drawn = draw(direction.source, choose)
    [translation] = translate(shipped, direction, [drawn.text])
    assert faults(drawn.text, translation, drawn.kept, drawn.pairs) == []


@pytest.mark.parametrize("direction", DIRECTIONS, ids=lambda direction: direction.folder.name)
@pytest.mark.parametrize("kind", NAMES)
def test_most_names_stay_as_they_are(shipped: Service, direction: Direction, kind: str) -> None:
    names = NAMES[kind]
    for sentence in (NAMED[direction.source], SENTENCES[direction.source][4]):
        done = translate(shipped, direction, [sentence.replace("{}", name) for name in names])
        assert sum(name in text for name, text in zip(names, done, strict=True)) >= len(names) - 2


@pytest.mark.parametrize("direction", DIRECTIONS, ids=lambda direction: direction.folder.name)
def test_names_that_a_model_knows_are_translated(shipped: Service, direction: Direction) -> None:
    known = {"en-fr": ("I live in London.", "Londres"), "en-de": ("We are in France.", "Frankreich")}
    known |= {"fr-en": ("J'habite à Londres.", "London"), "de-en": ("Wir sind in Frankreich.", "France")}
    known |= {"en-es": ("I live in London.", "Londres"), "es-en": ("Vivo en Londres.", "London")}
    text, name = known.get(direction.folder.name, ("", ""))
    assert name in translate(shipped, direction, [text])[0] if text else True


@pytest.mark.skipif(not (SHIPPED / "de-en").is_dir(), reason="needs de-en")
@pytest.mark.parametrize("sentence", ["Mein Freund {} wohnt in London.", "Frau {} ruft morgen an."])
def test_german_names_that_are_words_stay_after_a_title_or_a_relation(shipped: Service, sentence: str) -> None:
    names = ["Fischer", "Schneider", "Koch", "Bauer", "Klein", "Wolf", "Zimmermann", "Braun", "Fuchs", "Weiß", "Vogel"]
    direction = next(one for one in DIRECTIONS if one.folder.name == "de-en")
    done = translate(shipped, direction, [sentence.replace("{}", name) for name in names])
    assert [text for name, text in zip(names, done, strict=True) if name not in text] == []
    plain = [
        "Meine Schwester Gisela trinkt gern Tee.",
        "Guten Morgen, Herr Lehrer!",
        "Gestern gab meine Frau Geld aus.",
        "Gestern gab die Frau Geld aus.",
    ]
    assert not {"Tee", "Lehrer", "Geld"} & {
        word for text in translate(shipped, direction, plain) for word in text.split()
    }


@pytest.mark.parametrize(
    ("pair", "text", "numbers"),
    [
        ("de-en", "Das Haus kostet 2.200.112 Euro.", ["2,200,112"]),
        ("de-en", "Die Tasche kostet 12,50 € und wiegt 1,5 kg.", ["12.50", "1.5"]),
        ("de-en", "Der Preis stieg um 12,5 %.", ["12.5%"]),
        ("de-en", "Es sind 10 000 Menschen in der Stadt.", ["10,000"]),
        ("en-de", "The house costs $2,200,112.50.", ["2.200.112,50"]),
        ("en-de", "It rose by 12.5%.", ["12,5\u00a0%"]),
        ("en-de", "It holds 10.5–12.5 litres of water.", ["10,5–12,5"]),
        ("en-de", "Python 3.5 is here, see section 3.2.", ["3.5", "3.2"]),
        ("en-fr", "The house costs $2,200,112.50.", ["2\u202f200\u202f112,50"]),
        ("en-fr", "The city has 1,234 houses and 10,000 trees.", ["1\u202f234", "10\u202f000"]),
        ("en-fr", "It rose by 12.5%.", ["12,5\u00a0%"]),
        ("fr-en", "La maison coûte 2 200 112,50 euros.", ["2,200,112.50"]),
        ("fr-en", "Il y a 10 000 personnes.", ["10,000"]),
        ("es-en", "Hay 10 000 personas y 1.234 gatos.", ["10,000", "1,234"]),
        ("en-es", "The parcel weighs 12.5 kg.", ["12,5"]),
        ("en-zh", "The parcel weighs 2,5 kg.", ["2.5"]),
    ],
)
def test_numbers_are_written_as_the_target_language_does(
    shipped: Service, pair: str, text: str, numbers: list[str]
) -> None:
    [direction] = [each for each in DIRECTIONS if each.folder.name == pair]
    for options in ({}, {"format": "html"}):
        [translation] = translate(shipped, direction, [text], **options)
        for number in numbers:
            assert translation.count(number) == 1, translation
        assert sorted(filter(str.isdecimal, translation)) == sorted(filter(str.isdecimal, text))


def test_text_in_json_gets_translations_of_its_strings_alone(shipped: Service) -> None:
    text = '{"title": "Save changes?", "n": 12.50, "items": ["Open the {count} doors.", "caf\\u00e9", null]}'
    for direction in DIRECTIONS:
        if direction.source == "en":
            [translation] = translate(shipped, direction, [text])
            before, after = json.loads(text), json.loads(translation)
            assert after["title"] != before["title"] and "{count}" in after["items"][0]
            assert list(after) == list(before) and '"n": 12.50, "items": ["' in translation
            assert translation.isascii() and after["items"][2] is None
