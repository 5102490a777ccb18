"""DeepL's own client creates, uses, edits and deletes glossaries."""

from __future__ import annotations

import io
from pathlib import Path

import deepl
import httpx
import pytest
from deepl.api_data import MultilingualGlossaryDictionaryEntries
from deepl_clients import EN_FR, client_of
from shared_fixtures import listening, make_bundle

pytestmark = pytest.mark.slow


def test_glossary_can_be_created_listed_used_and_deleted(deepl_client: deepl.DeepLClient, shipped_url: str) -> None:
    made = deepl_client.create_glossary("Animals", "en-US", "FR", {"cat": "Büffel", "the dog": "wau wau"})
    assert (made.name, made.ready, made.source_lang, made.target_lang) == ("Animals", True, "EN", "FR")
    assert made.entry_count == 2
    assert deepl_client.get_glossary(made.glossary_id).creation_time == made.creation_time
    assert [each.glossary_id for each in deepl_client.list_glossaries()] == [made.glossary_id]
    assert deepl_client.get_glossary_entries(made) == {"cat": "Büffel", "the dog": "wau wau"}
    assert "Büffel" in str(deepl_client.translate_text("The cat sleeps.", glossary=made, **EN_FR))
    assert "Büffel" in str(deepl_client.translate_text_with_glossary("The cat sleeps.", made))
    assert "Büffel" not in str(deepl_client.translate_text("The cat sleeps.", **EN_FR))
    deepl_client.delete_glossary(made)
    assert deepl_client.list_glossaries() == []
    for gone in (deepl_client.get_glossary, deepl_client.get_glossary_entries, deepl_client.delete_glossary):
        with pytest.raises(deepl.GlossaryNotFoundException):
            gone(made.glossary_id)
    with pytest.raises(deepl.DeepLException, match="No such glossary"):
        deepl_client.translate_text("The cat sleeps.", glossary=made, **EN_FR)


@pytest.mark.usefixtures("fast_deepl_client")
def test_glossary_can_be_created_from_csv_and_used_for_documents(deepl_client: deepl.DeepLClient) -> None:
    csv = 'cat,Büffel,en,fr\n"house, old",Hütte\n'
    made = deepl_client.create_glossary_from_csv("Words", "EN", "FR", csv_data=io.StringIO(csv))
    assert deepl_client.get_glossary_entries(made) == {"cat": "Büffel", "house, old": "Hütte"}
    translated = io.BytesIO()
    deepl_client.translate_document(b"The cat sleeps.", translated, filename="a.txt", glossary=made, **EN_FR)
    assert "Büffel" in translated.getvalue().decode()
    deepl_client.delete_glossary(made)


@pytest.mark.slow
def test_multilingual_glossary_can_be_edited_by_dictionary(tmp_path: Path) -> None:
    make_bundle(tmp_path / "en-fr")
    make_bundle(tmp_path / "fr-en", "fr", "en", seed=1)
    with listening(tmp_path) as url, client_of(url) as client:
        there = MultilingualGlossaryDictionaryEntries("EN", "FR", {"cat": "Büffel"})
        back = MultilingualGlossaryDictionaryEntries("fr", "en-US", {"chat": "Lynx"})
        made = client.create_multilingual_glossary("Words", [there])
        assert [each.glossary_id for each in client.list_glossaries()] == [made.glossary_id]
        grown = client.update_multilingual_glossary_dictionary(made, back)
        assert [(each.source_lang, each.target_lang) for each in grown.dictionaries] == [("EN", "FR"), ("FR", "EN")]
        assert client.list_glossaries() == []  # version 2 knows those of one pair alone
        with pytest.raises(deepl.DeepLException, match="2 dictionaries"):
            client.get_glossary(made.glossary_id)
        assert client.update_multilingual_glossary_name(made, "More words").name == "More words"
        client.update_multilingual_glossary_dictionary_from_csv(made, "EN", "FR", "dog,wau wau")
        found = client.get_multilingual_glossary_entries(made, "EN", "FR")
        assert [str(each.entries) for each in found.dictionaries] == ["cat\tBüffel\ndog\twau wau"]
        assert "Lynx" in str(
            client.translate_text("Le chat dort.", source_lang="FR", target_lang="EN-GB", glossary=grown)
        )
        replaced = client.replace_multilingual_glossary_dictionary_from_csv(made, "EN", "FR", "cat,Bär")
        assert (replaced.source_lang, replaced.entry_count) == ("EN", 1)
        assert "Bär" in str(client.translate_text("The cat sleeps.", glossary=made.glossary_id, **EN_FR))
        client.delete_multilingual_glossary_dictionary(made, source_lang="FR", target_lang="EN")
        with pytest.raises(deepl.GlossaryNotFoundException, match="No such dictionary"):
            client.delete_multilingual_glossary_dictionary(made, source_lang="FR", target_lang="EN")
        with pytest.raises(deepl.GlossaryNotFoundException, match="No such dictionary"):
            client.get_multilingual_glossary_entries(made, "FR", "EN")
        (left,) = client.list_multilingual_glossaries()
        assert [(each.source_lang, each.entry_count) for each in left.dictionaries] == [("EN", 1)]
        client.delete_multilingual_glossary(made)
        assert client.list_multilingual_glossaries() == []
        with pytest.raises(deepl.GlossaryNotFoundException):
            client.update_multilingual_glossary_name(made, "No words")


def test_the_first_glossary_with_a_term_decides(deepl_client: deepl.DeepLClient) -> None:
    first = deepl_client.create_glossary("one", "EN", "FR", {"cat": "Büffel"})
    second = deepl_client.create_glossary("two", "EN", "FR", {"cat": "Bär", "dog": "Wolf"})
    found = deepl_client.translate_text(["The cat sleeps.", "The dog sleeps."], glossary_ids=[first, second], **EN_FR)
    assert isinstance(found, list)
    assert "Büffel" in found[0].text
    assert "Wolf" in found[1].text
    deepl_client.delete_glossary(first)
    deepl_client.delete_glossary(second)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"entries": "cat"}, "line 1: it must be a term and its translation, but has 1 parts"),
        ({"entries": "cat\ta\ncat\tb"}, "line 2: the term 'cat' is given twice"),
        ({"entries": "cat,a,de,fr", "entries_format": "csv"}, "line 1: its languages are not"),
        ({"entries": 'cat,"a', "entries_format": "csv"}, "line 1"),
        ({"entries": "\n"}, "at least one term"),
        ({"target_lang": "DE"}, "the language pairs served: en-fr"),
        ({"name": " "}, "1 to 1024 characters"),
        ({"entries_format": "xml"}, "#/entries_format"),
    ],
)
def test_invalid_glossaries_are_refused(shipped_url: str, fields: dict[str, str], said: str) -> None:
    good = {"name": "a", "source_lang": "EN", "target_lang": "FR", "entries": "cat\tchat", "entries_format": "tsv"}
    response = httpx.post(f"{shipped_url}/deepl/v2/glossaries", json={**good, **fields})
    assert response.status_code == 400
    assert said in response.json()["message"]


def test_served_glossaries_can_be_used_by_name(bundle_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "own.en-fr.tsv").write_text("cat\tBüffel\n")
    with listening(bundle_folder, glossaries=tmp_path) as url, client_of(url) as client:
        assert [each.glossary_id for each in client.list_glossaries()] == ["own"]
        assert client.get_glossary_entries("own") == {"cat": "Büffel"}
        assert "Büffel" in str(client.translate_text("The cat sleeps.", glossary="own", **EN_FR))
        with pytest.raises(deepl.DeepLException, match="cannot be changed"):
            client.delete_glossary("own")


def test_glossaries_survive_a_restart_if_a_folder_is_configured(bundle_folder: Path, tmp_path: Path) -> None:
    with listening(bundle_folder, glossary_store=tmp_path) as url, client_of(url) as client:
        made = client.create_glossary("Animals", "EN", "FR", {"cat": "Büffel"})
    with listening(bundle_folder, glossary_store=tmp_path) as url, client_of(url) as client:
        assert client.get_glossary(made.glossary_id).creation_time == made.creation_time
        assert "Büffel" in str(client.translate_text("The cat sleeps.", glossary=made, **EN_FR))
