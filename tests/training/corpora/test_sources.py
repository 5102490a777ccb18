"""Pairs from URLs, archives, TMX and mtdata: they are correct, and nothing partial is left."""

import gzip
import hashlib
import http.server
import io
import os
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.cleaning.language_check import open_oriented_corpus
from training.corpora.corpus import LineTally, Pair, open_corpus
from training.corpora.sources import resolve
from training.corpora.text_file import CorpusError
from training.corpora.tmx import is_tmx, tmx_lines
from training.download import download
from training.file_lock import BusyError, lock_output

pytestmark = pytest.mark.slow

PAIRS = [Pair("Hello.", "Bonjour."), Pair("Good evening.", "Bonsoir."), Pair("Thanks & <bye>!", "Merci & <salut> !")]
TSV = "".join(f"{pair.source}\t{pair.target}\n" for pair in PAIRS).encode()
SIDES = {
    "x.en": "".join(f"{p.source}\n" for p in PAIRS).encode(),
    "x.fr": "".join(f"{p.target}\n" for p in PAIRS).encode(),
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "interlinear"


def read(text: str, source: str = "en", target: str = "fr") -> list[Pair]:
    corpus = open_corpus(resolve(text, source, target), source, target)
    return [pair for _, pair in corpus.pairs(LineTally())]


def tmx(pairs: list[Pair], head: str = "") -> bytes:
    units = "".join(
        f'<tu><note>n</note><tuv xml:lang="EN-gb"><seg>{escape(pair.source)}</seg></tuv>'
        f'<tuv lang="fr"><seg>{escape(pair.target)}</seg></tuv></tu>'
        for pair in pairs
    )
    return f'<?xml version="1.0"?>\n{head}<tmx version="1.4"><header/><body>{units}</body></tmx>'.encode()


def zipped(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


def tarred(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    packed = content.getvalue()
    # gzip's time of making is in the names of tests, which must be the same in every process that runs some of them.
    return packed[:4] + bytes(4) + packed[8:] if mode == "w:gz" else packed


# ---- Archives and TMX


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", TSV),
        ("a.zip", zipped({"README": b"x", "deep/x.en": SIDES["x.en"], "deep/x.fr": SIDES["x.fr"], "x.xml": b"<x/>"})),
        ("a.zip", zipped({"pairs.tsv": TSV, "LICENSE": b"CC0"})),
        ("a.zip", zipped({**SIDES, **{f"__MACOSX/._{name}": b"\0\5" for name in SIDES}})),
        ("a.zip", zipped({"memory.tmx": tmx(PAIRS)})),
        ("a.tgz", tarred(SIDES)),
        ("a.tar", tarred({"pairs.tsv": TSV}, "w")),
        ("a.tmx", tmx(PAIRS)),
        ("a.xml", tmx(PAIRS, '<!-- a --><!-- b --><!DOCTYPE tmx SYSTEM "tmx14.dtd">')),
        ("a.tmx.gz", gzip.compress(tmx(PAIRS), mtime=0)),
        ("a.tmx", tmx(PAIRS).decode().replace('version="1.0"', 'version="1.0" encoding="utf-16"').encode("utf-16")),
    ],
)
def test_every_source_format_gives_the_same_pairs(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert read(str(tmp_path / name)) == PAIRS
    spec = resolve(f"{tmp_path / name}:0.5", "en", "fr")
    assert spec.weight == 0.5
    assert resolve(str(tmp_path / name), "en", "fr").paths == spec.paths


@pytest.mark.parametrize(("name", "content"), [("a.zip", zipped(SIDES)), ("a.tmx", tmx(PAIRS))])
def test_columns_and_encoding_apply_only_to_files_that_do_not_declare_them(
    tmp_path: Path, name: str, content: bytes
) -> None:
    """A swapped `my.tsv` may be combined with a translation memory whose sides declare their languages."""
    (tmp_path / name).write_bytes(content)
    spec = resolve(str(tmp_path / name), "en", "fr")
    encoding = "utf-16" if name == "a.tmx" else None
    for look in (open_corpus, open_oriented_corpus):
        corpus = look(spec, "en", "fr", (2, 1), encoding)
        assert [pair for _, pair in corpus.pairs(LineTally())] == PAIRS


def test_killed_extraction_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zipped(SIDES))
    paths = resolve(str(tmp_path / "a.zip"), "en", "fr").paths
    for path in paths:
        path.rename(path.with_name(f".{path.name}.partial"))
    assert read(str(tmp_path / "a.zip")) == PAIRS
    assert sorted(path for path in cache.rglob("*") if path.is_file()) == sorted(paths)


def test_name_that_cannot_be_recorded_is_refused(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.tsv"))
    path.write_bytes(TSV)
    with pytest.raises(CorpusError, match="its name is not UTF-8"):
        read(str(path))


def test_changed_archive_is_extracted_again(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zipped(SIDES))
    assert read(str(tmp_path / "a.zip")) == PAIRS
    (tmp_path / "a.zip").write_bytes(zipped({"x.en": b"Yes.\n", "x.fr": b"Oui.\n"}))
    assert read(str(tmp_path / "a.zip")) == [("Yes.", "Oui.")]


def test_paths_in_an_archive_are_never_written_to(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zipped({"../../up.en": SIDES["x.en"], "../../up.fr": SIDES["x.fr"]}))
    (tmp_path / "b.tgz").write_bytes(tarred({"/abs/..en": SIDES["x.en"], "/abs/..fr": SIDES["x.fr"]}))
    before = set(tmp_path.iterdir())
    assert read(str(tmp_path / "a.zip")) == read(str(tmp_path / "b.tgz")) == PAIRS
    assert set(tmp_path.iterdir()) - before == {cache.parent}
    assert list(cache.parent.iterdir()) == [cache]
    assert len([path for path in cache.rglob("*") if path.is_file()]) == 4


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.zip", zipped({"x.de": b"x", "x.en": b"y"}), "no files x.en and x.fr, no .tsv and no .tmx"),
        ("a.zip", zipped({"a.tsv": TSV, "b.tsv": TSV}), r"it contains several corpora \(a.tsv, b.tsv\); unpack it"),
        ("a.zip", zipped({"xl/workbook.xml": b""}), "this is a spreadsheet"),
        ("a.tgz", tarred(SIDES)[:60], "cannot be read"),
        ("a.tar", b"no archive" * 100, "cannot be read"),
        ("a.tmx", tmx(PAIRS)[:-30], "damaged XML"),
        ("a.tmx.gz", gzip.compress(tmx(PAIRS), mtime=0)[:100] + b"\xff" * 99, "cannot be read: Error -3"),
        ("a.tmx", tmx([]), "no unit of this TMX has both en and fr"),
    ],
)
def test_a_source_without_pairs_is_refused_and_leaves_nothing(
    tmp_path: Path, cache: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        read(str(tmp_path / name))
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_exact_language_variant_in_an_archive_is_preferred(tmp_path: Path) -> None:
    files = {"x.en": b"Train\n", "x.pt-BR": b"Trem\n", "x.pt": b"Comboio\n"}
    for names in (sorted(files), sorted(files, reverse=True)):
        (tmp_path / "a.zip").write_bytes(zipped({name: files[name] for name in names}))
        assert read(str(tmp_path / "a.zip"), "en", "pt-BR") == [("Train", "Trem")]
        assert read(str(tmp_path / "a.zip"), "en", "pt") == [("Train", "Comboio")]


def test_archive_with_a_damaged_file_leaves_nothing_behind(tmp_path: Path, cache: Path) -> None:
    content = bytearray(zipped({"x.en": os.urandom(5000), "x.fr": b"y"}))
    content[2000] ^= 255
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(CorpusError, match="cannot be read"):
        read(str(tmp_path / "a.zip"))
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_xml_entities_are_neither_loaded_nor_expanded(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    lol = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    head = f'<!DOCTYPE tmx [<!ENTITY l0 "lol">{lol}<!ENTITY file SYSTEM "file://{tmp_path}/secret">]>'
    content = tmx([Pair("A@ b.", "C@ d.")], head)
    (tmp_path / "a.tmx").write_bytes(content.replace(b"A@", b"A&l0;").replace(b"C@", b"C&file;"))
    assert read(str(tmp_path / "a.tmx")) == [("A b.", "C d.")]
    (tmp_path / "b.tmx").write_bytes(content.replace(b"A@", b"A&l11;"))
    with pytest.raises(CorpusError, match="damaged XML: Maximum entity amplification"):
        read(str(tmp_path / "b.tmx"))


def test_exact_language_variant_of_a_unit_is_preferred_and_codes_are_not_text(tmp_path: Path) -> None:
    body = (
        '<tu><tuv xml:lang="pt-PT"><seg>a</seg></tuv><tuv xml:lang="pt-BR"><seg>b</seg></tuv>'
        '<tuv xml:lang="en"><seg>Press <bpt i="1">&lt;b></bpt><hi>Enter</hi><ept i="1">&lt;/b></ept>\t<!-- no -->now'
        "\n</seg></tuv></tu><tu><tuv xml:lang='de'><seg>x</seg></tuv></tu>"
    )
    (tmp_path / "a.tmx").write_text(f"<tmx><body>{body}</body></tmx>")
    assert list(tmx_lines(tmp_path / "a.tmx", "en", "pt_BR")) == [b"Press Enter now\tb\n", b"\t\n"]
    assert list(tmx_lines(tmp_path / "a.tmx", "en", "pt")) == [b"Press Enter now\ta\n", b"\t\n"]


WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Co", "Cn", "Z"]), min_size=1, max_size=20)


@given(st.lists(st.builds(Pair, WORDS, WORDS), min_size=1, max_size=10))
def test_a_translation_memory_is_read(tmp_path_factory: pytest.TempPathFactory, pairs: list[Pair]) -> None:
    path = tmp_path_factory.mktemp("t") / "a.tmx"
    path.write_bytes(tmx(pairs))
    assert is_tmx(path)
    assert [Pair(*line.decode().rstrip("\n").split("\t")) for line in tmx_lines(path, "en", "fr")] == pairs


@given(st.binary(max_size=300) | st.binary(max_size=60).map(lambda content: b"<tmx>" + content))
def test_no_bytes_crash_the_translation_memory_reader(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("t") / "a.tmx"
    path.write_bytes(content)
    is_tmx(path)
    with pytest.raises(CorpusError):
        list(tmx_lines(path, "en", "fr"))


# ---- Addresses: a server of our own, which is told what to do wrong


class Server(http.server.ThreadingHTTPServer):
    content, mark, cut, ranges, asked = TSV, '"1"', 0, True, list[str | None]()


class Answer(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.asked.append(wanted)
        if self.path.startswith("/none"):
            self.send_error(404)
            return
        same = server.ranges and self.headers.get("If-Range") == server.mark
        first = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and same else 0
        if first and first >= len(server.content):
            self.send_error(416)
            return
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(server.content) - 1}/{len(server.content)}")
        self.send_header("ETag", server.mark)
        self.send_header("Content-Length", str(len(server.content) - first))
        self.end_headers()
        self.wfile.write(server.content[first : server.cut or None])
        server.cut = 0

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Answer)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def address(server: Server, name: str = "pairs.tsv") -> str:
    return f"http://127.0.0.1:{server.server_port}/{name}"


def checked(server: Server, name: str = "pairs.tsv") -> str:
    return f"{address(server, name)}#sha256={hashlib.sha256(server.content).hexdigest()}"


def test_file_is_downloaded_once_and_verified_each_time(server: Server, cache: Path) -> None:
    assert read(checked(server)) == read(f"{checked(server)}:2") == read(address(server)) == PAIRS
    assert resolve(f"{checked(server)}:2", "en", "fr").weight == 2.0
    assert server.asked == [None]
    with pytest.raises(CorpusError, match=f"downloaded earlier, has the SHA-256 .*, not {'0' * 64}"):
        read(f"{address(server)}#sha256={'0' * 64}")
    assert read(checked(server)) == PAIRS, "a wrong checksum may be the caller's fault"
    assert server.asked == [None]


def test_a_download_with_a_wrong_checksum_is_deleted(server: Server, cache: Path) -> None:
    with pytest.raises(CorpusError, match=f"not {'0' * 64}; it was deleted"):
        read(f"{address(server)}#sha256={'0' * 64}")
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_a_downloaded_archive_is_unpacked(server: Server) -> None:
    server.content = zipped(SIDES)
    assert read(checked(server, "en-fr.txt.zip?download=1")) == PAIRS
    server.content = gzip.compress(TSV)
    assert read(checked(server, "a.tsv.gz")) == PAIRS


def test_an_interrupted_download_resumes(server: Server, cache: Path) -> None:
    server.cut = 10
    with pytest.raises(CorpusError, match=r"cut off after 10 of .* run the same command again to resume"):
        read(checked(server))
    assert not list(cache.rglob("pairs.tsv"))
    assert read(checked(server)) == PAIRS
    assert server.asked == [None, "bytes=10-"]


def test_two_commands_do_not_download_into_one_file(server: Server, tmp_path: Path) -> None:
    with lock_output(tmp_path / "pairs.tsv"), pytest.raises(BusyError, match="another command is running"):
        download(address(server), tmp_path / "pairs.tsv")
    assert server.asked == []
    download(address(server), tmp_path / "pairs.tsv")
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {"pairs.tsv"}


@pytest.mark.parametrize("change", ["another file", "no ranges", "shorter"])
def test_a_download_that_cannot_resume_restarts(server: Server, change: str) -> None:
    server.cut = 30
    with pytest.raises(CorpusError, match="cut off"):
        read(address(server))
    if change == "another file":
        server.content, server.mark = b"Yes.\tOui.\n", '"2"'
    if change == "shorter":
        server.content = b"Yes.\tOui.\n"
    server.ranges = change != "no ranges"
    assert read(address(server)) == (PAIRS if change == "no ranges" else [("Yes.", "Oui.")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}/none.tsv", "the server answered 404"),
        ("{}/a.tsv#sha256=12", "expected sha256= and 64"),
        ("http://me:secret@localhost/a.tsv", "URLs with passwords are refused"),
        ("http://127.0.0.1:1/a.tsv", "cannot be downloaded"),
        ("{}/a.tsv:0", "the weight must be above 0"),
        ("mtdata:../x", "expected mtdata:GROUP-NAME-VERSION"),
        ("mtdata:--help-a-b-c", "expected mtdata:GROUP-NAME-VERSION"),
    ],
)
def test_invalid_address_is_refused_with_the_reason(server: Server, text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message) as caught:
        read(text.format(address(server, "").rstrip("/")))
    assert "secret" not in str(caught.value)


# ---- mtdata, whose command line is played by a stand-in


@pytest.fixture
def mtdata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "site" / "mtdata"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(
        "import sys\nassert sys.argv[1] == 'echo'\nprint('Indexing', file=sys.stderr)\n"
        "if 'bad' in sys.argv[2]: sys.exit('no such data set')\n"
        "sys.stdout.buffer.write('Bonjour.\\tHello.\\nOui.\\tYes.\\n'.encode())\n"
    )
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    return package


@pytest.mark.usefixtures("mtdata")
def test_mtdata_dataset_is_read_with_its_languages_in_order(cache: Path) -> None:
    assert read("mtdata:Group-some_name-1.0-fra-eng") == [("Hello.", "Bonjour."), ("Yes.", "Oui.")]
    assert resolve("mtdata:Group-some_name-1.0-fra-eng:0.5", "en", "fr").weight == 0.5
    with pytest.raises(CorpusError, match="mtdata failed: no such data set"):
        read("mtdata:Group-bad-1.0-fra-eng")
    assert len([path for path in cache.rglob("*") if path.is_file()]) == 1


def test_without_mtdata_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mtdata", None)
    with pytest.raises(CorpusError, match="pip install mtdata"):
        read("mtdata:Group-some_name-1.0-fra-eng")
