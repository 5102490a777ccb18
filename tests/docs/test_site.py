"""docs/ and mkdocs.yml: the documentation as a site, as `make docs` builds it: every link leads somewhere, nothing
comes from other hosts, and what a Git host shows as a list, a table or code is one here."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
import typer
from chromium import Visit
from click.testing import CliRunner
from markdown_it import MarkdownIt
from mkdocs.__main__ import cli as mkdocs_cli
from playwright.sync_api import Browser, expect
from shared_fixtures import listening

from app.__main__ import with_training
from app.api import manual
from app.engine.registry import Catalogue
from app.main import create_app
from app.settings import Settings
from docs.site.mathml import mathml
from training.__main__ import cli as training_cli

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
LOADING = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "link": "href",
}
"""Elements with which a page loads something, and the attribute that names it."""
MATHS = re.compile(r"^```math\n.*?^```$", re.M | re.S)
COMPARED = "ul", "ol", "li", "tr", "pre", "img", "blockquote", "h2", "h3", "h4"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where it was built, by the command of the Makefile. Fails on any warning."""
    [line] = re.findall(
        r"^\t(NO_MKDOCS_2_WARNING=1 \$\(BIN\)/python -m mkdocs build)$", (ROOT / "Makefile").read_text(), re.M
    )
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its plugins; here, where ours are imported already, it takes half the time
        patch.chdir(ROOT)
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        done = CliRunner().invoke(mkdocs_cli, [*line.split()[4:], "--site-dir", str(folder)])
    assert done.exit_code == 0, done.output
    return folder


def built(site: Path, page: Path) -> str:
    """The text of a page, without what is around it."""
    name = page.name.removesuffix(".md").replace("README", "")
    folder = site / "zh-CN" / name.removesuffix(".zh-CN") if page.name.endswith(".zh-CN.md") else site / name
    whole = (folder / "index.html").read_text(encoding="utf-8")
    return whole.partition("<article")[2].partition("</article>")[0]


def count(html: str) -> dict[str, int]:
    return {tag: len(re.findall(rf"<{tag}[ >]", html)) for tag in COMPARED}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_site_has_the_lists_tables_and_code_that_git_hosts_show(site: Path, page: Path) -> None:
    shown = MarkdownIt("commonmark").enable("table").render(MATHS.sub("", page.read_text(encoding="utf-8")))
    assert count(built(site, page)) == count(shown)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_formula_is_drawn(site: Path, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    within = re.sub(r"^```.*?^```$|^    .*$|`[^`\n]*`", "", text, flags=re.M | re.S)
    shown = built(site, page)
    assert shown.count("<math") == len(MATHS.findall(text)) + len(re.findall(r"\$[^$\n]+\$", within))
    drawn = "".join(re.findall(r"<math.*?</math>", shown, re.S))
    assert not re.search(r"<m\w+[^>]*>\\|&amp;#", drawn), "a command that has no MathML, or a character as its number"


def test_formula_is_mathml() -> None:
    assert "<msub><mi>d</mi><mi>k</mi></msub>" in mathml("d_k", "inline")
    matrix = mathml(r"\begin{bmatrix} 1 & 0 \end{bmatrix}", "block")
    assert matrix.count('<mtable class="matrix">') == 1
    assert "<mo>" not in matrix


class Loads(HTMLParser):
    """What a page names to be loaded with it; links that somebody may follow are not."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if value and name == LOADING.get(tag)]


def test_pages_load_only_files_that_are_there_and_nothing_from_other_hosts(site: Path) -> None:
    named = []
    for page in site.rglob("*.html"):
        for address in Loads(page.read_text(encoding="utf-8")).found:
            named.append(address)
            if not address.startswith("data:"):
                path = address.partition("#")[0].partition("?")[0]
                file = site / path.lstrip("/") if path.startswith("/") else page.parent / path
                assert file.exists(), f"{page}: {address}"
    for sheet in site.rglob("*.css"):
        found = re.findall(r"url\(['\"]?([^)'\"]+)|@import ['\"]([^'\"]+)", sheet.read_text(encoding="utf-8"))
        named += ["".join(each) for each in found]
    assert len(named) > 100
    assert [each for each in named if re.match(r"(https?:)?//", each)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_is_short(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) < 250


def test_reference_has_every_command_option_and_route(site: Path) -> None:
    shown = re.sub(r"<[^>]+>", "", (site / "reference" / "command-line" / "index.html").read_text(encoding="utf-8"))
    verbs = typer.main.get_command(with_training()).commands  # type: ignore[attr-defined]
    trainer = typer.main.get_command(training_cli).commands  # type: ignore[attr-defined]
    assert [verb for verb, command in verbs.items() if not command.hidden and f"interlinear {verb}" not in shown] == []
    options = {option for command in trainer.values() for param in command.params for option in param.opts}
    assert len(options) > 100
    assert [option for option in options if option.startswith("--") and option not in shown] == []
    api = (site / "reference" / "api" / "index.html").read_text(encoding="utf-8")
    paths = create_app(Settings(), Catalogue([])).openapi()["paths"]
    assert [path for path in paths if path not in api] == []


@pytest.fixture(scope="module")
def service(site: Path, bundle_folder: Path) -> Iterator[str]:
    """The URL of a service that has the site."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manual, "FOLDER", site)
        with listening(bundle_folder) as url:
            yield url


def test_chinese_page_is_chinese_around_its_text_and_leads_to_the_english_one(browser: Browser, service: str) -> None:
    visit = Visit(browser, service)
    opened = visit.page(f"{manual.PATH}/zh-CN/start/")
    expect(opened.locator("html")).to_have_attribute("lang", "zh")
    expect(opened.locator("[data-md-component=search-query]")).to_have_attribute("placeholder", "搜索")
    opened.locator(".md-select").hover()
    opened.locator(".md-select__link", has_text="English").click()
    expect(opened).to_have_url(f"{service}{manual.PATH}/start/")
    expect(opened.locator("html")).to_have_attribute("lang", "en")
    visit.end()


def test_page_links_to_the_site_whose_search_finds_words_of_both_languages(browser: Browser, service: str) -> None:
    visit = Visit(browser, service)
    page = visit.page()
    page.get_by_role("link", name="Manual").click()
    expect(page.get_by_role("heading", name="Documentation", level=1)).to_be_visible()
    assert page.url == f"{service}{manual.PATH}/"
    # The script reads the words of the address when it is ready, and those typed later at each key.
    page.goto(f"{service}{manual.PATH}/?q=INTERLINEAR_WATCH_BUNDLES")
    expect(page.locator(".md-search-result__link[href*='settings/']").first).to_be_visible()
    page.locator("[data-md-component=search-query]").fill("残差连接")
    page.keyboard.press("End")
    expect(page.locator(".md-search-result__link[href*='zh-CN/transformer/']").first).to_be_visible()
    page.goto(service)
    page.get_by_role("button", name="API").click()
    page.get_by_role("link", name="Tools in the manual").click()
    expect(page.get_by_role("heading", name="Tools", level=1)).to_be_visible()
    visit.end()


def test_page_has_no_link_to_a_site_that_is_not_built(
    browser: Browser, bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manual, "FOLDER", tmp_path / "none")
    with listening(bundle_folder) as url:
        visit = Visit(browser, url)
        page = visit.page()
        expect(page.get_by_role("link", name="Manual")).to_be_hidden()
        page.get_by_role("button", name="API").click()
        expect(page.get_by_role("dialog").get_by_role("link")).to_have_text(["API reference"])
        assert httpx.get(f"{url}{manual.PATH}/").status_code == 404
        visit.end()


def test_search_index_has_no_copies_of_code(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert "start/" in places
    assert [place for place in places if ".py" in place] == []
