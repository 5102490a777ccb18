"""Downloads: by name only, for a while, and bounded."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from app.storage.downloads import LIFETIME_S, Download, Downloads
from app.storage.store_local import LocalStore

FILE = Download("report.fr.txt", b"a" * 1_000, "text/plain")


async def named(downloads: Downloads, file: Download = FILE) -> str:
    name = await downloads.add(file)
    assert name
    return name


def test_file_is_found_by_its_name_until_it_expires() -> None:
    now = 0.0

    async def scenario() -> None:
        nonlocal now
        downloads = Downloads(LocalStore(lambda: now), 1 << 20)
        name = await named(downloads)
        now = LIFETIME_S - 1
        assert await downloads.find(name) == FILE
        assert await downloads.find(name[:-1]) is None
        now = LIFETIME_S + 1
        assert await downloads.find(name) is None

    asyncio.run(scenario())


def test_changed_file_keeps_its_name_and_its_lifetime() -> None:
    now = 0.0

    async def scenario() -> None:
        nonlocal now
        downloads = Downloads(LocalStore(lambda: now), 1 << 20)
        name = await named(downloads)
        now = LIFETIME_S - 1
        await downloads.change(name, b"b" * 2_000)
        assert await downloads.find(name) == FILE._replace(content=b"b" * 2_000)
        await downloads.change("another", b"c")
        assert await downloads.find("another") is None
        now = LIFETIME_S + 1
        assert await downloads.find(name) is None

    asyncio.run(scenario())


def test_same_file_has_another_name_each_time() -> None:
    async def scenario() -> None:
        downloads = Downloads(LocalStore(), 1 << 20)
        assert len({await named(downloads) for _ in range(10)}) == 10

    asyncio.run(scenario())


def test_stored_files_stay_within_the_budget() -> None:
    async def scenario() -> None:
        downloads = Downloads(LocalStore(), 5_000)
        names = [await named(downloads) for _ in range(5)]
        assert [await downloads.find(name) is not None for name in names] == [False, False, False, True, True]
        assert await downloads.add(Download("a.txt", b"a" * 5_000, "text/plain")) is None
        assert await downloads.find(names[-1]) == FILE

    asyncio.run(scenario())


@given(st.text())
def test_file_name_is_url_safe_and_kept(name: str) -> None:
    async def scenario() -> None:
        file, downloads = Download(name, b"", "text/plain"), Downloads(LocalStore(), 1 << 20)
        found = await named(downloads, file)
        assert quote(found, safe="") == found
        assert len(found) <= 133
        assert await downloads.find(found) == file

    asyncio.run(scenario())
