"""app/text/tag_projection.py: tags around words of a text are around their translations, with the bundles that ship."""

from __future__ import annotations

import re

import pytest
from shared_fixtures import SHIPPED, Service

from tests.app.translation.test_law import shipped  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.bundle]

CASES = [
    ("fr", "I like <b>red</b> apples.", "<b>rouges</b>"),
    ("es", "I like <b>red</b> apples.", "<b>roj[ao]s</b>"),
    ("de", "I like <b>red</b> apples.", "<b>rote[ns]?</b>"),
    ("zh", "I like <b>red</b> apples.", "<b>红色?的?</b>"),
    # an article, the first letter, the last word before the full stop
    ("fr", "<b>The</b> cat sleeps.", "<b>L[ea]</b>"),
    ("fr", "The <b>c</b>at sleeps.", "<b>c</b>hat"),
    ("fr", "I live in the <b>United States</b>.", r"<b>États-Unis</b>\."),
    ("de", "I live in the <b>United States</b>.", r"<b>(?:den )?Vereinigten Staaten</b>\."),
    ("zh", "I live in the <b>United States</b>.", "<b>美国</b>。"),
    # the whole sentence, and two
    ("fr", "<b>My house is red.</b>", r"\A<b>[^<]*\.</b>\Z"),
    ("zh", "<b>My house is red. Your car is blue.</b>", r"\A<b>[^<]*。</b>\Z"),
    # nested, adjacent, empty, a break
    ("fr", "Click <a><b>here</b></a> to <i>save</i> the file.", "<a><b>ici</b></a> pour <i>enregistrer</i>"),
    ("es", "Click <a><b>here</b></a> to <i>save</i> the file.", "<a><b>aquí</b></a> para <i>guardar</i>"),
    ("de", "Click <a><b>here</b></a> to <i>save</i> the file.", "<a><b>hier</b></a>.*<i>(?:zu )?speichern</i>"),
    ("zh", "Click <a><b>here</b></a> to <i>save</i> the file.", "<a><b>此处</b></a>以?<i>保存</i>"),
    ("fr", "I <b>like</b> <i>you</i>.", "<i>(?:t'|vous)</i> ?<b>aime</b>"),
    ("fr", "Press <b></b>the button<br>now.", "<b></b>(?:le |sur le )?bouton<br>maintenant"),
    # a word that becomes two, on both sides of others
    ("fr", "She <b>does not</b> sing.", "<b>(?:pas|ne chante pas)</b>"),
    ("de", "She <b>does not</b> sing.", "<b>nicht</b>"),
    # several of a kind
    ("fr", "The <u>black cat</u> and the <u>white dog</u> sleep.", "<u>chat noir</u> et le <u>chien blanc</u>"),
    ("es", "The <u>black cat</u> and the <u>white dog</u> sleep.", "<u>gato negro</u> y el <u>perro blanco</u>"),
    ("fr", "<b>12</b> people and <b>Tom</b> came to <b>Boston</b>.", "<b>12</b>.*<b>Tom</b>.*<b>Boston</b>"),
]


@pytest.mark.parametrize(("target", "html", "wanted"), CASES)
@pytest.mark.skipif(not (SHIPPED / "en-fr").is_dir(), reason="needs the bundles that ship")
def test_a_tag_is_around_the_translation_of_its_words(
    shipped: Service,  # noqa: F811
    target: str,
    html: str,
    wanted: str,
) -> None:
    response = shipped.post("/translate", {"text": html, "source": "en", "target": target, "format": "html"})
    [translation] = response.json()["translations"]
    assert re.search(wanted, translation["text"])
    assert sorted(re.findall("</?[a-z]+>", translation["text"])) == sorted(re.findall("</?[a-z]+>", html))
