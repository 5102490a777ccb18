"""Registries on loopback: what their lists say, and downloads that are resumed, verified and refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback_registry import LoopbackRegistry, loopback_registry
from shared_fixtures import make_bundle
from typer.testing import CliRunner, Result

from training.__main__ import cli
from training.download import DownloadError, download
from training.export.ctranslate2 import ConvertOptions, convert_bundle
from training.importing import retrieve
from training.importing.bundle import compare_scores
from training.importing.errors import ImportFault
from training.importing.registries import argos, firefox, huggingface, opus
from training.importing.registries.offer import Figure
from training.importing.retrieve import MANIFEST, ModelName, Source, parse_name, read_manifest

WEIGHTS = bytes(range(256)) * 40


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


def test_published_and_measured_scores_are_told_apart() -> None:
    measured = {"metric": "BLEU", "score": 41.23, "set": "my.tsv"}
    lines = list(compare_scores([Figure("FLORES-200 devtest", "BLEU", 42.7, "Mozilla")], [measured]))
    assert lines[1:] == [
        "  BLEU         42.7  published, on FLORES-200 devtest, by Mozilla",
        "  BLEU        41.23  measured here, on my.tsv",
    ]


def test_downloaded_folder_is_imported_elsewhere_with_the_same_card(
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
    source = Source(str(tmp_path / "index.json"), offline=False, say=lambda _: None)
    folder = source.retrieve(source.find(ModelName("argos", "en-fr"), (None, None)))
    assert (folder / "new.argosmodel").read_bytes() == package


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


# ---- Downloads


def fetched(registry: LoopbackRegistry) -> Path:
    source = Source(f"{registry.url}/db/models.json", say=lambda _: None)
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
    source = Source(f"{registry.url}/index.txt", say=lambda _: None)
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
