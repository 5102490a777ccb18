"""MkDocs' hooks: links that leave docs/ lead to copies of those files, and around Chinese pages all is Chinese."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.site import reference
from docs.site.mathml import MathML

ROOT = Path(__file__).resolve().parents[2]
CHINESE = ".zh-CN.md"
LINK = re.compile(r"""(\]\(|src=")([^)#:\s"]+)((?:#[^)]*)?\)|")""")
FENCES = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".json": "json"}
MADE = {"reference/command-line.md": reference.command_line, "reference/api.md": reference.api}
"""Pages that are made from the code whenever the site is built."""


def on_config(config: MkDocsConfig) -> None:
    config.markdown_extensions.append(MathML())  # type: ignore[arg-type]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds what pages link to outside docs/, what those link to, and the pages made from the code."""
    for uri, make in MADE.items():
        # Below the pages that explain a word, in a search for it.
        files.append(File.generated(config, uri, content="---\nsearch:\n  boost: 0.0005\n---\n\n" + make()))
    files.append(File.generated(config, "mark.svg", abs_src_path=str(ROOT / "app/static/page/mark.svg")))
    wanted = [path for page in files.documentation_pages() for path in _linked(page.content_string, page.src_uri)]
    while wanted:
        path = wanted.pop()
        if not _is_copied(path) or files.get_file_from_path(copy_of(path)):
            continue
        if (ROOT / path).is_dir():
            listed = "\n".join(f"- [{file.name}]({file.name})" for file in sorted((ROOT / path).iterdir()))
            text = f"# {Path(path).name}\n\n{listed}\n"
        elif path.endswith(".md"):
            text = (ROOT / path).read_text(encoding="utf-8")
            wanted += _linked(text, copy_of(path))
        else:
            text = (ROOT / path).read_text(encoding="utf-8")
            text = f"# {Path(path).name}\n\n`{path}`\n\n~~~~{FENCES.get(Path(path).suffix, 'text')}\n{text}\n~~~~\n"
        hidden = "---\nsearch:\n  exclude: true\n---\n\n" if path.count("/") else ""
        files.append(File.generated(config, copy_of(path), content=hidden + text))
    for file in files.documentation_pages():
        if file.src_uri.endswith(CHINESE):
            name = posixpath.splitext(file.dest_uri)[0]
            name = name.removesuffix("/index").removesuffix(CHINESE.removesuffix(".md")).removesuffix("README")
            file.dest_uri = posixpath.join("zh-CN", name, "index.html")
            file.url = posixpath.join("zh-CN", name, "")


def _is_copied(path: str) -> bool:
    """Whether a page of its own shows this file, or folder of docs/."""
    return (ROOT / path).is_dir() if path.startswith("docs/") else (ROOT / path).is_file()


def copy_of(path: str) -> str:
    """The page that shows a file of the repository: `repository/README.md`, `repository/model/config.py.md`."""
    return f"repository/{path}" if path.endswith(".md") else f"repository/{path}.md"


def _source(uri: str) -> str:
    """The file of the repository of which a page is made."""
    if uri.startswith("repository/"):
        path = uri.removeprefix("repository/")
        return path if (ROOT / path).exists() else path.removesuffix(".md")
    return f"docs/{uri}"


def _folder(uri: str) -> str:
    """The folder of the repository from which a page's links lead."""
    source = _source(uri)
    return source if (ROOT / source).is_dir() else posixpath.dirname(source)


def _linked(text: str, uri: str) -> list[str]:
    """The files of the repository that a page links to."""
    folder = _folder(uri)
    return [posixpath.normpath(posixpath.join(folder, match[2])) for match in LINK.finditer(text)]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrites links that leave docs/, or lead to a folder."""
    uri = page.file.src_uri
    folder = _folder(uri)

    def rewritten(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[2]))
        target = copy_of(path) if _is_copied(path) else path.removeprefix("docs/")
        file = files.get_file_from_path(target)
        if file and match[1].startswith("src"):  # HTML, which MkDocs leaves as it is
            return f'{match[1]}{posixpath.relpath(file.url, page.file.url)}"'
        if file:
            return match[1] + posixpath.relpath(target, posixpath.dirname(uri) or ".") + match[3]
        return match[0]

    source = ROOT / _source(uri)
    if uri in MADE or (source.is_file() and source.suffix != ".md"):
        return markdown  # which is code
    return LINK.sub(rewritten, markdown)


def on_page_context(context: Any, page: Page, config: MkDocsConfig, nav: Any) -> None:
    """Sets the language of the page around the text, and where the switch of languages leads."""
    uri = page.file.src_uri
    is_chinese = uri.endswith(CHINESE)
    english, chinese = uri.replace(CHINESE, ".md"), uri.removesuffix(".md").removesuffix(".zh-CN") + CHINESE
    config.theme["language"] = "zh" if is_chinese else "en"
    pages = {one.file.src_uri: one for one in nav.pages}
    config.extra["alternate"] = [
        {"name": name, "lang": lang, "link": (pages.get(target) or pages[home]).url}
        for name, lang, target, home in [
            ("English", "en", english, "README.md"),
            ("中文", "zh", chinese, "README" + CHINESE),
        ]
    ]


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Removes the links for crawlers, at each of which Material's script would look for a site map."""
    return re.sub(r'<link rel="alternate"[^>]*>', "", output)
