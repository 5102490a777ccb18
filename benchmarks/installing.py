"""From no installed model to translations by published ones: a service with INTERLINEAR_MODELS, and a registry on
loopback. How long does each part take, and what does the load notice of it?

    PYTHONPATH=.:tests/support python -m benchmarks.installing time      parts of the way; do all three APIs answer
        right?
    PYTHONPATH=.:tests/support python -m benchmarks.installing load      throughput beside an installation, and without
    PYTHONPATH=.:tests/support python -m benchmarks.installing registry  only the registry, to try a service or a
        container

The registry has what real ones have: Mozilla's list with models of random weights in the shape `base-memory`, and an
index of Argos with the shipped English-French bundle, packed as Argos Translate packs its own, whose translations are
known.
"""

from __future__ import annotations

import gzip
import hashlib
import http.server
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import httpx
import torch
import typer
from marian_models import as_bin, marian_pieces, marian_transformer

from benchmarks.cores import processor
from benchmarks.importing_memory import INTGEMM8, grown
from benchmarks.load import Generator, Load, figures
from benchmarks.ports import free_port
from benchmarks.sentences import workloads
from training.export.ctranslate2 import ConvertOptions, convert_bundle
from training.export.marian import marian_arrays

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ROOT / "bundles"
KNOWN = SHIPPED / "en-fr"
PAIRS = ("en-es", "es-en")
PIECES = 32_000
BASE_MEMORY: dict[str, Any] = {"d_model": 384, "d_ff": 1536, "num_heads": 8, "encoder_layers": 6, "decoder_layers": 4}
SCALE, END = 4.0, 24.0
"""Of random embeddings, and the end symbol's bias: some sentences then come to an end that is certain, as samples need
it; others go on to their limit."""
SENTENCES = ["Good morning.", "The museum is open on Sundays.", "I lost my keys yesterday."]
TIMEOUT_S = 600.0
POLL_S = 0.02
PAGE_POLL_S = 1.0
"""About as often as the page asks; more would be load itself."""
CHUNK_BYTES = 1 << 16
cli = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


# ---- The registry


def make_registry(folder: Path) -> None:
    """Writes both lists and their models."""
    make_argos(folder)
    models = {pair: [make_firefox(folder, pair)] for pair in PAIRS}
    listed = {"generated": "2026-01-01T00:00:00Z", "baseUrl": ".", "models": models}
    (folder / "models.json").write_text(json.dumps(listed))


def make_argos(folder: Path) -> None:
    """The shipped English-French bundle as a package, and its index."""
    convert_bundle(ConvertOptions(KNOWN, folder / "ct2"), say=lambda _: None)
    facts = {"from_code": "en", "to_code": "fr", "package_version": "1.0", "type": "translate"}
    with zipfile.ZipFile(folder / "translate-en_fr-1_0.argosmodel", "w") as archive:
        archive.writestr("translate-en_fr-1_0/metadata.json", json.dumps(facts))
        for file in (folder / "ct2").iterdir():
            inner = "" if file.name == "sentencepiece.model" else "model/"
            archive.write(file, f"translate-en_fr-1_0/{inner}{file.name}")
    shutil.rmtree(folder / "ct2")
    (folder / "index.json").write_text(json.dumps([{**facts, "links": ["translate-en_fr-1_0.argosmodel"]}]))


def make_firefox(folder: Path, pair: str) -> dict[str, Any]:
    """A model in the shape of Mozilla's `base-memory`, and its entry of the list."""
    model = marian_transformer(PIECES, decoder="ssru", share_embeddings="all", **BASE_MEMORY)
    with torch.no_grad():
        model.output.weight.mul_(SCALE)
        model.output.bias[0] = END
    weights = as_bin(marian_arrays(model), INTGEMM8)
    for name, content in (("model.bin", weights), ("vocab.spm", grown(marian_pieces(), PIECES))):
        (folder / f"{pair}.{name}.gz").write_bytes(gzip.compress(content, 1, mtime=0))
    facts = {"uncompressedSize": len(weights), "uncompressedHash": hashlib.sha256(weights).hexdigest()}
    files = {"model": {"path": f"{pair}.model.bin.gz", **facts}, "vocab": {"path": f"{pair}.vocab.spm.gz"}}
    metrics = {"flores200-plus": {"bleu": 27.4, "comet22": 0.85}}
    return {"architecture": "base-memory", "releaseStatus": "Release", "files": files, "metrics": metrics}


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, at a limited rate."""

    def __init__(self, *given: Any, rate: float, **more: Any) -> None:
        self._rate = rate
        super().__init__(*given, **more)

    def copyfile(self, source: Any, outputfile: Any) -> None:
        while chunk := source.read(CHUNK_BYTES):
            outputfile.write(chunk)
            if self._rate:
                time.sleep(len(chunk) / (1e6 * self._rate))

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def registry(folder: Path, rate: float, port: int = 0) -> Iterator[str]:
    """Serves the lists at `rate` MB/s, 0: as fast as it can. Yields their address."""
    handler = partial(_Handler, directory=folder, rate=rate)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def mirrors(address: str) -> str:
    return f"firefox={address}/models.json,argos={address}/index.json"


# ---- The service


class Service:
    """A service of the shipped bundles, as a process."""

    def __init__(self, folder: Path, address: str, **settings: str) -> None:
        self.port, self.began = free_port(), time.perf_counter()
        self.url = f"http://127.0.0.1:{self.port}"
        self._client = httpx.Client(timeout=60)  # one, since each reads all certificates
        variables = {
            "BUNDLES": str(SHIPPED),
            "PORT": str(self.port),
            "MODELS_DIR": str(folder),
            "REGISTRIES": mirrors(address),
            **settings,
        }
        environ = {**os.environ, **{f"INTERLINEAR_{name}": value for name, value in variables.items()}}
        self.process = subprocess.Popen([sys.executable, "-m", "app", "serve"], env=environ, stderr=subprocess.DEVNULL)

    @property
    def elapsed_s(self) -> float:
        return time.perf_counter() - self.began

    def get(self, path: str) -> Any:
        """What the service answers; None while it does not."""
        try:
            answer = self._client.get(f"{self.url}{path}")
        except httpx.HTTPError:
            return None
        return answer.json() if answer.is_success else None

    def await_ready(self) -> None:
        while self.get("/ready") is None:
            self.check()
            time.sleep(POLL_S)

    def model(self, source: str, target: str) -> str:
        """The model that translates now."""
        body = {"text": "Good morning.", "source": source, "target": target}
        return str(httpx.post(f"{self.url}/translate", json=body, timeout=60).raise_for_status().json()["model"])

    def install(self, model: str) -> str:
        """Asks for a model; the job's id."""
        return str(self._client.post(f"{self.url}/models", json={"model": model}).raise_for_status().json()["id"])

    def remove(self, direction: str) -> None:
        self._client.delete(f"{self.url}/models/{direction}").raise_for_status()

    def await_end(self, job: str) -> dict[str, Any]:
        while (found := self.get(f"/models/jobs/{job}")) is None or found["state"] not in ("done", "failed"):
            self.check()
            time.sleep(PAGE_POLL_S)
        if found["state"] == "failed":
            raise SystemExit(f"{found['model']}: {found['error']['detail']}")
        return dict(found)

    def check(self) -> None:
        if self.process.poll() is not None or self.elapsed_s > TIMEOUT_S:
            raise SystemExit("the service has ended, or takes too long")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def translate(url: str) -> dict[str, list[str]]:
    """The translations of SENTENCES by each API."""
    native = httpx.post(f"{url}/translate", json={"text": SENTENCES, "source": "en", "target": "fr"}, timeout=60)
    libre = httpx.post(
        f"{url}/libretranslate/translate", json={"q": SENTENCES, "source": "en", "target": "fr"}, timeout=60
    )
    deepl = httpx.post(
        f"{url}/deepl/v2/translate", json={"text": SENTENCES, "source_lang": "EN", "target_lang": "FR"}, timeout=60
    )
    return {
        "own": [each["text"] for each in native.raise_for_status().json()["translations"]],
        "LibreTranslate": libre.raise_for_status().json()["translatedText"],
        "DeepL": [each["text"] for each in deepl.raise_for_status().json()["translations"]],
    }


# ---- The measurements


def follow(service: Service, models: Sequence[str]) -> Iterator[tuple[str, str, float]]:
    """Each state that each model is first seen in, and the seconds since the start, until all serve."""
    seen = set[tuple[str, str]]()
    while True:
        jobs = {job["model"]: job for job in service.get("/models/jobs") or []}
        for model, job in jobs.items():
            if (step := (model, job["state"])) not in seen:
                seen.add(step)
                yield *step, service.elapsed_s
            if job["error"]:
                raise SystemExit(f"{model}: {job['error']['detail']}")
        if models and all((model, "done") in seen for model in models):
            return
        service.check()
        time.sleep(POLL_S)


Rate = Annotated[float, typer.Option(help="MB/s of the registry; 0: no limit")]


@cli.command("time")
def time_parts(rate: Rate = 10.0) -> None:
    """The way from the start to the first translations by the new models, by part."""
    print(f"{processor()}; the registry sends {rate:g} MB/s" if rate else f"{processor()}; loopback without a limit")
    models = ("firefox:en-es", "argos:en-fr")
    with tempfile.TemporaryDirectory() as place:
        files = Path(place, "registry")
        files.mkdir()
        make_registry(files)
        with registry(files, rate) as address:
            service = Service(Path(place, "models"), address, MODELS=" ".join(models))
            try:
                service.await_ready()
                before, shipped = translate(service.url), service.model("en", "es")
                print(f"{service.elapsed_s:6.1f} s  the first translations, by what ships")
                for model, state, at in follow(service, models):
                    print(f"{at:6.1f} s  {model}: {state}", flush=True)
                if service.model("en", "es") == shipped:
                    raise SystemExit("firefox:en-es does not serve")
                after = translate(service.url)
                print(f"{service.elapsed_s:6.1f} s  the first translations by the new models")
            finally:
                service.stop()
            began = time.perf_counter()
            service = Service(Path(place, "models"), address, MODELS=" ".join(models), MODELS_REQUIRED="true")
            try:
                service.await_ready()
                print(f"started again, with both models required: ready after {time.perf_counter() - began:.1f} s")
            finally:
                service.stop()
    for api, texts in after.items():
        print(f"{api}: {'as the shipped bundle' if texts == before[api] else f'DIFFERS: {texts}'}")
    if after != before:
        raise SystemExit(1)


@cli.command()
def load(
    rounds: Annotated[int, typer.Option(help="Of each kind, in turns")] = 5,
    clients: Annotated[int, typer.Option(help="That translate without a pause")] = 16,
    seconds: Annotated[float, typer.Option(help="Of each round, at least")] = 20.0,
    rate: Rate = 10.0,
) -> None:
    """Throughput and latency of English to French while two other models are installed, and without."""
    print(f"{processor()}; {clients} clients; the registry sends {rate:g} MB/s")
    found: dict[str, list[dict[str, float]]] = {"quiet": [], "installing": []}
    with tempfile.TemporaryDirectory() as place:
        files = Path(place, "registry")
        files.mkdir()
        make_registry(files)
        generator = Generator(Path(place), None, seconds, 2.0)
        bodies = workloads(KNOWN, None, Path(place))["short"].bodies
        with registry(files, rate) as address:
            service = Service(Path(place, "models"), address, CACHE_BYTES="0")
            try:
                service.await_ready()
                for number in range(rounds):
                    for kind, measured in found.items():
                        stop = threading.Event()
                        work = threading.Thread(target=_install_until, args=(service, stop))
                        if kind == "installing":
                            work.start()
                        printed = generator.run(service.port, bodies, Load("closed", clients), seed=number + 1)
                        if kind == "installing":
                            stop.set()
                            work.join()
                        measured.append(figures(printed))
                        print(f"{number + 1} {kind}: {_shown(measured[-1])}", flush=True)
            finally:
                service.stop()
    ratios = [one["tokens"] / other["tokens"] for one, other in zip(found["installing"], found["quiet"], strict=True)]
    print(f"throughput beside an installation: {statistics.median(ratios):.3f} of that without (median of {rounds})")
    if any(figure["refused"] or figure["failed"] for measured in found.values() for figure in measured):
        raise SystemExit("requests were refused or lost")


def _install_until(service: Service, stop: threading.Event) -> None:
    """Installs both directions and removes them, one after the other, until it is to stop."""
    while not stop.is_set():
        for pair in PAIRS:
            service.await_end(service.install(f"firefox:{pair}"))
        for pair in PAIRS:
            service.remove(pair)


def _shown(measured: dict[str, float]) -> str:
    latencies = f"p50 {measured['p50']:.0f} ms, p99 {measured['p99']:.0f} ms"
    lost = f"refused {measured['refused']:.2%}, failed {measured['failed']:.2%}"
    return f"{measured['tokens']:,.0f} tokens/s, {latencies}, {lost}"


@cli.command("registry")
def serve_registry(
    port: Annotated[int, typer.Option(help="Of the registry on loopback")] = 8099, rate: Rate = 10.0
) -> None:
    """Makes the registry and serves it until Ctrl-C."""
    with tempfile.TemporaryDirectory() as place:
        make_registry(Path(place))
        with registry(Path(place), rate, port) as address:
            print(f"INTERLINEAR_REGISTRIES={mirrors(address)} INTERLINEAR_MODELS='firefox:es argos:en-fr'", flush=True)
            threading.Event().wait()


if __name__ == "__main__":
    cli()
