"""/memory, and translations that come from it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deepl
import httpx
import pytest
from deepl_clients import EN_FR, client_of
from lxml import etree
from shared_fixtures import Service, listening, serving

from app.http.api_keys import new_key

pytestmark = pytest.mark.slow

PAIR = {"source": "en", "target": "fr"}


@pytest.fixture
def keeping(bundle_folder: Path, tmp_path: Path) -> Iterator[Service]:
    with serving(bundle_folder, translation_memory=str(tmp_path / "memory.sqlite"), precision="auto") as service:
        yield service


def remember(service: Service, *pairs: tuple[str, str], key: str = "") -> int:
    body = {**PAIR, "pairs": [{"text": text, "translation": translation} for text, translation in pairs]}
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    response = service.request("PUT", "/memory", json=body, headers=headers)
    assert response.status_code == 200, response.text
    version: int = response.json()["memory_version"]
    return version


def translated(service: Service, text: Any, **fields: Any) -> Any:
    response = service.post("/translate", {**PAIR, "text": text, **fields})
    assert response.status_code == 200, response.text
    items = response.json()["translations"]
    return items if isinstance(text, list) else items[0]


def test_a_correction_counts_for_the_next_request(keeping: Service) -> None:
    before = translated(keeping, "A house. The cat sleeps.")
    assert (before["memory"], before["memory_version"]) == (None, 0)
    assert remember(keeping, ("A house.", "Une demeure.")) == 1
    after = translated(keeping, ["A house.", "A house. The cat sleeps.", "The cat sleeps."])
    assert after[0]["text"] == "Une demeure."
    assert after[1]["text"].startswith("Une demeure. ")
    assert after[1]["text"].endswith(after[2]["text"])
    assert [item["memory"] for item in after] == ["exact", "exact", None]
    assert [item["memory_version"] for item in after] == [1, 1, 1]
    assert remember(keeping, ("A  house.", "Une maison.")) == 2
    assert translated(keeping, " A house.")["text"] == " Une maison."


def test_a_remembered_text_is_not_decoded(keeping: Service) -> None:
    remember(keeping, ("A house.", "Une demeure."))
    usage = keeping.post("/translate", {**PAIR, "text": "A house."}).json()["usage"]
    assert usage == {"source_tokens": 0, "target_tokens": 0}


def test_off_does_without_the_memory(keeping: Service) -> None:
    model = translated(keeping, "A house.")["text"]
    remember(keeping, ("A house.", "Une demeure."))
    item = translated(keeping, "A house.", memory="off")
    assert (item["text"], item["memory"], item["memory_version"]) == (model, None, None)


def test_fuzzy_suggests_and_never_replaces(keeping: Service) -> None:
    model = translated(keeping, "A big house.")["text"]
    remember(keeping, ("A house.", "Une demeure."), ("A big cat.", "Un gros chat."))
    item = translated(keeping, "A big house.", memory="fuzzy")
    assert (item["text"], item["memory"]) == (model, None)
    assert [(one["translation"], one["percentage"]) for one in item["suggestions"]] == [
        ("Un gros chat.", 75),
        ("Une demeure.", 75),
    ]
    assert translated(keeping, "A big house.")["suggestions"] == []


def test_numbers_and_placeholders_take_their_own_values(keeping: Service) -> None:
    remember(keeping, ("Wait 30 seconds, {name}.", "Attendez 30 s, {name}."))
    assert translated(keeping, "Wait 45 seconds, {user}.")["text"] == "Attendez 45 s, {user}."


def test_markup_around_a_text_stays_and_is_encoded(keeping: Service) -> None:
    remember(keeping, ("A house.", "Une <demeure> & co."))
    item = translated(keeping, "<p><b>A house.</b></p>\n<p>A <i>house</i>.</p>", format="html")
    assert item["text"].startswith("<p><b>Une &lt;demeure&gt; &amp; co.</b></p>\n<p>")
    assert item["text"].count("demeure") == 1  # the second has markup inside


def test_a_translation_without_a_required_term_is_not_used(keeping: Service) -> None:
    remember(keeping, ("A house.", "Une demeure."))
    assert translated(keeping, "A house.", glossary={"house": "maison"})["memory"] is None
    assert translated(keeping, "A house.", glossary={"house": "demeure"})["memory"] == "exact"


def test_other_options_work_with_remembered_texts(keeping: Service) -> None:
    remember(keeping, ("A house.", "Une demeure."))
    item = translated(keeping, "A house.", alternatives=2, alignment=True)
    assert (item["text"], item["alternatives"], item["alignment"]) == ("Une demeure.", [], [])
    item = translated(keeping, "A house. The cat sleeps.", alternatives=2)
    assert item["text"].startswith("Une demeure. ")
    assert translated(keeping, "A\nhouse.", line_breaks="join")["memory"] == "exact"
    assert translated(keeping, "A house.", source="auto")["memory_version"] in (0, 1)


def test_a_streamed_text_from_the_memory_has_its_span(keeping: Service) -> None:
    remember(keeping, ("A house. The cat sleeps.", "Une demeure. Le chat dort."))
    response = keeping.post("/translate/stream", {**PAIR, "text": "A house. The cat sleeps.\n"})
    part = json.loads(response.text.partition("data: ")[2].splitlines()[0])
    assert (part["text"], part["source"]) == ("Une demeure. Le chat dort.\n", [0, 25])


def test_a_remembered_translation_is_not_taken_for_the_text(keeping: Service) -> None:
    remember(keeping, ("My house is red.", "Ma demeure est rouge."))
    assert translated(keeping, "My house is red.")["warnings"] == []


def test_a_stream_and_a_file_use_the_memory(keeping: Service) -> None:
    remember(keeping, ("A house.", "Une demeure."))
    response = keeping.post("/translate/stream", {**PAIR, "text": "A house. The cat sleeps. A house."})
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
    *parts, done = events
    assert "".join(part["text"] for part in parts) == done["translations"][0]["text"]
    assert [part["source"] for part in parts] == [[0, 8], [8, 24], [24, 33]]
    assert [part["score"] is None for part in parts] == [True, False, True]
    assert done["translations"][0]["text"].count("Une demeure.") == 2
    files = {"file": ("a.txt", b"A house.\n\nThe cat sleeps.\n")}
    response = keeping.request("POST", "/translate/file", files=files, data=PAIR)
    assert response.text.startswith("Une demeure.\n\n")
    response = keeping.request("POST", "/translate/file", files=files, data={**PAIR, "memory": "off"})
    assert "demeure" not in response.text


def test_search_finds_similar_texts_with_percentages(keeping: Service) -> None:
    remember(keeping, ("Open the file", "Ouvrir le fichier"), ("Wait 30 s", "Attendez 30 s"))
    found = keeping.get("/memory/search?source=en&target=fr&text=Open+the+files").json()
    assert found == {
        "exact": None,
        "matches": [{"text": "Open the file", "translation": "Ouvrir le fichier", "percentage": 66}],
        "memory_version": 1,
    }
    assert keeping.get("/memory/search?source=en&target=fr&text=Wait+40+s").json()["exact"] == "Attendez 40 s"
    assert keeping.get("/memory/search?source=en&target=fr&text=Wait&limit=0").status_code == 422


def test_what_is_deleted_is_in_no_file_any_more(keeping: Service, tmp_path: Path) -> None:
    remember(keeping, ("A house of secrets", "Une maison de secrets"), ("Two", "Deux"), ("Three", "Trois"))
    response = keeping.request("DELETE", "/memory?source=en&target=fr&text=A++house+of+secrets")
    assert response.json() == {"pairs": 1, "memory_version": 2}
    assert not any(b"secrets" in path.read_bytes() for path in tmp_path.iterdir())
    assert translated(keeping, "A house of secrets")["memory"] is None
    response = keeping.request("DELETE", "/memory?source=en&target=fr&text=unknown")
    assert response.json() == {"pairs": 0, "memory_version": 2}
    assert keeping.request("DELETE", "/memory?source=en&target=fr").json() == {"pairs": 2, "memory_version": 3}
    assert not any(b"Trois" in path.read_bytes() for path in tmp_path.iterdir())
    assert translated(keeping, "Two")["memory_version"] == 3
    assert remember(keeping, ("Two", "2")) == 4


def test_a_memory_is_exported_as_tmx_and_read_again(keeping: Service) -> None:
    remember(keeping, ("Open <it> & go", "Ouvrez-le"), ("A house.", "Une demeure."))
    exported = keeping.get("/memory?source=en&target=fr")
    assert exported.headers["content-type"] == "application/x-tmx+xml"
    units = etree.fromstring(exported.content).findall("body/tu")
    assert {unit.findtext("tuv/seg") for unit in units} == {"Open <it> & go", "A house."}
    keeping.request("DELETE", "/memory?source=en&target=fr")
    files = {"file": ("memory.tmx", exported.content)}
    assert keeping.request("PUT", "/memory", files=files, data=PAIR).json() == {"pairs": 2, "memory_version": 3}
    assert translated(keeping, "A house.")["text"] == "Une demeure."


def test_tmx_of_other_programs_is_read(keeping: Service) -> None:
    content = b"""<?xml version="1.0"?><tmx version="1.4"><header/><body>
      <tu><tuv xml:lang="EN_us"><seg>Press <bpt i="1">&lt;b></bpt>OK<ept i="1">&lt;/b></ept>.</seg></tuv>
          <tuv xml:lang="fr-FR"><seg>Appuyez sur <hi>OK</hi>.</seg></tuv></tu>
      <tu><tuv xml:lang="de"><seg>Nichts</seg></tuv></tu></body></tmx>"""
    response = keeping.request("PUT", "/memory", files={"file": ("a.TMX", content)}, data=PAIR)
    assert response.json()["pairs"] == 1
    assert translated(keeping, "Press OK.")["text"] == "Appuyez sur OK."


def test_tsv_is_read(keeping: Service) -> None:
    files = {"file": ("a.tsv", b"A house.\tUne demeure.\r\n\nTwo\tDeux\n")}
    assert keeping.request("PUT", "/memory", files=files, data=PAIR).json()["pairs"] == 2
    assert translated(keeping, "Two")["text"] == "Deux"


@pytest.mark.parametrize(
    ("name", "content", "detail"),
    [
        ("a.tsv", b"one\ttwo\tthree", "Line 1 is not a text, a tab and its translation."),
        ("a.tsv", b"\n", "The file has no pairs"),
        ("a.tmx", b"<tmx", "The TMX file is not well-formed XML"),
        ("a.tmx", b"<a/>", "The file is not TMX: its first element is a."),
        ("a.tmx", b"<tmx><body><tu/></body></tmx>", "The TMX file has no unit with both en and fr."),
    ],
)
def test_unreadable_files_are_refused(keeping: Service, name: str, content: bytes, detail: str) -> None:
    response = keeping.request("PUT", "/memory", files={"file": (name, content)}, data=PAIR)
    assert response.status_code == 422
    assert detail in response.json()["detail"]


@pytest.mark.parametrize("pair", [(" ", "Rien"), ("Nothing", " "), ("A\ufdd0", "B")])
def test_pairs_that_cannot_be_kept_are_refused(keeping: Service, pair: tuple[str, str]) -> None:
    body = {**PAIR, "pairs": [{"text": pair[0], "translation": pair[1]}]}
    response = keeping.request("PUT", "/memory", json=body)
    assert (response.status_code, response.json()["type"]) == (422, "urn:interlinear:error:invalid-fields")


def test_misspelt_parameter_is_refused(keeping: Service) -> None:
    """Without `text`, all pairs would be forgotten."""
    remember(keeping, ("A house.", "Une demeure."))
    for method, path in (("GET", "/memory"), ("DELETE", "/memory"), ("GET", "/memory/search")):
        answer = keeping.request(method, f"{path}?source=en&target=fr&txt=A house.")
        assert answer.status_code == 422
        assert {"pointer": "#/txt", "detail": "Extra inputs are not permitted"} in answer.json()["errors"]
    assert translated(keeping, "A house.")["memory"] == "exact"


def test_a_direction_that_is_not_served_is_refused(keeping: Service) -> None:
    for method, path in (("GET", "/memory?"), ("DELETE", "/memory?text=A&"), ("GET", "/memory/search?text=A&")):
        assert keeping.request(method, f"{path}source=en&target=xx").status_code == 404
    assert keeping.request("GET", "/memory?source=auto&target=fr").status_code == 422


def test_a_full_memory_refuses_and_keeps_what_it_has(bundle_folder: Path, tmp_path: Path) -> None:
    place = str(tmp_path / "memory.sqlite")
    with serving(bundle_folder, translation_memory=place, translation_memory_pairs=2, precision="auto") as service:
        remember(service, ("One", "Un"), ("Two", "Deux"))
        pairs = [{"text": "Three", "translation": "Trois"}]
        response = service.request("PUT", "/memory", json={**PAIR, "pairs": pairs})
        assert response.status_code == 422
        assert "over its limit in pairs" in response.json()["detail"]
        assert remember(service, ("Two", "Deux !")) == 2  # replaces one
        assert translated(service, "Three")["memory"] is None
    with serving(bundle_folder, translation_memory=place, translation_memory_bytes=1_000, precision="auto") as service:
        pairs = [{"text": "Three", "translation": "Trois " * 200}]
        response = service.request("PUT", "/memory", json={**PAIR, "pairs": pairs})
        assert "over its limit in bytes" in response.json()["detail"]
        assert translated(service, "Two")["text"] == "Deux !"  # also after a restart


def test_two_instances_on_one_file_see_each_others_changes(bundle_folder: Path, tmp_path: Path) -> None:
    place = str(tmp_path / "memory.sqlite")
    with (
        serving(bundle_folder, translation_memory=place, precision="auto") as one,
        serving(bundle_folder, translation_memory=place, precision="auto") as other,
    ):
        for number in range(3):
            assert remember(one, ("A house.", f"Une demeure {number}.")) == 2 * number + 1
            assert translated(other, "A house.")["text"] == f"Une demeure {number}."
            assert remember(other, ("A house.", f"Une maison {number}.")) == 2 * number + 2
            assert translated(one, "A house.")["text"] == f"Une maison {number}."
        other.request("DELETE", "/memory?source=en&target=fr")
        item = translated(one, "A house.")
        assert (item["memory"], item["memory_version"]) == (None, 7)


def test_keys_have_memories_of_their_own(bundle_folder: Path, tmp_path: Path) -> None:
    keys = {name: new_key(name) for name in ("alice", "bob")}
    (tmp_path / "keys").write_text("\n".join(line for _, line in keys.values()))
    place = str(tmp_path / "memory.sqlite")
    with serving(bundle_folder, translation_memory=place, api_keys_file=tmp_path / "keys", precision="auto") as service:
        remember(service, ("A house.", "Une demeure."), key=keys["alice"][0])
        found = {}
        for name, (key, _) in keys.items():
            response = service.request(
                "POST", "/translate", json={**PAIR, "text": "A house."}, headers={"Authorization": f"Bearer {key}"}
            )
            found[name] = response.json()["translations"][0]["memory"]
        assert found == {"alice": "exact", "bob": None}
        assert service.get("/memory?source=en&target=fr").status_code == 401


def test_without_the_setting_every_route_says_so(service: Service) -> None:
    for method, path in (("PUT", "/memory"), ("GET", "/memory"), ("DELETE", "/memory"), ("GET", "/memory/search")):
        response = service.request(method, f"{path}?source=en&target=fr&text=A", json={} if method == "PUT" else None)
        assert (response.status_code, response.json()["type"]) == (403, "urn:interlinear:error:no-translation-memory")
    item = translated(service, "A house.")
    assert (item["memory"], item["memory_version"]) == (None, None)
    assert service.post("/translate", {**PAIR, "text": "A", "memory": "exact"}).status_code == 403
    assert translated(service, "A house.", memory="off")["memory_version"] is None


def test_deepls_clients_list_and_name_a_memory(bundle_folder: Path, tmp_path: Path) -> None:
    with (
        listening(bundle_folder, translation_memory=str(tmp_path / "memory.sqlite")) as url,
        client_of(url) as client,
    ):
        assert client.list_translation_memories() == []
        pairs = [{"text": "A house.", "translation": "Une demeure."}]
        assert httpx.put(f"{url}/memory", json={**PAIR, "pairs": pairs}).status_code == 200
        [memory] = client.list_translation_memories()
        assert (memory.name, memory.target_languages, memory.segment_count) == ("en-fr", ["fr"], 1)
        texts = {
            named: client.translate_text("A house.", **EN_FR, translation_memory=named).text  # type: ignore[union-attr]
            for named in (memory.translation_memory_id, None)
        }
        assert texts[memory.translation_memory_id] == "Une demeure." != texts[None]
        with pytest.raises(deepl.DeepLException, match="No translation memory of en-fr has this id"):
            client.translate_text("A house.", **EN_FR, translation_memory="another")


def test_a_text_of_several_sentences_gets_suggestions_for_each(keeping: Service) -> None:
    remember(
        keeping, ("A house is red.", "Une demeure."), ("The big cat sleeps.", "Le chat."), ("Rain falls.", "Pluie.")
    )
    text = "A house is blue. Rain falls. The big dog sleeps."
    item = translated(keeping, text, memory="fuzzy")
    assert item["text"].count("Pluie.") == 1
    found = [(text[slice(*one["source"])], one["translation"], one["percentage"]) for one in item["suggestions"]]
    assert found == [("A house is blue.", "Une demeure.", 80), ("The big dog sleeps.", "Le chat.", 80)]
    remember(keeping, ("A house is blue. Rain falls. The big dog ate.", "Tout."))
    whole, *others = translated(keeping, text, memory="fuzzy")["suggestions"]
    assert (whole["source"], whole["translation"]) == ([0, len(text)], "Tout.")
    assert [one["translation"] for one in others] == ["Une demeure.", "Le chat."]
    item = translated(keeping, f"<p>{text}</p>", memory="fuzzy", format="html")
    assert [(one["source"], one["translation"]) for one in item["suggestions"]] == [
        (None, "Une demeure."),
        (None, "Le chat."),
    ]
    item = translated(keeping, "A house\nis blue.", memory="fuzzy", line_breaks="join")
    assert [(one["source"], one["percentage"]) for one in item["suggestions"]] == [(None, 80)]


def test_a_similar_sentence_is_repaired_by_request_alone(keeping: Service) -> None:
    remember(keeping, ("The big cat sleeps in the house.", "Le gros chat dort ici."))
    text = "The big dog sleeps in the house."
    plain = translated(keeping, text, memory="fuzzy")
    assert (plain["memory"], [one["repaired"] for one in plain["suggestions"]]) == (None, [False])
    fields = {"memory": "repair", "repair_tolerance": 10}
    item = translated(keeping, text, **fields)
    assert item["memory"] == "repaired"
    assert item["text"] != plain["text"]
    [used] = item["suggestions"]
    assert (used["text"], used["percentage"]) == ("The big cat sleeps in the house.", 87)
    assert (used["source"], used["repaired"]) == ([0, len(text)], True)
    # Its score is that of forced decoding, and it does not depend on what else is asked.
    pairs = [{"text": text, "translation": item["text"]}]
    scored = keeping.post("/score", {**PAIR, "pairs": pairs}).json()["scores"][0]["score"]
    assert item["score"] == scored
    texts = ["A house.", f"{text} The cat sleeps.", text]
    alone, both, again = translated(keeping, texts, **fields)
    assert (alone["memory"], both["memory"], again) == (None, "repaired", item)
    assert both["text"].startswith(item["text"])
    html = translated(keeping, f"<p><b>{text}</b></p>", format="html", **fields)
    assert html["text"] == f"<p><b>{item['text']}</b></p>"
    response = keeping.post("/translate/stream", {**PAIR, "text": text, **fields})
    assert json.loads(response.text.rpartition("data: ")[2])["translations"] == [item]


def test_a_repair_is_never_scored_lower_than_allowed(keeping: Service) -> None:
    remember(keeping, ("The big cat sleeps in the house.", "Le gros chat dort ici."))
    text = "The big dog sleeps in the house."
    plain = translated(keeping, text, memory="off")
    for tolerance in (0, 0.5, 1, 2, 4):
        item = translated(keeping, text, memory="repair", repair_tolerance=tolerance)
        assert item["score"] >= plain["score"] - tolerance
        assert item["memory"] or item["text"] == plain["text"]


def test_a_repair_without_a_required_term_is_not_used(keeping: Service) -> None:
    remember(keeping, ("The big cat sleeps in the house.", "Le gros chat dort ici."))
    fields = {"text": "The big dog sleeps in the house.", "memory": "repair", "repair_tolerance": 10}
    assert translated(keeping, glossary={"house": "maison"}, **fields)["text"].lower().count("maison") == 1


def test_a_begun_translation_is_continued_without_the_memory(keeping: Service) -> None:
    remember(keeping, ("The big cat sleeps in the house.", "Le gros chat dort ici."))
    for text in ("The big cat sleeps in the house.", "The big dog sleeps in the house."):
        item = translated(keeping, text, prefix="Mon ch", memory="repair", repair_tolerance=10)
        without = translated(keeping, text, prefix="Mon ch", memory="off")
        assert (item["memory"], item["text"]) == (None, without["text"])


def test_a_report_on_a_file_counts_what_came_from_the_memory(keeping: Service) -> None:
    remember(keeping, ("A house.", "Une demeure."))
    files = {"file": ("a.txt", b"A house.\n\nThe cat sleeps.\n\nA house. The cat sleeps.\n")}
    for option, expected in (("exact", (1, 2, 1)), ("off", (1, 0, None))):
        response = keeping.request("POST", "/translate/file", files=files, data={**PAIR, "memory": option})
        report = keeping.get(response.headers["x-interlinear-report"]).json()
        assert (report["texts"], report["from_memory"], report["memory_version"]) == expected


@pytest.mark.usefixtures("fast_deepl_client")
def test_deepls_documents_use_the_memory_that_they_name(bundle_folder: Path, tmp_path: Path) -> None:
    with (
        listening(bundle_folder, translation_memory=str(tmp_path / "memory.sqlite")) as url,
        client_of(url) as client,
    ):
        pairs = [{"text": "A house.", "translation": "Une demeure."}]
        assert httpx.put(f"{url}/memory", json={**PAIR, "pairs": pairs}).status_code == 200
        [memory] = client.list_translation_memories()
        made = {}
        for named in (memory.translation_memory_id, None):
            extra = {"translation_memory_id": named} if named else {}
            target = io.BytesIO()
            client.translate_document(
                b"A house.\n\nThe cat sleeps.", target, filename="a.txt", **EN_FR, extra_body_parameters=extra
            )
            made[named] = target.getvalue().decode()
        assert made[memory.translation_memory_id].startswith("Une demeure.\n\n")
        assert "demeure" not in made[None]
        with pytest.raises(deepl.DeepLException, match="No translation memory of en-fr has this id"):
            client.translate_document_upload(
                b"A house.", filename="a.txt", **EN_FR, extra_body_parameters={"translation_memory_id": "another"}
            )


def test_many_repairs_of_one_text_do_not_fill_the_queue(bundle_folder: Path, tmp_path: Path) -> None:
    words = [f"{one}{two}" for one in ("sleep", "eat", "run", "sing") for two in ("s", "ing", "er", "y", "ed", "en")]
    texts = [f"The big dog {word} in the house." for word in words]
    place = str(tmp_path / "memory.sqlite")
    with serving(bundle_folder, translation_memory=place, queue_tokens=3_000, precision="auto") as service:
        remember(service, ("The big cat sleeps in the house.", "Le gros chat dort ici."))
        item = translated(service, " ".join(texts), memory="repair", repair_tolerance=10)
        alone = [translated(service, text, memory="repair", repair_tolerance=10)["text"] for text in texts[:2]]
        assert item["text"].startswith(" ".join(alone))
        assert item["memory"] == "repaired"
