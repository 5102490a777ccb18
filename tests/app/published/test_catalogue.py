"""The catalogue of published models that ships, and the command that makes it from the registries' lists."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.published.catalogue import CATALOGUE, PublishedModel, PublishedModels, load_catalogue
from model.languages import NAMES, is_language_code
from model.published import ModelName, parse_name
from tests.training.importing.test_real_lists import argos_entry, firefox_entry
from training.importing.catalogue import main, opus_index
from training.importing.errors import ImportFault


@pytest.fixture(scope="module")
def shipped() -> PublishedModels:
    return load_catalogue()


def find(models: PublishedModels, name: ModelName) -> PublishedModel | None:
    """The first model that a name means."""
    return next((one for one in models.all if name.is_of(one.name, f"{one.source}-{one.target}")), None)


def test_every_name_in_the_shipped_catalogue_finds_its_model(shipped: PublishedModels) -> None:
    assert len(shipped.all) > 500
    for model in shipped.all:
        name = parse_name(str(model.name))
        assert name is not None
        assert name.variant
        assert find(shipped, name) is model


def test_shipped_catalogue_names_no_model_twice(shipped: PublishedModels) -> None:
    assert len({model.name for model in shipped.all}) == len(shipped.all)
    for registry in ("opus", "argos"):  # the best of each pair alone
        pairs = [(model.source, model.target) for model in shipped.all if model.name.registry == registry]
        assert len(set(pairs)) == len(pairs) > 90


def test_languages_of_the_shipped_catalogue_are_tags_with_names(shipped: PublishedModels) -> None:
    for tag in (*shipped.sources, *shipped.targets):
        assert is_language_code(tag)
        assert tag in NAMES
    assert all(model.source != model.target for model in shipped.all)


def test_what_the_shipped_catalogue_says_is_plausible(shipped: PublishedModels) -> None:
    ranges = {"BLEU": (0, 70), "spBLEU": (0, 70), "COMET-22": (0, 1)}
    for model in shipped.all:
        assert model.page.startswith("https://")
        assert model.licence
        assert model.size is None or 5e6 < model.size < 1e9
        assert model.sha256 is None or re.fullmatch("[0-9a-f]{64}", model.sha256)
        for figure in model.figures:
            low, high = ranges[figure.metric]
            assert math.isfinite(figure.score)
            assert low < figure.score < high, (model.name, figure)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", one.dated) for one in shipped.lists.values())
    assert shipped.dated == max(one.dated for one in shipped.lists.values())


def test_shipped_file_is_small_with_a_line_for_each_model(shipped: PublishedModels) -> None:
    lines = CATALOGUE.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(shipped.all) + len(shipped.lists) + 4
    assert CATALOGUE.stat().st_size < 300_000


def test_firefox_has_models_both_ways_for_what_the_service_ships(shipped: PublishedModels) -> None:
    for code in ("fr", "de", "es", "zh"):
        for pair in (("en", code), (code, "en")):
            best = shipped.matching(*pair)[0]
            assert best.is_released
            assert best.name.registry == "firefox"
            assert best.figures
            assert best.sha256
            assert best.weights_bytes


def test_pairs_are_found_as_clients_write_languages(shipped: PublishedModels) -> None:
    assert shipped.matching("zh-CN", "en-US") == shipped.matching("zh", "en") != ()
    assert {model.target for model in shipped.matching("en", "zh-TW")} == {"zh-Hant"}
    assert shipped.matching("en", "tlh") == ()


def test_models_touching_languages_are_from_or_into_them(shipped: PublishedModels) -> None:
    found = shipped.matching(from_or_to=["es", "fr"])
    assert {"es", "fr"} <= {model.source for model in found} & {model.target for model in found}
    assert all({model.source, model.target} & {"es", "fr"} for model in found)
    assert set(found) < set(shipped.all)
    assert shipped.matching() == shipped.all


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("firefox:en-zh_hant", "firefox:en-zh_hant@base-memory"),
        ("firefox:en-zh-Hant", "firefox:en-zh_hant@base-memory"),
        ("firefox:ZH-en@TINY", "firefox:zh-en@tiny"),
        ("argos:pt-BR-en", "argos:pb-en@1.9"),
        ("firefox:zh-en@huge", None),
        ("opus:en-tlh", None),
        ("huggingface:facebook/nllb-200-distilled-600M", None),
    ],
)
def test_model_is_found_by_codes_of_its_registry_and_by_tags(
    shipped: PublishedModels, name: str, found: str | None
) -> None:
    parsed = parse_name(name)
    assert parsed is not None
    model = find(shipped, parsed)
    assert (model and str(model.name)) == found


def test_reading_the_catalogue_loads_no_web_framework_and_no_torch() -> None:
    program = (
        "import sys, app.published.catalogue as c; c.load_catalogue(); print(*{n.split('.')[0] for n in sys.modules})"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=CATALOGUE.parents[2]
    )
    assert not {"fastapi", "starlette", "pydantic", "torch", "training"} & set(run.stdout.split())


# ---- The command


README = """# opus-2019-12-04.zip

* pre-processing: normalization + tokenization + BPE
* download: [opus-2019-12-04.zip](https://object.pouta.csc.fi/OPUS-MT-models/en-fr/opus-2019-12-04.zip)

# opus-2020-02-26.zip

* pre-processing: normalization + SentencePiece (spm32k,spm32k)

| testset | BLEU |
"""


@pytest.fixture
def lists(tmp_path: Path) -> list[str]:
    """Arguments of the command: small lists in the form of the real ones, with entries that it leaves out."""
    models: dict[str, Any] = {
        "en-zh": [firefox_entry("en", "zh", "base", None), firefox_entry("en", "zh", "base-memory", "Release")],
        "hbs-en": [firefox_entry("hbs", "en", "tiny", "Release")],
    }
    listed = {"generated": "2026-03-29T00:37:49Z", "baseUrl": "https://example.org/bucket", "models": models}
    (tmp_path / "models.json").write_text(json.dumps(listed))
    entries = [argos_entry("en", "zt", "1.9"), argos_entry("en", "zt", "1.10"), argos_entry("es", "en", "1.9")]
    (tmp_path / "index.json").write_text(json.dumps(entries))
    for pair in ("en-fr", "en-roa", "fr-fr"):
        (tmp_path / "models" / pair).mkdir(parents=True)
        (tmp_path / "models" / pair / "README.md").write_text(README)
    arguments = {"--firefox": "models.json", "--argos": "index.json", "--opus": "models"}
    return [
        *(text for option, name in arguments.items() for text in (option, str(tmp_path / name))),
        "--dated", "argos=2025-06-21", "opus=2026-01-17",
    ]  # fmt: skip


def test_command_makes_the_same_catalogue_again(tmp_path: Path, lists: list[str]) -> None:
    for name in ("one.json", "two.json"):
        main(["--out", str(tmp_path / name), *lists])
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    made = load_catalogue(tmp_path / "one.json")
    assert [str(model.name) for model in made.all] == [
        "firefox:en-zh@base-memory",
        "firefox:en-zh@base",
        "opus:en-fr@opus-2020-02-26",
        "argos:en-zt@1.10",
    ]
    assert {name: one.dated for name, one in made.lists.items()} == {
        "firefox": "2026-03-29",
        "opus": "2026-01-17",
        "argos": "2025-06-21",
    }


def test_catalogue_says_what_the_lists_say_and_no_more(tmp_path: Path, lists: list[str]) -> None:
    main(["--out", str(tmp_path / "made.json"), *lists])
    made = load_catalogue(tmp_path / "made.json")
    released, other, opus, argos = made.all
    assert (released.weights_bytes, released.size, released.is_released, other.is_released) == (
        31561787,
        None,
        True,
        False,
    )
    assert {(figure.metric, figure.score) for figure in released.figures} == {("BLEU", 27.5229), ("COMET-22", 0.854)}
    assert (opus.size, opus.weights_bytes, opus.sha256, opus.licence) == (None, None, None, "CC-BY-4.0")
    assert opus.page == "https://github.com/Helsinki-NLP/OPUS-MT-train/tree/master/models/en-fr"
    assert (argos.target, argos.size, argos.figures) == ("zh-Hant", None, ())
    assert find(made, ModelName("argos", "en-zh_Hant")) is argos


def test_list_in_a_file_needs_a_date_unless_it_says_one(tmp_path: Path, lists: list[str]) -> None:
    with pytest.raises(ValueError, match="--dated opus="):
        main(["--out", str(tmp_path / "made.json"), *lists[:-3]])
    assert not (tmp_path / "made.json").exists()


def test_folder_that_is_not_of_opus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportFault, match=r"not the folder models/"):
        opus_index(tmp_path)


@pytest.mark.parametrize(
    "change", [{"format": 2}, {"models": [{"model": "nowhere:en-fr", "source": "en", "target": "fr"}]}]
)
def test_catalogue_of_another_form_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "catalogue.json"
    path.write_text(json.dumps({"format": 1, "registries": {}, "models": []} | change))
    with pytest.raises(ValueError, match=r"format 2|nowhere"):
        load_catalogue(path)
