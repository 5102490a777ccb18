"""Registries on loopback: what their lists say, and downloads that are resumed, verified and refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import signal
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from loopback_registry import LoopbackRegistry, loopback_registry
from m2m_models import nllb_folder
from shared_fixtures import make_bundle
from typer.testing import CliRunner, Result

from model.published import ModelName, parse_name
from training.__main__ import cli
from training.download import DownloadError, download
from training.export.ctranslate2 import ConvertOptions, convert_bundle
from training.importing import retrieve
from training.importing.bundle import compare_scores
from training.importing.errors import ImportFault
from training.importing.options import ImportOptions
from training.importing.registries import argos, firefox, huggingface, opus
from training.importing.registries.offer import Figure
from training.importing.retrieve import MANIFEST, Source, read_manifest

WEIGHTS = bytes(range(256)) * 40
SHA = "2" * 40


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(retrieve, "_PAUSES_S", (0, 0))
    return tmp_path / "cache" / "interlinear"


@pytest.fixture(scope="module")
def running() -> Iterator[LoopbackRegistry]:
    with loopback_registry() as server:
        yield server


@pytest.fixture
def registry(running: LoopbackRegistry) -> LoopbackRegistry:
    running.files.clear()
    running.asked.clear()
    running.tokens.clear()
    return running


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A bundle of ours as a package of Argos Translate."""
    folder = tmp_path_factory.mktemp("package")
    convert_bundle(ConvertOptions(make_bundle(folder / "en-fr"), folder / "ct2"), say=lambda _: None)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("p/metadata.json", json.dumps({"from_code": "en", "to_code": "fr", "package_version": "1.9"}))
        for file in (folder / "ct2").iterdir():
            archive.write(file, f"p/{'' if file.name == 'sentencepiece.model' else 'model/'}{file.name}")
    return content.getvalue()


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["import", *map(str, arguments)])


def firefox_entry(variant: str = "tiny", status: str | None = "Release", **metrics: float) -> dict[str, Any]:
    return {
        "architecture": variant,
        "releaseStatus": status,
        "sourceLanguage": "en",
        "targetLanguage": "fr",
        "files": {
            "model": {
                "path": f"models/{variant}/model.enfr.intgemm.alphas.bin.gz",
                "uncompressedSize": len(WEIGHTS),
                "uncompressedHash": hashlib.sha256(WEIGHTS).hexdigest(),
            },
            "vocab": {"path": f"models/{variant}/vocab.enfr.spm.gz"},
            "lexicalShortlist": {"path": f"models/{variant}/lex.50.50.enfr.s2t.bin.gz"},
        },
        "metrics": {"flores200-plus": {"llm-fluency": 4.5, **metrics}},
    }


def put_firefox(registry: LoopbackRegistry, **pairs: list[dict[str, Any]]) -> str:
    """Serves a list of Mozilla's form and the files of its models; the list's address."""
    models = {pair.replace("_", "-", 1): entries for pair, entries in pairs.items()}
    listed = {"generated": "2026-01-01T00:00:00Z", "baseUrl": registry.url, "models": models}
    registry.add("db/models.json", json.dumps(listed).encode())
    for entry in (entry for entries in models.values() for entry in entries):
        registry.add(entry["files"]["model"]["path"], gzip.compress(WEIGHTS, mtime=0))
        registry.add(entry["files"]["vocab"]["path"], gzip.compress(b"pieces", mtime=0))
    return f"{registry.url}/db/models.json"


def put_argos(registry: LoopbackRegistry, content: bytes, source: str = "en", target: str = "fr") -> str:
    versions = {"1.9": "old.argosmodel", "1.10": "new.argosmodel"}
    entries = [
        {"from_code": source, "to_code": target, "package_version": version, "links": ["ipfs://Qm", f"v1/{name}"]}
        for version, name in versions.items()
    ]
    registry.add("index.json", json.dumps(entries).encode())
    for name in versions.values():
        registry.add(f"v1/{name}", content)
    return f"{registry.url}/index.json"


# ---- From a name to a bundle


@pytest.mark.slow
def test_model_of_a_registry_becomes_a_bundle_with_its_origin_on_the_card(
    registry: LoopbackRegistry, package: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    address = put_argos(registry, package)
    result = run("argos:en-fr", "--registry", address, "--threads", 1)
    assert result.exit_code == 0, result.output
    assert result.output.rstrip().endswith("-m app serve")
    config = json.loads(Path("bundles/en-fr/config.json").read_text())
    imported, card = config["training"]["imported"], Path("bundles/en-fr/README.md").read_text()
    assert imported["name"] == "argos:en-fr@1.10"
    assert imported["address"] == f"{registry.url}/v1/new.argosmodel"
    assert imported["sha256"] == hashlib.sha256(package).hexdigest()
    assert [figure["score"] for figure in imported["published"]] == [42.7, 0.8354]
    assert "not measured here" in card
    assert registry.url in card
    assert config["attribution"] == list(argos.ATTRIBUTION)
    offline = Source(address, offline=True)
    assert read_manifest(offline.retrieve(offline.find(ModelName("argos", "en-fr"), (None, None))))
    assert [path for path, _ in registry.asked] == ["index.json", "v1/new.argosmodel"]
    assert run("argos:en-fr", "--registry", address, "--download-only").exit_code == 0
    Path("downloads").rename("carried")
    registry.files.clear()
    result = run("carried/argos-en-fr", "--threads", 1, "--out", "bundles/elsewhere")
    assert result.exit_code == 0, result.output
    assert json.loads(Path("bundles/elsewhere/config.json").read_text()) == config
    assert Path("bundles/elsewhere/README.md").read_text() == card


def test_published_and_measured_scores_are_told_apart() -> None:
    measured = {"metric": "BLEU", "score": 41.23, "set": "my.tsv"}
    lines = list(compare_scores([Figure("FLORES-200 devtest", "BLEU", 42.7, "Mozilla")], [measured]))
    assert lines[1:] == [
        "  BLEU         42.7  published, on FLORES-200 devtest, by Mozilla",
        "  BLEU        41.23  measured here, on my.tsv",
    ]


def test_downloaded_folder_is_verified_with_its_languages_and_its_files(
    registry: LoopbackRegistry, package: bytes, tmp_path: Path
) -> None:
    out = tmp_path / "carried"
    address = put_argos(registry, package, "pt", "pb")
    refused = run("argos:pt-pb", "--registry", address, "--download-only", "--out", out, "--source", "en")
    assert refused.exit_code == 0, refused.output
    assert f"import {out}" in refused.output
    result = run(out, "--out", tmp_path / "bundle", "--threads", 1)
    assert result.exit_code == 1
    assert "translates en to fr, not pt to pt-BR" in result.output
    (out / "new.argosmodel").write_bytes(b"changed")
    assert "new.argosmodel is not the file that was downloaded" in run(out, "--out", tmp_path / "bundle").output


# ---- What the lists say


def test_firefox_prefers_released_models_with_the_best_scores(registry: LoopbackRegistry) -> None:
    address = put_firefox(
        registry,
        en_fr=[
            firefox_entry("base", None, comet22=0.9, bleu=50.0),
            firefox_entry("tiny", comet22=0.8514, bleu=48.7),
            firefox_entry("base-memory", "Release Desktop", comet22=0.8652, bleu=48.9),
        ],
        zh_hant_en=[firefox_entry("base-memory")],
    )
    source = Source(address)
    offer = source.find(ModelName("firefox", "en-fr"), (None, None))
    assert (offer.variant, offer.source, offer.target, offer.licence) == ("base-memory", "en", "fr", "MPL-2.0")
    assert [(figure.metric, figure.score) for figure in offer.figures] == [("COMET-22", 0.8652), ("BLEU", 48.9)]
    assert [file.name for file in offer.files] == ["model.enfr.intgemm.alphas.bin", "vocab.enfr.spm"]
    assert source.find(ModelName("firefox", "EN-FR", "Tiny"), (None, None)).variant == "tiny"
    listed = run("--list", "firefox:en-fr", "--registry", address)
    assert listed.output.count("firefox:en-fr") == 3
    assert "MPL-2.0  BLEU" not in listed.output.splitlines()[0]
    with pytest.raises(ImportFault, match="has no huge: there is base-memory, tiny, base"):
        source.find(ModelName("firefox", "en-fr", "huge"), (None, None))


def test_firefox_knows_traditional_chinese_by_its_tag(registry: LoopbackRegistry) -> None:
    models = {"models": {"en-zh_hant": [firefox_entry()]}, "baseUrl": ".."}
    offers = firefox.read_offers(json.dumps(models).encode(), f"{registry.url}/db/models.json")
    assert offers[0].has_name("en-zh-Hant")
    assert offers[0].target == "zh-Hant"
    assert offers[0].files[0].url == f"{registry.url}/models/tiny/model.enfr.intgemm.alphas.bin.gz"


def test_opus_takes_the_newest_release() -> None:
    lines = [b"en-fr/opus-2019-12-04.zip", b"en-fr/opus-2020-02-26.zip", b"en-fr/opus-2020-02-26.eval.txt"]
    offers = opus.read_offers(b"\n".join([*lines, b"de+nl-en/opus-2020-01-01.zip"]), opus.ADDRESS)
    assert [offer.variant for offer in offers if offer.pair == "en-fr"] == ["opus-2020-02-26", "opus-2019-12-04"]
    [offer] = [offer for offer in offers if offer.variant == "opus-2020-02-26"]
    assert offer.files[0].url == "https://object.pouta.csc.fi/OPUS-MT-models/en-fr/opus-2020-02-26.zip"
    assert {figure.metric: figure.score for figure in offer.figures} == {"BLEU": 47.8, "COMET-22": 0.8617}


def test_hugging_face_repositories_without_safetensors_are_refused() -> None:
    sha = "0" * 40
    names = ["config.json", "sentencepiece.bpe.model", "pytorch_model.bin", "README.md", "onnx/model.safetensors"]

    def listed(*names: str) -> bytes:
        siblings = [{"rfilename": name, "size": 7, "lfs": {"sha256": "a" * 64}} for name in names]
        return json.dumps({"sha": sha, "siblings": siblings, "cardData": {"license": "cc-by-nc-4.0"}}).encode()

    with pytest.raises(ImportFault, match=r"only pytorch_model\.bin, which is not read since it may run code"):
        huggingface.read_offer(listed(*names), huggingface.ADDRESS, "facebook/nllb", (None, None))
    offer = huggingface.read_offer(
        listed(*names, "model.safetensors"), huggingface.ADDRESS, huggingface.NLLB, ("en", "fr")
    )
    assert offer.files[-1].url == f"https://huggingface.co/{huggingface.NLLB}/resolve/{sha}/model.safetensors"
    assert {file.name for file in offer.files} == {*names[:2], "README.md", "model.safetensors"}
    assert (offer.licence, offer.files[0].sha256) == ("cc-by-nc-4.0", "a" * 64)
    assert {figure.score for figure in offer.figures} == {46.3, 0.8658}
    assert huggingface.list_address("https://hub", "a/b", "refs/pr/1").endswith("a/b/revision/refs%2Fpr%2F1?blobs=true")


def test_a_licence_against_commercial_use_must_be_accepted(registry: LoopbackRegistry, tmp_path: Path) -> None:
    siblings = [{"rfilename": "model.safetensors", "size": len(WEIGHTS)}]
    listed = {"sha": "1" * 40, "siblings": siblings, "cardData": {"license": "cc-by-nc-4.0"}}
    registry.add("api/models/facebook/nllb/revision/main", json.dumps(listed).encode())
    registry.add(f"facebook/nllb/resolve/{'1' * 40}/model.safetensors", WEIGHTS)
    arguments = ["huggingface:facebook/nllb", "--registry", registry.url, "--download-only", "--out", tmp_path / "out"]
    refused = run(*arguments)
    assert refused.exit_code == 1
    assert "cc-by-nc-4.0, which forbids commercial use" in refused.output
    assert len(registry.asked) == 1, "nothing was downloaded"
    assert run(*arguments, "--accept-licence").exit_code == 0
    manifest = read_manifest(tmp_path / "out")
    assert manifest is not None
    assert manifest.licence == "cc-by-nc-4.0"
    assert "forbids commercial use" in run(tmp_path / "out").output


ARGOS = {"from_code": "en", "to_code": "fr", "package_version": "1", "links": ["https://a.example/fr.argosmodel"]}


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("firefox", 3),
        ("firefox", {**firefox_entry(), "files": {"model": {"path": "http://["}}}),
        ("firefox", {**firefox_entry(), "files": {"model": {"path": "a/model.bin", "uncompressedSize": -1}}}),
        ("firefox", {**firefox_entry(), "architecture": "tiny\x1b[2J"}),
        ("argos", 3),
        ("argos", {**ARGOS, "to_code": None}),
        ("argos", {**ARGOS, "links": ["file:///etc/passwd"]}),
        ("opus", f"en-de/{'x' * 300}.zip"),
    ],
)
def test_a_bad_entry_is_left_out_and_named_and_the_others_are_there(
    registry: LoopbackRegistry, name: str, bad: Any
) -> None:
    pair = "en-de" if name == "opus" else "en-xx"
    if name == "firefox":
        listed = json.dumps({"models": {"en-fr": [firefox_entry()], "en-xx": [bad]}})
    elif name == "argos":
        bad, pair = ({**bad, "from_code": "xx"}, "xx") if isinstance(bad, dict) else (bad, "entry 2")
        listed = json.dumps([ARGOS, bad])
    else:
        listed = f"en-fr/opus-2020-02-26.zip\n{bad}\n"
    registry.add("list", listed.encode())
    result = run("--list", name, "--registry", f"{registry.url}/list")
    assert result.exit_code == 0
    assert f"{name}:en-fr" in result.stdout
    assert result.stdout.count("\n") == 2, "a heading and one model"
    assert f"has an entry that is left out, '{pair}" in result.stderr
    assert result.stderr.count("\n") == 1
    assert "\x1b" not in result.output


def test_many_bad_entries_are_counted(registry: LoopbackRegistry) -> None:
    registry.add("list", json.dumps([*range(50), ARGOS]).encode())
    result = run("--list", "argos", "--registry", f"{registry.url}/list")
    assert result.stderr.count("\n") == 21
    assert "has 30 more entries that are left out" in result.stderr


def test_scores_that_are_no_numbers_are_not_shown(registry: LoopbackRegistry) -> None:
    scores: dict[str, Any] = {"bleu": 10**400, "chrf": float("nan"), "comet22": 0.9}
    offers = firefox.read_offers(json.dumps({"models": {"en-fr": firefox_entry(**scores)}}).encode(), registry.url)
    assert [figure.metric for figure in offers[0].figures] == ["COMET-22"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("firefox", b"[]"),
        ("firefox", b"{"),
        ("firefox", b'{"models": {"en-fr": [{}]}}'),
        ("firefox", b'{"models": {"en-fr": [3]}}'),
        ("firefox", json.dumps({"models": {"en-fr": [{**firefox_entry(), "architecture": 3}]}}).encode()),
        ("argos", b"{}"),
        ("argos", b'[{"from_code": "en"}]'),
        ("argos", b'[{"from_code": "en", "to_code": "fr", "package_version": "1", "links": ["file:///etc/passwd"]}]'),
        ("argos", b'[{"from_code": "en", "to_code": "fr", "package_version": "1", "links": ["https://x/.."]}]'),
        ("opus", b"<html>"),
    ],
)
def test_a_list_that_is_wrong_is_refused_in_one_line(registry: LoopbackRegistry, name: str, content: bytes) -> None:
    registry.add("list", content)
    result = run("--list", name, "--registry", f"{registry.url}/list")
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    assert "Traceback" not in result.output


def test_a_list_on_disk_may_name_files_beside_it(tmp_path: Path, package: bytes) -> None:
    (tmp_path / "new.argosmodel").write_bytes(package)
    entry = {"from_code": "en", "to_code": "fr", "package_version": "1", "links": ["new.argosmodel"]}
    (tmp_path / "index.json").write_text(json.dumps([entry]))
    source = Source(str(tmp_path / "index.json"))
    folder = source.retrieve(source.find(ModelName("argos", "en-fr"), (None, None)))
    assert (folder / "new.argosmodel").read_bytes() == package


def test_a_model_of_many_languages_needs_no_pair_and_no_free_folder_of_one(
    registry: LoopbackRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bundles/en-fr").mkdir(parents=True)
    made: list[ImportOptions] = []

    def write(options: ImportOptions, *_: object) -> None:
        made.append(options)
        raise ImportFault("nothing is converted here")

    monkeypatch.setattr("training.importing.bundle._write_bundle", write)
    folder, _ = nllb_folder(tmp_path / "published")
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    listed = {"sha": SHA, "siblings": [{"rfilename": name} for name in files], "cardData": {"license": "mit"}}
    registry.add("api/models/o/many/revision/main", json.dumps(listed).encode())
    for name, content in files.items():
        registry.add(f"o/many/resolve/{SHA}/{name}", content)
    command = ["huggingface:o/many", "--registry", registry.url]
    for options in (["--languages", "en,fr"], ["--source", "en", "--target", "fr"]):
        result = run(*command, *options)
        assert "nothing is converted here" in result.output
        assert made[-1].pair == ("en", "fr")
        assert made[-1].folder == Path("bundles/many")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["firefox:en-xx"], "firefox has no en-xx: it has en-de, en-fr; `import --list firefox` shows all"),
        (["firefox:de-fr"], "With firefox:de-en and firefox:en-fr the service goes through English"),
        (["mozilla:en-fr"], "no registry is called mozilla; there are firefox, opus, argos, huggingface"),
        (["--list", "huggingface"], "huggingface has no list of models"),
        (["--list", "nowhere"], "no registry is called nowhere"),
        (["huggingface:nllb"], "is not of the form huggingface:OWNER/NAME"),
        (["no/such/folder", "--source", "en", "--target", "fr"], "no/such/folder: not found"),
        ([], "name a model, such as firefox:en-fr, or a path; or --list firefox"),
        (["firefox:en-fr", "--offline"], "is not in the cache: run the command once without --offline"),
    ],
)
def test_what_cannot_be_imported_is_said_in_one_line(
    registry: LoopbackRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    address = put_firefox(
        registry, en_fr=[firefox_entry()], en_de=[firefox_entry()], de_en=[firefox_entry()], uk_en=[firefox_entry()]
    )
    result = run(*arguments, "--registry", address)
    assert result.exit_code == 1
    assert message in result.output
    assert result.output.count("\n") == 1


# ---- The Hub's token


def put_gated(registry: LoopbackRegistry) -> None:
    siblings = [{"rfilename": "model.safetensors"}, {"rfilename": "onnx/source.spm"}]
    listed = {"sha": SHA, "siblings": siblings, "cardData": {"license": ["mit"]}}
    registry.add("api/models/o/gated/revision/main", json.dumps(listed).encode())
    registry.add(f"o/gated/resolve/{SHA}/model.safetensors", WEIGHTS).token = "hf_secret"


def download_gated(registry: LoopbackRegistry, out: Path, *options: str) -> Result:
    return run("huggingface:o/gated", "--registry", registry.url, "--download-only", "--out", out, *options)


def test_a_gated_repository_needs_a_token(
    registry: LoopbackRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_gated(registry)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    assert (
        "401 Unauthorized: it is gated, needs HF_TOKEN, or does not exist"
        in download_gated(registry, tmp_path / "a").output
    )
    assert registry.tokens == []
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    refused = download_gated(registry, tmp_path / "a")
    assert "401 Unauthorized: HF_TOKEN's account may not read it" in refused.output
    assert refused.exit_code == 1
    monkeypatch.setenv("HF_TOKEN", " hf_secret\n")
    done = download_gated(registry, tmp_path / "a")
    assert done.exit_code == 0, done.output
    assert registry.tokens[-2:] == [(path, "Bearer hf_secret") for path in registry.files]
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"hf_" not in kept + refused.output.encode() + done.output.encode()


def test_a_token_stays_with_its_host(
    registry: LoopbackRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_gated(registry)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    [weights] = [path for path in registry.files if path.endswith(".safetensors")]
    with loopback_registry() as storage:
        storage.add("stored", WEIGHTS)
        registry.files[weights].redirect = f"{storage.url}/stored"
        host = storage.url.removeprefix("http://")
        assert download_gated(registry, tmp_path / "out", "--host", host).exit_code == 0
        assert storage.asked == [("stored", None)]
        assert storage.tokens == []
    assert (weights, "Bearer hf_secret") in registry.tokens


def test_a_token_goes_to_no_other_registry_nor_unencrypted(
    registry: LoopbackRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    address = put_firefox(registry, en_fr=[firefox_entry()])
    assert run("firefox:en-fr", "--registry", address, "--download-only", "--out", tmp_path / "a").exit_code == 0
    put_gated(registry)
    monkeypatch.setenv("HTTP_PROXY", registry.url)
    refused = run("huggingface:o/gated", "--registry", "http://hub.invalid", "--download-only", "--out", tmp_path / "b")
    assert "401 Unauthorized: it is gated" in refused.output
    assert registry.tokens == []


@pytest.mark.parametrize("token", ["hf_a b", "hf_é", "hf_\x07"])
def test_a_token_that_is_none_is_refused_without_showing_it(
    registry: LoopbackRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    put_gated(registry)
    monkeypatch.setenv("HF_TOKEN", token)
    result = download_gated(registry, tmp_path / "out")
    assert result.output == "error: HF_TOKEN is no token: it has blanks or characters that are not ASCII\n"


# ---- Downloads


def fetched(registry: LoopbackRegistry) -> Path:
    source = Source(f"{registry.url}/db/models.json")
    return source.retrieve(source.find(ModelName("firefox", "en-fr"), (None, None)))


def test_download_resumes_through_cuts_faults_and_redirects(registry: LoopbackRegistry) -> None:
    put_firefox(registry, en_fr=[firefox_entry()])
    [path] = [path for path in registry.files if "model.enfr" in path]
    packed = registry.files[path]
    packed.cut, packed.statuses = 50, [503]
    registry.files["moved"] = registry.files.pop("models/tiny/vocab.enfr.spm.gz")
    registry.add("models/tiny/vocab.enfr.spm.gz", b"").redirect = f"{registry.url}/moved"
    folder = fetched(registry)
    assert (folder / "model.enfr.intgemm.alphas.bin").read_bytes() == WEIGHTS
    assert (folder / "vocab.enfr.spm").read_bytes() == b"pieces"
    assert [wanted for asked, wanted in registry.asked if asked == path] == [None, None, "bytes=50-"]
    assert {file.name for file in folder.iterdir()} == {"model.enfr.intgemm.alphas.bin", "vocab.enfr.spm", MANIFEST}
    asked = len(registry.asked)
    assert fetched(registry) == folder
    assert len(registry.asked) == asked + 1, "only the list"


def test_next_command_resumes_where_an_interrupted_one_stopped(registry: LoopbackRegistry, cache: Path) -> None:
    put_firefox(registry, en_fr=[firefox_entry()])
    vocabulary = registry.files["models/tiny/vocab.enfr.spm.gz"]
    vocabulary.statuses = [503] * 3
    with pytest.raises(DownloadError, match="the server answered 503"):
        fetched(registry)
    assert not list(cache.rglob(MANIFEST))
    registry.asked.clear()
    fetched(registry)
    assert [path for path, _ in registry.asked] == ["db/models.json", "models/tiny/vocab.enfr.spm.gz"]


def test_ctrl_c_keeps_what_has_arrived(registry: LoopbackRegistry, tmp_path: Path) -> None:
    content = bytes(range(256)) * 2_000
    address = put_argos(registry, content)
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        while not any(part.stat().st_size for part in tmp_path.rglob(".*.part")):
            time.sleep(0.01)
        signal.pthread_kill(main, signal.SIGINT)

    package = registry.files["v1/new.argosmodel"]
    package.cut, package.on_cut = len(content) // 2, interrupt
    command = ["argos:en-fr", "--registry", address, "--download-only", "--out", tmp_path / "out"]
    stopped = run(*command)
    assert stopped.exit_code == 130
    assert stopped.stderr.splitlines()[-2].startswith("stopped; to resume:")
    assert "Traceback" not in stopped.output
    assert not (tmp_path / "out").exists()
    assert run(*command).exit_code == 0
    path, wanted = registry.asked[-1]
    assert path == "v1/new.argosmodel"
    assert wanted is not None
    assert 0 < int(wanted.removeprefix("bytes=").removesuffix("-")) <= len(content) // 2
    assert (tmp_path / "out" / "new.argosmodel").read_bytes() == content


def test_proxy_of_the_environment_is_used(
    registry: LoopbackRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_firefox(registry, en_fr=[firefox_entry()])
    listed = json.loads(registry.files["db/models.json"].content)
    registry.add("db/models.json", json.dumps({**listed, "baseUrl": ".."}).encode())
    monkeypatch.setenv("HTTP_PROXY", registry.url)
    command = ["firefox:en-fr", "--registry", "http://models.invalid/db/models.json", "--download-only", "--out"]
    assert run(*command, tmp_path / "a").exit_code == 0
    monkeypatch.setenv("NO_PROXY", "models.invalid")
    refused = run(*command, tmp_path / "b")
    assert refused.exit_code == 1
    assert "http://models.invalid/db/models.json: cannot be downloaded" in refused.output


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("HTTP_PROXY", "gopher://user:secret@127.0.0.1:1", "a proxy of the environment cannot be used"),
        ("ALL_PROXY", "socks5://127.0.0.1:1", "a proxy of the environment cannot be used"),
        ("HTTP_PROXY", "http://127.0.0.1:x", "a proxy of the environment cannot be used"),
        ("SSL_CERT_FILE", "/nowhere.pem", "SSL_CERT_FILE or SSL_CERT_DIR cannot be used (No such file or directory)"),
    ],
)
def test_wrong_settings_of_the_network_are_said_in_one_line(
    registry: LoopbackRegistry, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    result = run("--list", "firefox", "--registry", put_firefox(registry, en_fr=[firefox_entry()]))
    assert result.exit_code == 1
    assert message in result.output
    assert result.output.count("\n") == 1
    assert "secret" not in result.output


@pytest.mark.parametrize("is_only_download", [True, False])
def test_a_target_that_cannot_be_written_is_refused_before_the_download(
    registry: LoopbackRegistry, package: bytes, tmp_path: Path, is_only_download: bool
) -> None:
    address = put_argos(registry, package)
    (tmp_path / "file").write_bytes(b"")
    mode = ["--download-only"] if is_only_download else []
    result = run("argos:en-fr", "--registry", address, "--out", tmp_path / "file" / "en-fr", *mode)
    assert result.exit_code == 1
    assert f"{tmp_path / 'file'}" in result.output
    assert result.output.count("\n") == 1
    assert [path for path, _ in registry.asked] == ["index.json"]


def test_a_full_disk_is_said_with_its_place(
    registry: LoopbackRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = put_firefox(registry, en_fr=[firefox_entry()])
    command = ["firefox:en-fr", "--registry", address, "--download-only", "--out", tmp_path / "out"]

    def full(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr("training.download.os.fsync", full)
        result = run(*command)
    assert result.exit_code == 1
    assert result.output.splitlines()[-1].startswith("error: [Errno 28] No space left on device: '")
    assert not (tmp_path / "out").exists()
    assert run(*command).exit_code == 0


def test_a_file_larger_than_the_free_space_is_not_begun(
    registry: LoopbackRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.add("x", bytes(200_000))
    monkeypatch.setattr("training.download.shutil.disk_usage", lambda _: SimpleNamespace(free=100_000))
    with pytest.raises(DownloadError, match=r"0\.2 MB are missing, and .* has 0\.1 MB free"):
        download(f"{registry.url}/x", tmp_path / "x")
    assert list(tmp_path.glob("*x*")) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(WEIGHTS[:-1] + b"?", mtime=0), "as SHA-256 unpacked, where its list says"),
        (gzip.compress(WEIGHTS[:-1], mtime=0), "has 10239 bytes unpacked, where its list says 10240"),
        (gzip.compress(bytes(1 << 20), mtime=0), "takes more than 10,240 bytes unpacked"),
        (gzip.compress(WEIGHTS, mtime=0)[:-20], "is damaged"),
    ],
)
def test_wrong_content_is_refused_and_deleted(
    registry: LoopbackRegistry, cache: Path, content: bytes, message: str
) -> None:
    put_firefox(registry, en_fr=[firefox_entry()])
    [path] = [path for path in registry.files if "model.enfr" in path]
    registry.files[path].content = content
    with pytest.raises(ImportFault, match=message):
        fetched(registry)
    assert not [file for file in cache.rglob("model*") if file.is_file()]


def test_a_zip_gives_only_the_files_of_a_marian_model(registry: LoopbackRegistry) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("opus.npz", "../source.spm", "vocab.yml", "run.exe", "x/LICENSE", ".hidden.yml"):
            archive.writestr(name, b"1")
    registry.add("index.txt", b"en-fr/opus-2020-02-26.zip\n")
    registry.add("en-fr/opus-2020-02-26.zip", content.getvalue())
    source = Source(f"{registry.url}/index.txt")
    folder = source.retrieve(source.find(ModelName("opus", "en-fr"), (None, None)))
    assert {file.name for file in folder.iterdir()} == {"opus.npz", "source.spm", "vocab.yml", "LICENSE", MANIFEST}
    assert not (folder.parent / "source.spm").exists()


@pytest.mark.parametrize(
    ("fields", "limits", "message"),
    [
        ({}, {"size": 9}, "has 10 bytes on the server, where its list says 9"),
        ({"hides_length": True}, {"size": 9}, "goes on after 9 bytes"),
        ({"hides_length": True}, {"size": 11}, "has 10 bytes, where its list says 11; it was deleted"),
        ({}, {"max_bytes": 9}, "has 10 bytes, over the limit of 9"),
        ({"hides_length": True}, {"max_bytes": 9}, "goes on after 9 bytes, the limit"),
        ({"statuses": [404]}, {}, "the server answered 404 Not Found"),
        ({"redirect": "ftp://127.0.0.1/x"}, {}, "is no address to download from"),
        ({"cut": 5, "etag": None}, {}, "cut off after 5 of 10 bytes"),
    ],
)
def test_download_refuses_what_is_not_as_expected(
    registry: LoopbackRegistry, tmp_path: Path, fields: dict[str, Any], limits: dict[str, int], message: str
) -> None:
    vars(registry.add("x", b"0123456789")).update(fields)
    with pytest.raises(DownloadError, match=message):
        download(f"{registry.url}/x", tmp_path / "x", **limits)  # type: ignore[arg-type]
    assert not (tmp_path / "x").exists()


def test_names_of_models() -> None:
    assert parse_name("hf:facebook/nllb@refs/pr/1") == ModelName("huggingface", "facebook/nllb", "refs/pr/1")
    assert parse_name("opus:de+nl-en@opus-2020-01-01") == ModelName("opus", "de+nl-en", "opus-2020-01-01")
    assert parse_name("bundles/en-fr") is None


@pytest.mark.parametrize(
    "change", [{"format": 2}, {"files": [{"name": "../x"}]}, {"figures": [3]}, {"licence": None}, {"source": 3}]
)
def test_a_damaged_manifest_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    facts = {
        "format": 1, "name": "argos:en-fr@1", "address": "a", "page": "p", "licence": "l", "attribution": [],
        "source": "en", "target": "fr", "figures": [], "downloaded": "2026-01-01", "files": [],
    }  # fmt: skip
    (tmp_path / MANIFEST).write_text(json.dumps(facts))
    assert read_manifest(tmp_path) is not None
    (tmp_path / MANIFEST).write_text(json.dumps({**facts, **change}))
    with pytest.raises(ImportFault, match="download the model again"):
        read_manifest(tmp_path)
