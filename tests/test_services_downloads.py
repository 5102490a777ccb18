"""Downloads: by name only, for a while, and bounded."""

from __future__ import annotations

from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from app.services.downloads import LIFETIME_S, Download, Downloads

FILE = Download("report.fr.txt", b"a" * 1_000, "text/plain")


def named(downloads: Downloads, file: Download = FILE) -> str:
    name = downloads.add(file)
    assert name
    return name


def test_file_is_found_by_its_name_until_it_expires() -> None:
    now = 0.0
    downloads = Downloads(1 << 20, lambda: now)
    name = named(downloads)
    now = LIFETIME_S - 1
    assert downloads.find(name) == FILE
    assert downloads.find(name[:-1]) is None
    now = LIFETIME_S + 1
    assert downloads.find(name) is None


def test_same_file_has_another_name_each_time() -> None:
    downloads = Downloads(1 << 20)
    assert len({named(downloads) for _ in range(10)}) == 10


def test_stored_files_stay_within_the_budget() -> None:
    downloads = Downloads(5_000)
    names = [named(downloads) for _ in range(5)]
    assert [downloads.find(name) is not None for name in names] == [False, False, False, True, True]
    assert downloads.add(Download("a.txt", b"a" * 5_000, "text/plain")) is None
    assert downloads.find(names[-1]) == FILE


@given(st.text())
def test_file_name_is_url_safe(name: str) -> None:
    found = named(Downloads(1 << 20), Download(name, b"", "text/plain"))
    assert quote(found, safe="") == found
    assert len(found) <= 133
