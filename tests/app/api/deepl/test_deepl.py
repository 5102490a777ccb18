"""DeepL's own client and command line, unmodified, against the service on a real socket: texts, keys and limits."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deepl
import deepl.__main__ as command_line
import httpx
import pytest
from deepl_clients import EN_FR, client_of, plainly
from shared_fixtures import listening, make_bundle

from app.api.deepl.text import TextRequest, to_items
from app.http.api_keys import new_key
from app.markup.html_elements import Rules
from app.markup.passage import Piece
from app.runtime.rate_limits import Rate

pytestmark = pytest.mark.slow


def test_deepl_client_translates_one_text_or_several(deepl_client: deepl.DeepLClient, shipped_url: str) -> None:
    one = deepl_client.translate_text("Hello.", **EN_FR)
    assert isinstance(one, deepl.TextResult)
    assert [one.text] == plainly(shipped_url, "Hello.")
    assert (one.detected_source_lang, one.billed_characters, one.model_type_used) == ("EN", 6, None)
    many = deepl_client.translate_text(["Hello.", "", "How are you?\n"], **EN_FR)
    assert isinstance(many, list)
    assert [each.text for each in many] == plainly(shipped_url, "Hello.", "", "How are you?\n")


def test_the_detected_language_is_returned(deepl_client: deepl.DeepLClient) -> None:
    texts = ["How are you? I am well, thank you.", "123", "Bonjour, comment allez-vous ce matin ?"]
    found = deepl_client.translate_text(texts, target_lang="fr")
    assert isinstance(found, list)
    assert [each.detected_source_lang for each in found] == ["EN", "EN", "FR"]
    assert [each.text for each in found[1:]] == texts[1:]  # no words; French already


@pytest.mark.parametrize("asked", ["quality_optimized", "latency_optimized", "prefer_quality_optimized"])
def test_response_names_the_requested_model(deepl_client: deepl.DeepLClient, asked: str) -> None:
    found = deepl_client.translate_text(["Hello."], model_type=asked, **EN_FR)
    assert isinstance(found, list)
    assert found[0].model_type_used == asked.removeprefix("prefer_")


def test_markup_and_ignored_elements_are_kept(deepl_client: deepl.DeepLClient, shipped_url: str) -> None:
    text = "<p>Hello, <keep>Cat & dog</keep>!</p>"
    html = deepl_client.translate_text([text, "<p>How are you?</p>"], tag_handling="html", **EN_FR)
    assert isinstance(html, list)
    assert [each.text for each in html] == plainly(shipped_url, text, "<p>How are you?</p>", format="html")
    kept = deepl_client.translate_text(text, tag_handling="xml", ignore_tags="x,KEEP", **EN_FR)
    assert isinstance(kept, deepl.TextResult)
    assert "<keep>Cat & dog</keep>" in kept.text


def test_split_sentences_is_honoured(deepl_client: deepl.DeepLClient, shipped_url: str) -> None:
    def translated(text: str, **options: Any) -> str:
        return str(deepl_client.translate_text(text, **EN_FR, **options))

    text = "How are\nyou? I am well."
    assert translated(text, split_sentences="1") == plainly(shipped_url, text)[0]
    assert translated(text, split_sentences="nonewlines") == plainly(shipped_url, "How are you? I am well.")[0]
    whole = translated(text, split_sentences="0")
    assert whole == translated("How are you? I am well.", split_sentences=deepl.SplitSentences.OFF)
    assert whole != plainly(shipped_url, "How are you? I am well.")[0]
    markup = "<x>How are you?</x> <x>I am well.</x>"
    apart = translated(markup, tag_handling="xml", splitting_tags=["x"])
    assert apart == "<x>{}</x> <x>{}</x>".format(*plainly(shipped_url, "How are you?", "I am well."))
    together = translated(markup, tag_handling="xml", non_splitting_tags=["x"], split_sentences="0")
    assert together != apart
    assert together == translated(markup, tag_handling="xml", outline_detection=False, split_sentences="0")


def test_options_without_effect_are_accepted(deepl_client: deepl.DeepLClient, shipped_url: str) -> None:
    found = deepl_client.translate_text(
        "Hello.",
        context="A letter.",
        formality="prefer_more",
        preserve_formatting=True,
        tag_handling_version="v2",
        extra_body_parameters={"enable_beta_languages": True},
        **EN_FR,
    )
    assert [str(found)] == plainly(shipped_url, "Hello.")


@pytest.mark.usefixtures("fast_deepl_client")
def test_long_texts_and_unserved_languages_are_refused(deepl_client: deepl.DeepLClient) -> None:
    with pytest.raises(deepl.DeepLException, match="50001 characters, over the limit") as refused:
        deepl_client.translate_text("a" * 50_001, **EN_FR)
    assert refused.value.http_status_code == 413
    with pytest.raises(deepl.DeepLException, match="The text looks German, which is not translated into French here"):
        deepl_client.translate_text("Ich möchte heute Abend nicht mehr ins Kino gehen.", target_lang="FR")
    with pytest.raises(deepl.DeepLException, match="'target_lang' not supported"):
        deepl_client.translate_text("Hello.", source_lang="EN", target_lang="EN-GB")


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["\n ", " \n", "a\n", " ", "a ", ". ", "\u2028", "<x>", "\n<x> "])
@pytest.mark.parametrize("options", [{"split_sentences": "0"}, {"split_sentences": "0", "tag_handling": "xml"}])
def test_hostile_text_is_translated_with_split_sentences_off(unit: str, options: dict[str, str]) -> None:
    body = TextRequest.model_validate({"target_lang": "FR", "text": [unit * 25_000], **options})
    asyncio.run(to_items(body))


def test_the_markup_of_many_short_texts_is_parsed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Together they are as long as one that would keep the event loop for a second."""
    threads = set[int]()

    def parse(text: str, rules: Rules) -> list[Piece]:
        threads.add(threading.get_ident())
        return [text]

    monkeypatch.setattr("app.api.deepl.text.markup_pieces", parse)
    body = TextRequest.model_validate({"target_lang": "FR", "text": ["<b>a</b>"] * 1_000, "tag_handling": "xml"})
    assert len(asyncio.run(to_items(body))) == 1_000
    assert threads and threading.get_ident() not in threads


def test_languages_are_the_served_ones(deepl_client: deepl.DeepLClient) -> None:
    assert [(each.code, each.name) for each in deepl_client.get_source_languages()] == [("EN", "English")]
    found = [(each.code, each.name, each.supports_formality) for each in deepl_client.get_target_languages()]
    assert found == [("FR", "French", True)]
    assert [(each.source_lang, each.target_lang) for each in deepl_client.get_glossary_languages()] == [("en", "fr")]


def test_targets_with_regional_variants_are_listed_by_variant(tmp_path: Path, fast_deepl_client: None) -> None:
    make_bundle(tmp_path / "fr-en", "fr", "en")
    with listening(tmp_path) as url, client_of(url) as client:
        assert [each.code for each in client.get_target_languages()] == ["EN-GB", "EN-US"]
        found = {str(client.translate_text("Bonjour.", target_lang=code)) for code in ("EN-GB", "en-us")}
        assert len(found) == 1


def test_usage_counts_translated_characters(bundle_folder: Path, fast_deepl_client: None) -> None:
    with listening(bundle_folder) as url, client_of(url) as client:
        client.translate_text(["Hello.", "Bye."], **EN_FR)
        usage = client.get_usage().character
        assert (usage.count, usage.limit, usage.limit_reached) == (10, 1_000_000_000_000, False)


# ---- Keys and limits


@pytest.fixture
def two_keys(tmp_path: Path) -> tuple[Path, str, str]:
    """A key file, and the keys of ann and bob."""
    (ann, first), (bob, second) = new_key("ann"), new_key("bob")
    (tmp_path / "keys").write_text(f"{first}\n{second}\n")
    return tmp_path / "keys", ann, bob


@pytest.mark.usefixtures("fast_deepl_client")
def test_wrong_key_is_refused_if_keys_are_configured(
    bundle_folder: Path, two_keys: tuple[Path, str, str], tmp_path: Path
) -> None:
    path, ann, bob = two_keys
    with listening(bundle_folder, api_keys_file=path) as url, client_of(url) as stranger, client_of(url, ann) as client:
        calls: list[Callable[[], object]] = [
            lambda: stranger.translate_text("Hello.", **EN_FR),
            stranger.get_usage,
            stranger.get_source_languages,
            stranger.get_target_languages,
            stranger.get_glossary_languages,
            stranger.list_glossaries,
            stranger.list_multilingual_glossaries,
            lambda: stranger.translate_document_upload(b"Hello.", filename="a.txt", **EN_FR),
        ]
        for call in calls:
            with pytest.raises(deepl.AuthorizationException, match="the one that was sent is unknown"):
                call()
        refused = httpx.post(f"{url}/deepl/v2/translate", content=b"text=a", headers={"Authorization": "Bearer wrong"})
        assert refused.status_code == 403
        assert "www-authenticate" not in refused.headers
        assert str(client.translate_text("Hello.", **EN_FR))
        with client_of(url, bob) as other:
            handle = client.translate_document_upload(b"Hello.", filename="a.txt", **EN_FR)
            made = client.create_glossary("Animals", "EN", "FR", {"cat": "chat"})
            with pytest.raises(deepl.DeepLException, match="No such document"):
                other.translate_document_get_status(handle)
            with pytest.raises(deepl.GlossaryNotFoundException):
                other.get_glossary(made.glossary_id)
            assert other.list_glossaries() == []
            assert other.get_usage().character.count == 0
        assert client.translate_document_get_status(handle).ok


@pytest.mark.usefixtures("fast_deepl_client")
def test_a_client_over_its_character_limit_has_exceeded_its_quota(bundle_folder: Path) -> None:
    with listening(bundle_folder, rate_characters=Rate.parse("10/day")) as url, client_of(url) as client:
        client.translate_text("0123456789", **EN_FR)
        usage = client.get_usage().character
        assert (usage.count, usage.limit, usage.limit_reached) == (10, 10, True)
        with pytest.raises(deepl.QuotaExceededException):
            client.translate_text("Hello.", **EN_FR)
        with pytest.raises(deepl.QuotaExceededException):
            client.translate_document_upload(b"Hello.", filename="a.txt", **EN_FR)


@pytest.mark.usefixtures("fast_deepl_client")
def test_document_over_the_quota_is_reported_as_such(bundle_folder: Path) -> None:
    limit = Rate.parse("10/day")
    over = pytest.raises(deepl.DocumentTranslationException, match="exceeds the limit of 10/day")
    with listening(bundle_folder, rate_characters=limit) as url, client_of(url) as client, over:
        client.translate_document(b"Hello, you there.", io.BytesIO(), filename="a.txt", **EN_FR)


@pytest.mark.usefixtures("fast_deepl_client")
def test_requests_over_the_rate_are_refused(bundle_folder: Path) -> None:
    with listening(bundle_folder, rate_requests=Rate.parse("1/day")) as url, client_of(url) as client:
        client.get_usage()
        with pytest.raises(deepl.TooManyRequestsException):
            client.get_usage()


@pytest.mark.usefixtures("fast_deepl_client")
def test_client_without_a_service_raises_a_connection_error(bundle_folder: Path) -> None:
    with listening(bundle_folder) as url:
        pass
    with client_of(url) as client, pytest.raises(deepl.ConnectionException):
        client.get_usage()


# ---- The command line


def test_the_installed_command_runs(shipped_url: str) -> None:
    environment = {**os.environ, "DEEPL_SERVER_URL": f"{shipped_url}/deepl/"}
    words = ["--auth-key", "any", "text", "--from", "EN", "--to", "FR", "--show-billed-characters", "Hello.", "Bye."]
    command = [sys.executable, "-m", "deepl", *words]
    done = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", timeout=900, check=True)
    hello, bye = plainly(shipped_url, "Hello.", "Bye.")
    assert done.stdout == f"Billed characters: 6\n{hello}\nBilled characters: 4\n{bye}\n"


@pytest.mark.usefixtures("fast_deepl_client")
def test_every_cli_command_with_an_endpoint_works(
    shipped_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEEPL_SERVER_URL", f"{shipped_url}/deepl/")
    monkeypatch.setenv("DEEPL_AUTH_KEY", "any")

    def said(*words: object) -> str:
        main: Callable[..., None] = command_line.main
        main([str(word) for word in words], "deepl")
        return capsys.readouterr().out

    assert "Characters: " in said("usage")
    assert said("languages") == (
        "Source languages available:\nEN: English\nTarget languages available:\nFR: French (supports formality)\n"
    )
    assert "en, fr" in said("languages", "--glossary")
    created = said("glossary", "create", "--name", "Animals", "--from", "EN", "--to", "FR", "cat=Büffel")
    id = created.partition("(")[2].partition(")")[0]
    assert id in said("glossary", "list")
    assert "Animals" in said("glossary", "get", id)
    assert said("glossary", "entries", id) == "cat\tBüffel\n"
    options = ("--from", "EN", "--to", "FR", "--glossary-id", id)
    assert "Büffel" in said("text", *options, "--show-model-type-used", "--show-detected-source", "The cat sleeps.")
    (tmp_path / "a.txt").write_text("The cat sleeps.")
    said("document", *options, tmp_path / "a.txt", tmp_path / "done")
    assert "Büffel" in (tmp_path / "done" / "a.txt").read_text("utf-8")
    assert "successfully deleted" in said("glossary", "delete", id)
    with pytest.raises(SystemExit):
        said("glossary", "get", id)
    assert "Glossary not found" in capsys.readouterr().err
