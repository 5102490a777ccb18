"""Names of published models, jobs that install them, and the folder that keeps both."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from shared_fixtures import make_bundle

from app.http.auth import is_at_this_machine
from app.published.folder import ModelsFolder
from app.published.jobs import InstallJob, job_id
from app.settings import SettingsError, load_settings
from model.machine import is_loopback
from model.published import ModelName, forbids_commercial_use, parse_name


@pytest.mark.parametrize(
    ("wanted", "found", "pair", "is_it"),
    [
        ("firefox:en-es", "firefox:en-es@tiny", "en-es", True),
        ("firefox:en-es@tiny", "firefox:en-es@tiny", "en-es", True),
        ("firefox:en-es@TINY", "firefox:en-es@tiny", "en-es", True),
        ("firefox:en-es@base", "firefox:en-es@tiny", "en-es", False),
        ("firefox:en-es", "argos:en-es@1.0", "en-es", False),
        ("firefox:en-zh-Hant", "firefox:en-zh_hant@base", "en-zh-Hant", True),
        ("firefox:en-zh_hant", "firefox:en-zh_hant@base", "en-zh-Hant", True),
        ("firefox:en-zh", "firefox:en-zh_hant@base", "en-zh-Hant", False),
        ("hf:Helsinki-NLP/opus-mt-en-es@main", f"hf:Helsinki-NLP/opus-mt-en-es@{'a' * 40}", "en-es", True),
        (f"hf:Helsinki-NLP/opus-mt-en-es@{'b' * 40}", f"hf:Helsinki-NLP/opus-mt-en-es@{'a' * 40}", "en-es", False),
    ],
)
def test_a_name_means_models_of_its_pair_and_variant(wanted: str, found: str, pair: str, is_it: bool) -> None:
    name, other = parse_name(wanted), parse_name(found)
    assert name and other
    assert name.is_of(other, pair) is is_it


def test_one_language_is_both_ways_with_english() -> None:
    assert [str(name) for name in ModelName("firefox", "es").expanded()] == ["firefox:en-es", "firefox:es-en"]
    assert [str(name) for name in ModelName("argos", "pt-BR").expanded()] == ["argos:pt-BR"]
    assert [str(name) for name in ModelName("huggingface", "gpt2").expanded()] == ["huggingface:gpt2"]


def test_settings_name_models_and_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLINEAR_MODELS", "firefox:es, argos:en-fr  firefox:en-es")
    monkeypatch.setenv("INTERLINEAR_REGISTRIES", "firefox=https://mirror.example/models.json,argos=/srv/index.json")
    settings = load_settings()
    assert [str(name) for name in settings.models] == ["firefox:en-es", "firefox:es-en", "argos:en-fr"]
    assert settings.registries == {"firefox": "https://mirror.example/models.json", "argos": "/srv/index.json"}
    monkeypatch.setenv("INTERLINEAR_MODELS_DIR", "models")
    assert load_settings().models_folder == Path("models").absolute()
    for name, value in (
        ("MODELS", "en-es"),
        ("MODELS", "nowhere:en-es"),
        ("REGISTRIES", "nowhere=x"),
        ("REGISTRIES", "x"),
        ("MODELS", "firefox:es argos:en-es"),
        ("MODELS", "firefox:en"),
        ("REGISTRIES", "firefox=https://me:secret@mirror.example/"),
        ("REGISTRY_HOSTS", "no host"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(f"INTERLINEAR_{name}", value)
            with pytest.raises(SettingsError, match=f"INTERLINEAR_{name}="):
                load_settings()


@pytest.mark.parametrize(
    ("licence", "does"), [("CC-BY-NC-4.0", True), ("non-commercial", True), ("MPL-2.0", False), ("CC-BY-4.0", False)]
)
def test_licences_that_forbid_commercial_use_are_known_by_their_names(licence: str, does: bool) -> None:
    assert forbids_commercial_use(licence) is does


# ---- Jobs


def test_pauses_grow_and_follow_the_server() -> None:
    job = InstallJob(id="1", model="firefox:en-fr", is_wanted=True)
    pauses = []
    for _ in range(6):
        job.begin()
        job.fail("busy", passes=True, now=1000.0)
        pauses.append(job.retry_at - 1000.0)
    assert pauses == [30.0, 120.0, 600.0, 3600.0, 3600.0, 3600.0]
    job.fail("busy", passes=True, now=1000.0, retry_after_s=7200.0)
    assert job.retry_at == 8200.0


def test_what_somebody_asked_for_is_given_up_after_some_attempts() -> None:
    job = InstallJob(id="1", model="firefox:en-fr")
    states = []
    for _ in range(4):
        job.begin()
        job.fail("busy", passes=True, now=0.0)
        states.append(job.state)
    assert states == ["waiting", "waiting", "waiting", "failed"]


def test_what_will_not_pass_is_given_up_at_once_unless_the_settings_name_it() -> None:
    for is_wanted, state in ((False, "failed"), (True, "waiting")):
        job = InstallJob(id="1", model="firefox:en-fr", is_wanted=is_wanted)
        job.begin()
        job.fail("no such pair", passes=False, now=0.0)
        assert job.state == state
        assert "no such pair" in job.description()


# ---- The folder


def record(name: str) -> dict[str, str]:
    return {"name": name}


def test_jobs_outlive_the_process_and_are_added_once(tmp_path: Path) -> None:
    folder, other = ModelsFolder(tmp_path / "models"), ModelsFolder(tmp_path / "models")
    job = InstallJob(id=job_id(ModelName("firefox", "en-fr")), model="firefox:en-fr", asked_at=1.0)
    assert folder.add(job)
    assert not other.add(job)
    job.state = "downloading"
    folder.save(job)
    assert other.jobs() == [job]
    (tmp_path / "models" / ".jobs" / "damaged.json").write_text("{")
    assert other.jobs() == [job]
    other.forget(job)
    assert folder.jobs() == []


def test_only_one_holds_the_lock_and_whoever_ends_lets_it_go(tmp_path: Path) -> None:
    one, other = ModelsFolder(tmp_path / "models"), ModelsFolder(tmp_path / "models")
    with one.lock() as first:
        assert first
        with other.lock() as second:
            assert not second
    with other.lock() as third:
        assert third


def test_a_bundle_is_swapped_in_and_back(tmp_path: Path) -> None:
    folder = ModelsFolder(tmp_path)
    made = make_bundle(folder.new / "en-fr", seed=1, imported=record("firefox:en-fr@tiny"))
    place = folder.put_in_place(made)
    assert folder.installed() == {tmp_path / "en-fr": ModelName("firefox", "en-fr", "tiny")}
    folder.clean()
    newer = make_bundle(folder.new / "en-fr", seed=2, imported=record("argos:en-fr@1"))
    folder.put_in_place(newer)
    assert folder.installed()[place].registry == "argos"
    folder.put_back(place)
    assert folder.installed()[place].registry == "firefox"
    removed = folder.take_away(place)
    assert folder.installed() == {}
    removed.rename(place)
    assert list(folder.installed()) == [place]
    folder.take_away(place)
    folder.clean()
    assert os.listdir(tmp_path) == []


def test_a_bundle_of_the_users_own_is_not_replaced(tmp_path: Path) -> None:
    folder = ModelsFolder(tmp_path)
    assert folder.may_replace(tmp_path / "en-fr")
    make_bundle(tmp_path / "en-fr")
    assert not folder.may_replace(tmp_path / "en-fr")


def test_a_kill_between_two_renames_loses_no_bundle(tmp_path: Path) -> None:
    """Of a file system that cannot exchange two names, such as NFS."""
    folder = ModelsFolder(tmp_path)
    make_bundle(folder.new / "en-fr.old", imported=record("firefox:en-fr@tiny"))
    folder.clean()
    assert list(folder.installed()) == [tmp_path / "en-fr"]


def test_what_is_no_imported_bundle_is_no_installed_model(tmp_path: Path) -> None:
    make_bundle(tmp_path / "mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "file").touch()
    assert ModelsFolder(tmp_path).installed() == {}
    assert ModelsFolder(tmp_path / "nowhere").installed() == {}


def test_what_has_arrived_stays_only_for_jobs_to_come(tmp_path: Path) -> None:
    folder = ModelsFolder(tmp_path)
    job = InstallJob(id="1", model="firefox:en-fr", state="waiting", bytes=1)
    folder.add(job)
    for place in (folder.downloads, folder.new):
        place.mkdir()
    folder.clean()
    assert folder.downloads.exists() and not folder.new.exists()
    job.state = "failed"
    folder.save(job)
    folder.clean()
    assert not folder.downloads.exists()


# ---- Who sits at this machine


@pytest.mark.parametrize(
    ("client", "headers", "is_here"),
    [
        ("127.0.0.1", {"host": "localhost:8000"}, True),
        ("127.0.0.1", {"host": "127.0.0.1"}, True),
        ("::1", {"host": "[::1]:8000"}, True),
        ("::ffff:127.0.0.1", {"host": "localhost"}, True),
        ("127.0.0.1", {"host": "localhost:8000", "origin": "http://localhost:8000"}, True),
        ("127.0.0.1", {"host": "localhost:8000", "origin": "http://localhost:3000"}, False),
        ("127.0.0.1", {"host": "localhost", "origin": "null"}, False),
        ("127.0.0.1", {"host": "rebound.example"}, False),
        ("127.0.0.1", {"host": "localhost", "x-forwarded-for": "127.0.0.1"}, False),
        ("127.0.0.1", {"host": "localhost", "forwarded": "for=10.0.0.1"}, False),
        ("127.0.0.1", {"host": "localhost", "x-forwarded-proto": "https"}, False),
        ("127.0.0.1", {}, False),
        ("172.17.0.1", {"host": "localhost:8000"}, False),
        ("10.0.0.1", {"host": "localhost"}, False),
    ],
)
def test_only_requests_of_this_machine_itself_are_of_whoever_sits_at_it(
    client: str, headers: dict[str, str], is_here: bool
) -> None:
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert is_at_this_machine({"client": (client, 1), "headers": encoded, "http_version": "1.1"}) is is_here


def test_http_1_0_is_a_proxy() -> None:
    """nginx adds no header by default."""
    assert not is_at_this_machine(
        {"client": ("127.0.0.1", 1), "headers": [(b"host", b"localhost")], "http_version": "1.0"}
    )


def test_loopback_addresses_are_known() -> None:
    assert all(map(is_loopback, ["localhost", "127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"]))
    assert not any(map(is_loopback, ["", "localhost.example", "128.0.0.1", "::2", "0.0.0.0"]))
