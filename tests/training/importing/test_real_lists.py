"""training/importing/registries: entries in the form of the real lists (docs/registries.md), with short values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from training.importing.errors import ImportFault
from training.importing.registries import argos, firefox, huggingface, opus
from training.importing.registries.offer import Figure, Offer

HASH = "3b1c399511c01c84c36fae5c0524df44096288efdc8236e182b5c97d7ad2244c"
BUCKET = "https://storage.googleapis.com/moz-fx-translations-data--303e-prod-translations-data"
SCORES = {
    "bleu": 27.5229,
    "chrf": 56.144,
    "chrfpp": 53.8766,
    "comet22": 0.854,
    "llm-ref": 4.266,
    "metricx24": 2.4542,
    "metricx24-qe": 2.1428,
    "spbleu": 34.223,
}


def firefox_entry(
    source: str, target: str, architecture: str, status: str | None, *, two_vocabularies: bool = False
) -> dict[str, Any]:
    """As db/updater.py of mozilla/translations writes it: metrics only if there are any, nulls for what is unknown."""
    pair = f"{source}{target}"
    run = f"models/{source}-{target}/retrain_hr_fix_names_CUAEXUHoQum_cFqh-ZAryw/exported"
    names = {"srcVocab": "srcvocab", "trgVocab": "trgvocab"} if two_vocabularies else {"vocab": "vocab"}
    return {
        "architecture": architecture,
        "files": {
            "lexicalShortlist": {"path": f"{run}/lex.50.50.{pair}.s2t.bin.gz"},
            "model": {
                "path": f"{run}/model.{pair}.intgemm.alphas.bin.gz",
                "uncompressedHash": HASH,
                "uncompressedSize": 31561787,
            },
            **{key: {"path": f"{run}/{name}.{pair}.spm.gz"} for key, name in names.items()},
        },
        "metrics": {"flores200-plus": SCORES},
        "modelStatistics": {"decoderParameters": 7388432, "encoderParameters": 18914340, "parameters": 42686774},
        "releaseStatus": status,
        "sourceLanguage": source,
        "targetLanguage": target,
    }


def firefox_offers(*entries: dict[str, Any]) -> list[Offer]:
    models: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        models.setdefault(f"{entry['sourceLanguage']}-{entry['targetLanguage']}", []).append(entry)
    listed = {"generated": "2026-03-29T00:37:49Z", "baseUrl": BUCKET, "models": models}
    return firefox.read_offers(json.dumps(listed).encode(), firefox.ADDRESS, pytest.fail)


def test_entry_of_mozilla_has_its_files_below_the_bucket() -> None:
    [offer] = firefox_offers(firefox_entry("en", "es", "base-memory", "Release"))
    run = f"{BUCKET}/models/en-es/retrain_hr_fix_names_CUAEXUHoQum_cFqh-ZAryw/exported"
    assert [file.url for file in offer.files] == [
        f"{run}/model.enes.intgemm.alphas.bin.gz",
        f"{run}/vocab.enes.spm.gz",
    ]
    assert [file.name for file in offer.files] == ["model.enes.intgemm.alphas.bin", "vocab.enes.spm"]
    assert all(file.packing == "gzip" for file in offer.files)
    assert (offer.files[0].sha256, offer.files[0].size, offer.size) == (HASH, 31561787, 31561787)
    assert offer.download_bytes == 23_108_104  # measured by others: firefox_downloads.tsv
    assert (offer.name, offer.source, offer.target) == ("firefox:en-es@base-memory", "en", "es")


def test_scores_of_mozilla_have_the_names_of_their_metrics_and_test_set() -> None:
    [offer] = firefox_offers(firefox_entry("en", "es", "base-memory", "Release"))
    assert {(figure.metric, figure.score) for figure in offer.figures} == {
        ("BLEU", 27.5229), ("spBLEU", 34.223), ("chrF", 56.144), ("chrF++", 53.8766), ("COMET-22", 0.854),
    }  # fmt: skip
    assert {(figure.dataset, figure.origin) for figure in offer.figures} == {
        ("FLORES-200+ devtest", "Mozilla's registry")
    }


def test_pair_with_two_vocabularies_has_both() -> None:
    entry = firefox_entry("en", "zh_hant", "base-memory", "Release", two_vocabularies=True)
    [offer] = firefox_offers(entry)
    assert [file.name for file in offer.files[1:]] == ["srcvocab.enzh_hant.spm", "trgvocab.enzh_hant.spm"]
    assert (offer.name, offer.target) == ("firefox:en-zh_hant@base-memory", "zh-Hant")


def test_model_of_mozilla_without_scores_or_without_bleu_is_offered() -> None:
    """One of 130 entries has no metrics; those of Chinese, Japanese and Korean have spBLEU alone."""
    entry, bare = firefox_entry("en", "ja", "base-memory", "Release"), firefox_entry("hbs", "en", "base", None)
    del bare["metrics"]
    entry["metrics"] = {"flores200-plus": {name: score for name, score in SCORES.items() if name != "bleu"}}
    offers = firefox_offers(entry, bare)
    assert [figure.metric for figure in offers[0].figures] == ["chrF", "chrF++", "COMET-22", "spBLEU"]
    assert (offers[1].figures, offers[1].status) == ((), "not released")


@pytest.mark.parametrize("status", ["Release", "Release Desktop", "Release Android"])
def test_released_model_of_mozilla_precedes_a_better_one_that_is_not(status: str) -> None:
    better = firefox_entry("ko", "en", "base", "Nightly" if status == "Release" else None)
    released = firefox_entry("ko", "en", "tiny", status)
    released["metrics"] = {"flores200-plus": {"comet22": 0.5}}
    assert [offer.variant for offer in firefox_offers(better, released)] == ["tiny", "base"]


@pytest.mark.parametrize("code", ["hbs", "nb", "nn", "no", "zh"])
def test_codes_of_mozilla_are_language_tags(code: str) -> None:
    [offer] = firefox_offers(firefox_entry(code, "en", "tiny", "Release"))
    assert offer.source == code


def argos_offers(*entries: dict[str, Any]) -> list[Offer]:
    return argos.read_offers(json.dumps(entries).encode(), argos.ADDRESS, pytest.fail)


def argos_entry(source: str, target: str, version: str, *links: str) -> dict[str, Any]:
    """As index.json of argosopentech/argospm-index has it."""
    file = f"translate-{source}_{target}-{version.replace('.', '_')}.argosmodel"
    return {
        "package_version": version,
        "argos_version": "1.9.0",
        "from_code": source,
        "from_name": "Chinese (traditional)",
        "to_code": target,
        "to_name": "English",
        "links": [f"https://argos-net.com/v1/{file}", *links],
        "code": f"translate-{source}_{target}",
    }


def test_entry_of_argos_has_one_package_by_https() -> None:
    [offer] = argos_offers(argos_entry("ar", "en", "1.0", "ipfs://QmV5bmf8iqKpoGoyuTzEppaSWdceuW6zgiePaUr5ThPCpW"))
    [file] = offer.files
    assert file.url == "https://argos-net.com/v1/translate-ar_en-1_0.argosmodel"
    assert (file.name, file.size, file.sha256, offer.size) == ("translate-ar_en-1_0.argosmodel", None, None, None)
    assert (offer.name, offer.licence.startswith("Not stated")) == ("argos:ar-en@1.0", True)


@pytest.mark.parametrize(("code", "tag"), [("zt", "zh-Hant"), ("pb", "pt-BR"), ("nb", "nb"), ("tl", "tl")])
def test_codes_of_argos_are_language_tags(code: str, tag: str) -> None:
    [offer] = argos_offers(argos_entry(code, "en", "1.9"))
    assert (offer.source, offer.pair, offer.has_name(f"{tag}-en")) == (tag, f"{code}-en", True)


def test_version_of_argos_with_three_parts_is_newer_than_with_two() -> None:
    offers = argos_offers(argos_entry("en", "el", "1.9"), argos_entry("en", "el", "1.9.6"))
    assert [offer.variant for offer in offers] == ["1.9.6", "1.9"]


OPUS_INDEX = """\
ca+es+fr+ga+it+la+oc+pt_br+pt-ca+es+fr+ga+it+la+oc+pt_br+pt/opus-2019-12-05.zip
en-fr/opus-2019-12-04.eval.txt
en-fr/opus-2019-12-04.test.txt
en-fr/opus-2019-12-04.zip
en-fr/opus-2020-02-26.eval.txt
en-fr/opus-2020-02-26.zip
fi-en/opus+bt-2020-02-26.zip
fi-en/opus-2020-01-08.zip
index.txt
"""
"""As `swift list` prints it, by lib/dist.mk of Helsinki-NLP/OPUS-MT-train."""


def test_index_of_opus_has_releases_among_other_files() -> None:
    offers = opus.read_offers(OPUS_INDEX.encode(), opus.ADDRESS, pytest.fail)
    assert [offer.name for offer in offers][1:] == [
        "opus:en-fr@opus-2020-02-26",
        "opus:en-fr@opus-2019-12-04",
        "opus:fi-en@opus+bt-2020-02-26",
        "opus:fi-en@opus-2020-01-08",
    ]
    assert offers[0].source is None  # several languages
    assert offers[3].files[0].url == "https://object.pouta.csc.fi/OPUS-MT-models/fi-en/opus%2Bbt-2020-02-26.zip"


def hub_listing(*names: str, **facts: Any) -> bytes:
    """As the Hub's /api/models/OWNER/NAME/revision/main?blobs=true, by ModelInfo of huggingface_hub 2.4.0."""
    siblings: list[dict[str, Any]] = [{"rfilename": name, "size": 1500, "blobId": "c" * 40} for name in names]
    for sibling in siblings:
        if sibling["rfilename"].endswith((".safetensors", ".spm", ".bin", ".h5")):
            sibling["size"] = 802_397
            sibling["lfs"] = {"sha256": HASH, "size": 802_397, "pointerSize": 134}
    listed = {
        "_id": "621ffdc036468d709f174328",
        "id": "Helsinki-NLP/opus-mt-en-fr",
        "modelId": "Helsinki-NLP/opus-mt-en-fr",
        "private": False,
        "gated": False,
        "sha": "dd7f6540a7a48a7f4db59e5c0b9c42c8eea67f18",
        "tags": ["transformers", "marian", "license:apache-2.0"],
        "cardData": {"tags": ["translation"], "license": "apache-2.0"},
        "siblings": siblings,
    }
    return json.dumps(listed | facts).encode()


FILES = (
    ".gitattributes",
    "README.md",
    "config.json",
    "generation_config.json",
    "source.spm",
    "target.spm",
    "vocab.json",
)


def hub_offer(content: bytes, repository: str = "Helsinki-NLP/opus-mt-en-fr") -> Offer:
    return huggingface.read_offer(content, huggingface.ADDRESS, repository, (None, None))


def test_listing_of_the_hub_has_sizes_and_the_checksums_of_large_files() -> None:
    offer = hub_offer(hub_listing(*FILES, "model.safetensors", "rust_model.ot", "tf_model.h5"))
    by_name = {file.name: file for file in offer.files}
    assert set(by_name) == {*FILES[1:], "model.safetensors"}
    assert (by_name["model.safetensors"].sha256, by_name["config.json"].sha256) == (HASH, None)
    assert by_name["config.json"].url.endswith(
        "/Helsinki-NLP/opus-mt-en-fr/resolve/dd7f6540a7a48a7f4db59e5c0b9c42c8eea67f18/config.json"
    )
    assert (offer.source, offer.target, offer.licence) == ("en", "fr", "apache-2.0")
    assert offer.figures[0] == Figure(
        "FLORES-200 devtest", "BLEU", 47.8, "mozilla/firefox-translations-models, evaluations until October 2025"
    )


def test_repository_with_pickles_alone_is_refused_with_what_to_do() -> None:
    with pytest.raises(ImportFault, match=r"only pytorch_model\.bin.*@refs/pr/1"):
        hub_offer(hub_listing(*FILES, "pytorch_model.bin"))


def test_listing_of_a_gated_repository_is_read() -> None:
    assert hub_offer(hub_listing(*FILES, "model.safetensors", gated="manual")).files


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ({"license": "cc-by-nc-4.0"}, "cc-by-nc-4.0"),
        ({"license": ["mit", "cc-by-4.0"]}, "mit, cc-by-4.0"),
        ({"license": "other", "license_name": "some-non-commercial-licence"}, "some-non-commercial-licence"),
        ({"license": "other"}, "other"),
        ({"language": ["en"]}, "Not stated by the repository."),
    ],
)
def test_licence_of_a_model_card_is_the_one_that_it_names(card: dict[str, Any], licence: str) -> None:
    assert hub_offer(hub_listing(*FILES, "model.safetensors", cardData=card)).licence == licence
