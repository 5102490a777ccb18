"""app/api/ and app/formats/: office documents and books through the whole service, by each of its APIs: what comes
back has the same structure."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import httpx
import openpyxl
import pytest
from office_packages import changed_parts, with_parts
from servers import WAIT_S
from shared_fixtures import Service

import tests.app.formats.test_xlsx as test_formats_xlsx
from app.formats import MEDIA_TYPES, read
from app.formats.sniffing import suffix_of
from tests.app.formats.test_packages import PACKAGES, PARSED

pytestmark = pytest.mark.slow

FIELDS = {"source": "en", "target": "fr"}
every_package = pytest.mark.parametrize("suffix", PACKAGES)


def places(suffix: str, content: bytes) -> list[str]:
    """Where its texts are, and how many values each has."""
    document = read(f"a{suffix}", content)
    return [f"{at}: {len(each.protected)}" for at, each in zip(document.locations, document.passages, strict=True)]


Post = Callable[..., httpx.Response]
"""Posts to a path of the service; other arguments are httpx's."""


def native(post: Post, suffix: str, content: bytes) -> httpx.Response:
    return post("/translate/file", files={"file": (f"a{suffix}", content)}, data=FIELDS)


def libretranslate(post: Post, suffix: str, content: bytes) -> httpx.Response:
    return post("/libretranslate/translate_file", files={"file": (f"a{suffix}", content)}, data=FIELDS)


def deepl(post: Post, suffix: str, content: bytes) -> httpx.Response:
    """Without a name: its content tells its format."""
    fields = {"source_lang": "EN", "target_lang": "FR"}
    handle = post("/deepl/v2/document", files={"file": ("file", content)}, data=fields).json()
    path, key = f"/deepl/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
    while post(path, json=key).json()["status"] in ("queued", "translating"):
        pass
    return post(f"{path}/result", json=key)


@every_package
@pytest.mark.parametrize("send", [native, libretranslate, deepl])
def test_document_comes_back_with_its_structure(
    shipped_url: str, suffix: str, send: Callable[..., httpx.Response]
) -> None:
    content, name = PACKAGES[suffix]
    answer = send(lambda path, **sent: httpx.post(f"{shipped_url}{path}", timeout=WAIT_S, **sent), suffix, content)
    assert answer.status_code == 200
    if send is libretranslate:
        answer = httpx.get(answer.json()["translatedFileUrl"], timeout=WAIT_S)
    assert answer.headers["content-type"] == MEDIA_TYPES[suffix]
    assert suffix_of(answer.content) == suffix
    assert name in changed_parts(content, answer.content)
    assert places(suffix, answer.content) == places(suffix, content)


@every_package
def test_hostile_document_is_the_clients_error(service: Service, suffix: str) -> None:
    content, name = PACKAGES[suffix][0], PARSED[suffix]
    hostile = with_parts(content, {name: "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;"})

    def post(path: str, **sent: Any) -> httpx.Response:
        return service.request("POST", path, **sent)

    answer = native(post, suffix, hostile)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "#/file")
    assert name in answer.json()["detail"]
    assert libretranslate(post, suffix, hostile).status_code == 400
    assert deepl(post, suffix, hostile).status_code == 400


def test_sheets_are_renamed_on_request(shipped_url: str) -> None:
    for asked, is_renamed in (("true", True), ("false", False)):
        file = {"file": ("a.xlsx", test_formats_xlsx.INLINE)}
        path = f"{shipped_url}/translate/file"
        answer = httpx.post(path, files=file, data={**FIELDS, "sheet_names": asked}, timeout=WAIT_S)
        names = openpyxl.load_workbook(io.BytesIO(answer.content)).sheetnames
        assert (names == ["First", "Second sheet"]) == (not is_renamed)


@every_package
def test_every_format_is_offered(service: Service, suffix: str) -> None:
    page = service.get("/").text
    assert f"{suffix}," in page.partition('accept="')[2].partition('"')[0] + ","
    form = service.get("/openapi.json").json()["paths"]["/translate/file"]["post"]
    assert MEDIA_TYPES[suffix] in form["responses"]["200"]["content"]
    assert suffix in service.get("/libretranslate/frontend/settings").json()["supportedFilesFormat"]


def test_unknown_value_of_the_option_is_refused(service: Service) -> None:
    file = {"file": ("a.xlsx", test_formats_xlsx.INLINE)}
    answer = service.request("POST", "/translate/file", files=file, data={**FIELDS, "sheet_names": "perhaps"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "#/sheet_names")
