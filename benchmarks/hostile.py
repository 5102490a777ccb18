"""What do small hostile inputs cost the service, and the others who use it?

    python -m benchmarks.hostile
    python -m benchmarks.hostile --case slow_pdf
    python -m benchmarks.hostile --files FOLDER

Starts the service anew for each case. One key sends the hostile input, another plain translations, and /health is
asked every 50 ms. At last the two slowest inputs are sent again, and the service is stopped. Exits with 1 if a case
broke a bound. Bounds of time are in units of what this machine takes for a fixed piece of work, about a millisecond
(app/runtime/work_unit.py), except that of a stop.
"""

from __future__ import annotations

import asyncio
import io
import json
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from app.http.api_keys import new_key
from app.runtime.process_memory import proportional_set_size
from app.runtime.work_unit import unit_seconds
from benchmarks.balancer import family
from benchmarks.cores import processor
from benchmarks.ports import free_port
from benchmarks.soak import pseudoword_sentences, wait_until_ready

ROOT = Path(__file__).resolve().parent.parent
MAX_HEALTH_UNITS, MIN_RATE_SHARE, MAX_BUSY_UNITS, MAX_STOP_S = 1_000, 0.5, 5_000, 30.0
"""Bounds: for an answer of /health; for plain translations; for work that goes on after the client left; for a stop."""
HEALTH_INTERVAL_S, SAMPLE_INTERVAL_S = 0.05, 0.25
BEFORE_S = 4.0
"""How long the rate of plain translations is measured beforehand, and at least meanwhile."""
PLAIN_CLIENTS = 3
IDLE_CORES = 0.1
"""A service that uses less than this of one core is idle."""
TEMPORARY = {503, 504}
"""Refusals because of load or time."""
DIRECTION = {"source": "en", "target": "fr"}


@dataclass(frozen=True)
class Request:
    """A request; `options` are arguments of httpx's `request`."""

    method: str
    path: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """Requests that a key sends one after the other, in `copies` at the same time."""

    name: str
    make: Callable[[], list[Request]]
    expected: frozenset[int] = frozenset({200, 413, 422})
    """Statuses besides `TEMPORARY` that are right."""
    copies: int = 1
    needs_memory: bool = False


# ---- The inputs


def upload(name: str, content: bytes, review: bytes | None = None, **fields: str) -> Request:
    """A document to translate, or with its review."""
    files = {"file": (name, content)} | ({"review": ("review.xliff", review)} if review is not None else {})
    return Request("POST", "/translate/file", {"files": files, "data": {**DIRECTION, **fields}})


def translate(*texts: str) -> Request:
    return Request("POST", "/translate", {"json": {"text": list(texts), **DIRECTION}})


def remember(*texts: str, translation: str = "x") -> Request:
    pairs = [{"text": text, "translation": translation} for text in texts]
    return Request("PUT", "/memory", {"json": {"pairs": pairs, **DIRECTION}})


def nested_plurals(depth: int = 25) -> bytes:
    """A catalogue of apps with plurals in plurals."""
    inner: Any = {"stringUnit": {"state": "new", "value": "hello world"}}
    for _ in range(depth):
        inner = {"plural": {"other": inner}}
    strings = {"k": {"localizations": {"en": inner}}}
    return json.dumps({"sourceLanguage": "en", "strings": strings, "version": "1.0"}).encode()


def pdf(content: bytes, compressions: int = 1) -> bytes:
    """A PDF of one page, whose `content` is compressed again and again."""
    for _ in range(compressions):
        content = zlib.compress(content)
    filters = b"/FlateDecode" * compressions
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d/Filter[%s]>>stream\n%s\nendstream" % (len(content), filters, content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    made, places = b"%PDF-1.4\n", list[int]()
    for number, each in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    entries = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"xref\n0 6\n0000000000 65535 f \n%strailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
    return made + end % (entries, len(made))


def scattered_words(count: int = 9_900) -> bytes:
    """A page of tiny words all over it, of which each may belong to a line or column with each other."""
    words = (b"1 0 0 1 %d %d Tm (word here) Tj" % (37 * n % 600, 91 * n % 800) for n in range(count))
    return b"BT /F1 1 Tf %s ET" % b" ".join(words)


def repeated_words(count: int = 12_000) -> bytes:
    """A page that compresses to nothing."""
    return b"BT /F1 1 Tf %s ET" % (b"1 0 0 1 9 9 Tm (word here) Tj " * count)


HTML = b"<p>Hello <b>world</b>.</p>"
_REVIEW = """<?xml version='1.0' encoding='UTF-8'?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
<file original="a.html" datatype="plaintext" source-language="en" target-language="fr"><body>
<trans-unit id="1" xml:space="preserve">
<source>Hello <bx id="1" rid="1" equiv-text="&lt;b&gt;"/>world<ex id="2" rid="1" equiv-text="&lt;/b&gt;"/>.</source>
<target>Bonjour <bx id="1" rid="1" equiv-text="&lt;b&gt;"/>monde<ex id="2" rid="1" equiv-text="&lt;/b&gt;"/>.%s</target>
</trans-unit></body></file></xliff>"""


def review(reference: str) -> bytes:
    """A review of `HTML` with a reference to a tag that no document writes, between characters for private use."""
    return (_REVIEW % f"\ufdd0{reference}\ufdd1").encode()


def deep_yaml(depth: int = 900) -> bytes:
    return b"[" * depth + b"word words," * 49_000 + b"]" * depth


def many_formulas(megabytes: int = 160) -> bytes:
    """A workbook whose formulas are full of what may begin the name of a sheet, and compress well."""
    office, main = "http://schemas.openxmlformats.org", "spreadsheetml/2006/main"
    relation = f"{office}/officeDocument/2006/relationships/sharedStrings"
    types = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
    formulas = f"<row><c><f>{chr(39)}{'a' * 199}</f></c></row>" * (megabytes * 5_000)
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{office}/package/2006/content-types">'
        f'<Override PartName="/xl/workbook.xml" ContentType="{types}"/></Types>',
        "xl/workbook.xml": f'<workbook xmlns="{office}/{main}"><sheets><sheet name="Words"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{office}/package/2006/relationships">'
        f'<Relationship Id="r1" Type="{relation}" Target="sharedStrings.xml"/></Relationships>',
        "xl/sharedStrings.xml": f'<sst xmlns="{office}/{main}"><si><t>A word</t></si></sst>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{office}/{main}"><sheetData>{formulas}</sheetData></worksheet>',
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return packed.getvalue()


def _combining(number: int) -> str:
    return ("a" + "\u0301\u0316" * 24_999)[:49_000] + str(number)


def _overwritten(times: int = 80) -> Iterator[Request]:
    text = "1 " * 24_990
    for number in range(times):
        yield remember(text, translation=f"x{number}")
        yield Request("GET", "/memory/search", {"params": {**DIRECTION, "text": "1 2 3"}})


def _pairs(text: Callable[[int], bytes], count: int) -> Request:
    content = b"".join(b"%s\ty\n" % text(number) for number in range(count))
    return Request("PUT", "/memory", {"files": {"file": ("pairs.tsv", content)}, "data": DIRECTION})


CASES = [
    Case("plurals", lambda: [upload("a.xcstrings", nested_plurals())]),
    Case("plurals_twice", lambda: [upload("a.xcstrings", nested_plurals())], copies=2),
    Case("slow_pdf", lambda: [upload("a.pdf", pdf(scattered_words()))]),
    Case("slow_pdf_twice", lambda: [upload("a.pdf", pdf(scattered_words()))], copies=2),
    Case("pdf_compressed_twice", lambda: [upload("a.pdf", pdf(repeated_words(), compressions=2))]),
    Case("review_digits", lambda: [upload("a.html", HTML, review("9" * 5_000))], frozenset({400, 422})),
    Case("review_range", lambda: [upload("a.html", HTML, review("99"))], frozenset({400, 422})),
    Case("deep_yaml", lambda: [upload("a.yaml", deep_yaml())]),
    Case("sheet_names", lambda: [upload("a.xlsx", many_formulas(), sheet_names="true")]),
    Case(
        "memory_slots",
        lambda: [remember(*(f"w{n} " + "{a} 1 " * 4_150 for n in range(4))), translate("w1 {a} 2")],
        needs_memory=True,
    ),
    Case("memory_pairs", lambda: [_pairs(lambda n: b"%d x" % n, 800_000)], needs_memory=True),
    Case(
        "combining_marks",
        lambda: [remember("Hello."), translate(*map(_combining, range(6)))],
        needs_memory=True,
    ),
    Case(
        "memory_digits",
        lambda: [
            _pairs(lambda n: b"w%d " % n + b"1 " * 24_990, 60),
            Request("GET", "/memory/search", {"params": {**DIRECTION, "text": "w1 1 2 3"}}),
        ],
        needs_memory=True,
    ),
    Case("memory_overwritten", lambda: list(_overwritten()), needs_memory=True),
]


def of_folder(folder: Path) -> list[Case]:
    """A case for each file of a folder. A review (`review_NAME.xliff`) is sent with the document `review_doc.html`."""
    document = folder / "review_doc.html"
    cases = []
    for path in sorted(folder.iterdir()):
        if path == document or not path.is_file() or path.suffix == ".py":
            continue
        if path.name.startswith("review_") and document.exists():
            request = upload(document.name, document.read_bytes(), path.read_bytes())
        else:
            request = upload(path.name, path.read_bytes())
        cases.append(Case(path.name, lambda request=request: [request], frozenset({200, 400, 413, 415, 422})))  # type: ignore[misc]
    return cases


# ---- The service


def megabytes(front: int) -> float:
    """Of all processes, pages that they share counted once."""
    sizes = map(proportional_set_size, family(front))
    return sum(size for size in sizes if not math.isnan(size)) / 1e6


def cpu_seconds(front: int) -> float:
    """What all processes have used, with those that have ended."""
    ticks = 0
    for process in family(front):
        with suppress(OSError):
            ticks += sum(map(int, Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Service:
    """A running service, and two of its keys."""

    process: subprocess.Popen[bytes]
    url: str
    hostile: str
    plain: str

    def client(self, key: str, timeout_s: float) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=timeout_s, trust_env=False)


@contextmanager
def serving(bundles: Path, with_memory: bool, checkout: Path = ROOT, before: Sequence[str] = ()) -> Iterator[Service]:
    """Starts the service, and kills what is left of it. `before`: a command that starts it."""
    with tempfile.TemporaryDirectory() as folder:
        made = [new_key(name) for name in ("hostile", "plain")]
        (Path(folder) / "keys").write_text("".join(f"{line}\n" for _, line in made))
        port = free_port()
        environ = {name: value for name, value in os.environ.items() if not name.startswith("INTERLINEAR_")}
        environ |= {"PYTHONPATH": str(checkout), "INTERLINEAR_BUNDLES": str(bundles.resolve())}
        environ |= {"INTERLINEAR_PORT": str(port), "INTERLINEAR_API_KEYS_FILE": f"{folder}/keys"}
        if with_memory:
            environ["INTERLINEAR_TRANSLATION_MEMORY"] = f"{folder}/memory.sqlite"
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(
                [*before, sys.executable, "-m", "app", "serve"],
                cwd=checkout,
                env=environ,
                stderr=log,
                start_new_session=True,
            )
        try:
            wait_until_ready(port)
            yield Service(process, f"http://127.0.0.1:{port}", made[0][0], made[1][0])
        finally:
            for each in family(process.pid):
                with suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            process.wait()


# ---- Measuring


@dataclass
class Outcome:
    """What a case did."""

    name: str
    statuses: Counter[int] = field(default_factory=Counter)
    """Of the hostile key's requests."""
    detail: str = ""
    seconds: float = math.nan
    """Until the last answer, or until the client left."""
    answered: bool = False
    start_mb: float = math.nan
    peak_mb: float = math.nan
    health_s: float = 0.0
    rate_share: float = math.nan
    failures: Counter[str] = field(default_factory=Counter)
    """Of the plain translations."""
    busy_s: float = math.nan

    def faults(self, case: Case, max_growth_mb: float) -> list[str]:
        """The bounds that it broke."""
        wrong = sorted(set(self.statuses) - case.expected - TEMPORARY)
        found = {
            f"answered {', '.join(map(str, wrong))}": bool(wrong),
            f"no answer in {self.seconds:.0f} s": not self.answered,
            f"/health took {self.health_s:.1f} s": self.health_s > MAX_HEALTH_UNITS * unit_seconds(),
            f"plain translations fell to {self.rate_share:.0%}": self.rate_share < MIN_RATE_SHARE,
            f"grew by {self.peak_mb - self.start_mb:,.0f} MB": self.peak_mb - self.start_mb > max_growth_mb,
            f"busy for {self.busy_s:.0f} s after the client left": self.busy_s > MAX_BUSY_UNITS * unit_seconds(),
        }
        return [fault for fault, is_so in found.items() if is_so]

    def __str__(self) -> str:
        statuses = ", ".join(
            f"{count} x {status}" if count > 1 else str(status) for status, count in self.statuses.items()
        )
        failures = ", ".join(f"{count} x {name}" for name, count in self.failures.items()) or "none"
        return (
            f"{self.name}: {statuses or 'no answer'} {self.detail!r}\n"
            f"    {'answer' if self.answered else 'left'} after {self.seconds:.2f} s, "
            f"{self.start_mb:,.0f} to {self.peak_mb:,.0f} MB, /health {1000 * self.health_s:.0f} ms, "
            f"plain translations at {self.rate_share:.0%}, failures: {failures}; busy for {self.busy_s:.1f} s more"
        )


class Plain:
    """Plain translations of another key, each of a new sentence."""

    def __init__(self, client: httpx.AsyncClient, sentences: Iterator[str]) -> None:
        self._client, self._sentences = client, sentences
        self.done = 0
        self.failures = Counter[str]()

    async def run(self) -> None:
        while True:
            try:
                answer = await self._client.post("/translate", json={"text": next(self._sentences), **DIRECTION})
                self.done += answer.status_code == 200
                failure = "" if answer.status_code == 200 else str(answer.status_code)
            except httpx.HTTPError as error:
                failure = type(error).__name__
            if failure:
                self.failures[failure] += 1
                await asyncio.sleep(0.1)


async def _poll_health(client: httpx.AsyncClient, outcome: Outcome) -> None:
    while True:
        began = time.perf_counter()
        try:
            await client.get("/health")
        except httpx.HTTPError:
            await asyncio.sleep(HEALTH_INTERVAL_S)
        finally:  # also one that is unanswered when the case ends
            outcome.health_s = max(outcome.health_s, time.perf_counter() - began)
        await asyncio.sleep(HEALTH_INTERVAL_S)


async def _watch_memory(front: int, outcome: Outcome) -> None:
    while True:
        outcome.peak_mb = max(outcome.peak_mb, await asyncio.to_thread(megabytes, front))
        await asyncio.sleep(SAMPLE_INTERVAL_S)


async def _send(client: httpx.AsyncClient, requests: Sequence[Request], outcome: Outcome) -> None:
    for request in requests:
        try:
            answer = await client.request(request.method, request.path, **request.options)
        except httpx.HTTPError as error:
            outcome.detail = type(error).__name__
            raise
        outcome.statuses[answer.status_code] += 1
        outcome.detail = _detail(answer)


def _detail(answer: httpx.Response) -> str:
    with suppress(ValueError, AttributeError, LookupError, TypeError):
        problem = answer.json()
        return str((problem.get("errors") or [problem])[0]["detail"])[:160]
    return f"{len(answer.content):,} bytes"


async def _busy_seconds(front: int, cap_s: float) -> float:
    """How long the processes go on working."""
    began = last = time.perf_counter()
    used, idle_since = cpu_seconds(front), began
    while (now := time.perf_counter()) - began < cap_s:
        await asyncio.sleep(SAMPLE_INTERVAL_S)
        before, used, last = used, cpu_seconds(front), now
        if used - before > IDLE_CORES * (time.perf_counter() - last):
            idle_since = time.perf_counter()
        elif time.perf_counter() - idle_since > 4 * SAMPLE_INTERVAL_S:
            break
    return idle_since - began


async def measure(
    service: Service, case: Case, sentences: Iterator[str], cap_s: float, before_s: float = BEFORE_S
) -> Outcome:
    """Sends the inputs of `case`, and leaves after `cap_s`."""
    outcome, front, requests = Outcome(case.name), service.process.pid, case.make()
    async with (
        service.client(service.plain, 30) as plain_client,
        service.client(service.plain, 2 * cap_s) as health_client,
        service.client(service.hostile, 2 * cap_s) as hostile_client,
    ):
        plain = Plain(plain_client, sentences)
        others = [asyncio.create_task(plain.run()) for _ in range(PLAIN_CLIENTS)]
        await asyncio.sleep(before_s / 4)  # until all is warm
        done, began = plain.done, time.perf_counter()
        await asyncio.sleep(before_s)
        rate = (plain.done - done) / (time.perf_counter() - began)
        plain.failures.clear()
        outcome.start_mb = outcome.peak_mb = megabytes(front)
        others.append(asyncio.create_task(_poll_health(health_client, outcome)))
        others.append(asyncio.create_task(_watch_memory(front, outcome)))
        done, began = plain.done, time.perf_counter()
        sending = [asyncio.create_task(_send(hostile_client, requests, outcome)) for _ in range(case.copies)]
        finished, left = await asyncio.wait(sending, timeout=cap_s)
        outcome.seconds = time.perf_counter() - began
        outcome.answered = not left and not any(task.exception() for task in finished)
        await asyncio.sleep(max(0.0, before_s - outcome.seconds))
        outcome.rate_share = (plain.done - done) / (time.perf_counter() - began) / rate
        outcome.failures = plain.failures
        for task in (*left, *others):
            task.cancel()
        await asyncio.wait([*left, *others])
    outcome.busy_s = await _busy_seconds(front, min(cap_s, 30.0))
    outcome.peak_mb = max(outcome.peak_mb, megabytes(front))
    return outcome


async def stop(service: Service, cases: Sequence[Case], cap_s: float, after_s: float = 2.0) -> float:
    """Sends the inputs of `cases` at once, and SIGTERM `after_s` later. Returns the seconds until no process runs."""
    known: set[int] = set()
    async with service.client(service.hostile, 2 * cap_s) as client:
        sending = [asyncio.create_task(_send(client, case.make(), Outcome(case.name))) for case in cases]
        await asyncio.sleep(after_s)
        known.update(family(service.process.pid))
        service.process.send_signal(signal.SIGTERM)
        began = time.perf_counter()
        while time.perf_counter() - began < cap_s:
            known.update(family(service.process.pid) if service.process.poll() is None else [])
            if service.process.poll() is not None and not any(map(_runs, known)):
                break
            await asyncio.sleep(0.1)
        seconds = time.perf_counter() - began
        for task in sending:
            task.cancel()
        await asyncio.wait(sending)
    for process in known - {service.process.pid}:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return seconds


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def main(
    bundles: Annotated[Path, typer.Option(help="The bundles to serve, one of them from English to French.")] = ROOT
    / "bundles",
    case: Annotated[list[str] | None, typer.Option(help="A case to run; may be repeated. Default: all.")] = None,
    files: Annotated[Path | None, typer.Option(help="Send every file of this folder instead.")] = None,
    cap: Annotated[float, typer.Option(help="Seconds after which the hostile client leaves.")] = 45.0,
    max_growth_mb: Annotated[float, typer.Option(help="How much the service may grow.")] = 512.0,
    max_address_space_gb: Annotated[int, typer.Option(help="A limit for each process, to save the machine.")] = 0,
    checkout: Annotated[Path, typer.Option(help="The folder of the code to serve.")] = ROOT,
) -> None:
    """Send hostile inputs, and measure what they cost the service and its other users."""
    print(f"{processor()}, {os.cpu_count()} cores; Python {platform.python_version()}")
    print(f"a unit of work takes {1000 * unit_seconds():.2f} ms", flush=True)
    cases = of_folder(files) if files else [each for each in CASES if not case or each.name in case]
    if not cases:
        raise typer.BadParameter(f"cases are: {', '.join(each.name for each in CASES)}")
    before = ("prlimit", f"--as={max_address_space_gb << 30}") if max_address_space_gb else ()
    sentences = cycle(pseudoword_sentences(20_000, 8, 1))
    faults, outcomes = list[str](), dict[str, Outcome]()
    for each in cases:
        with serving(bundles, each.needs_memory, checkout, before) as service:
            outcome = outcomes[each.name] = asyncio.run(measure(service, each, sentences, cap))
        found = outcome.faults(each, max_growth_mb)
        faults += [f"{each.name}: {fault}" for fault in found]
        print(f"{outcome}\n    {'; '.join(found).upper() or 'ok'}", flush=True)
    worst = sorted(cases, key=lambda each: outcomes[each.name].seconds)[-2:]
    with serving(bundles, any(each.needs_memory for each in worst), checkout, before) as service:
        seconds = asyncio.run(stop(service, worst, 2 * MAX_STOP_S))
    names = " and ".join(each.name for each in worst)
    print(f"stop during {names}: nothing runs {seconds:.1f} s after SIGTERM", flush=True)
    if seconds > MAX_STOP_S + 1:
        faults.append(f"stop: something ran {seconds:.0f} s after SIGTERM")
    print("\n".join(faults) or "no bound broken")
    raise typer.Exit(1 if faults else 0)


if __name__ == "__main__":
    typer.run(main)
