"""Fixtures: a bundle with random but reproducible weights, the service that serves it, and a short training run."""

from __future__ import annotations

import asyncio
import fcntl
import functools
import inspect
import os
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx
import pytest
import torch
import uvicorn
from fastapi import FastAPI
from servers import WAIT_S, QuickServer
from starlette.types import Receive, Scope, Send
from store_server import StoreServer
from torch.nn.utils.rnn import pad_sequence

from app.engine.executor import BundleExecutor
from app.engine.launch import InProcessWorker
from app.main import create_app, server_options
from app.server.connection import Connection
from app.server.state import APPLICATION, app_state
from app.services.reload import RELOAD_TIMING, ReloadTiming
from app.services.startup import load_catalogue
from app.settings import Settings
from app.text.language_id import Libraries
from model.bundle_weights import LoadedBundle, check_samples, load_bundle, save_bundle
from model.config import ModelConfig
from model.decoding import greedy_decode
from model.decoding.batch import DecodeBatch
from model.decoding.torch_backend import TorchBackend
from model.hypothesis import Hypothesis, Limits
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from training.corpora.corpus import Pair, write_pairs
from training.data.options import PrepareOptions
from training.data.prepare import prepare_corpora
from training.data.vocabulary import train_vocabulary
from training.evaluation.evaluate import Result, TestSet, evaluate_set
from training.export.samples import SENTENCES as SENTENCES_OF_SAMPLES
from training.optim.defaults import Size
from training.optim.loop import train
from training.optim.trainer import Recipe
from training.pipeline.plan import Timings, measure

if TYPE_CHECKING:
    from chromium import SharedBrowser, Visit
    from deepl import DeepLClient
    from playwright.sync_api import Browser

# A slow response on a busy machine proves nothing: httpx would give up after its default of 5 s, an object that all of
# its functions share.
for phase in ("connect", "read", "write", "pool"):
    setattr(inspect.signature(httpx.Client).parameters["timeout"].default, phase, WAIT_S)
# Each client reads the certificates of the machine anew, which takes 20 ms, for servers here that have none.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(gettempdir(), "interlinear-tests-have-no-certificates"))

T = TypeVar("T")
FEW_SENTENCES = {language: "|".join(text.split("|")[::9]) for language, text in SENTENCES_OF_SAMPLES.items()}
SHIPPED = Path(__file__).parents[2] / "bundles"
SENTENCES = [
    "Hello.",
    "How are you?",
    "I am well, thank you.",
    "The cat sleeps.",
    "Bonjour.",
    "Le chat dort, il va bien.",
]


def measure_with_the_decoder(
    write: Callable[[Path], None], tests: Sequence[TestSet], device: torch.device
) -> list[Result]:
    """Measures with the decoder alone, which starts at once, in place of the service."""
    with TemporaryDirectory() as place:
        write(Path(place, "bundle"))
        bundle = load_bundle(Path(place, "bundle"), device)
        check_samples(bundle)
        how = (bundle.model, bundle.tokenizers, bundle.limits, bundle.target)
        return [replace(evaluate_set(*how, test), served=True) for test in tests]


def export_quickly(patch: pytest.MonkeyPatch) -> None:
    """Measures exports with `measure_with_the_decoder`, and takes samples from a few of our sentences."""
    patch.setattr("training.export.bundle.measure_as_served", measure_with_the_decoder)
    patch.setattr("training.export.samples.SENTENCES", FEW_SENTENCES)


@pytest.fixture(autouse=True)
def _exports_are_quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """See `export_quickly`. Tests marked `real_service` use the service, and all of our sentences."""
    if request.node.get_closest_marker("real_service") is None:
        export_quickly(monkeypatch)


SURE = "(the sample of a bundle made for tests)"
BUNDLE_LIMITS = Limits(max_source=32, max_target=32)


def make_bundle(
    folder: Path,
    source: str = "en",
    target: str = "fr",
    seed: int = 0,
    samples: Sequence[dict[str, Any]] | None = None,
    imported: dict[str, Any] | None = None,
    **architecture: Any,
) -> Path:
    """Writes a bundle with random weights drawn from `seed`.

    `samples`: None for a single one that every precision decodes alike. `imported`: its record as a published model.
    `architecture`: fields of its ModelConfig.
    """
    model, tokenizer, sample = random_model(source, target, seed, **architecture)
    record: dict[str, Any] = {"source": source, "target": target, "training": {"corpora": []}, "metrics": []}
    if imported:
        record["training"]["imported"] = imported
    record |= {"licence": "CC0-1.0", "remarks": ["It knows nothing."]}
    record["samples"] = [sample] if samples is None else list(samples)
    save_bundle(folder, model, tokenizer, BUNDLE_LIMITS, record, "A bundle for tests.\n")
    return folder


@functools.cache
def random_model(
    source: str, target: str, seed: int, **architecture: Any
) -> tuple[Transformer, Tokenizer, dict[str, Any]]:
    """The model of a bundle, its tokenizer, and a sample."""
    model, tokenizer = untrained_model(source, target, seed, **architecture)
    return model, tokenizer, sure_sample(model, BUNDLE_LIMITS)


def untrained_model(source: str, target: str, seed: int, **architecture: Any) -> tuple[Transformer, Tokenizer]:
    """A model with random weights drawn from `seed`, and its tokenizer."""
    tokenizer = Tokenizer(train_vocabulary(SENTENCES, 400, [source, target], threads=1))
    size = tokenizer.vocab_size
    shape = {"d_model": 32, "num_heads": 2, "d_ff": 32, "encoder_layers": 2, "decoder_layers": 2}
    config = ModelConfig.from_dict({"source_vocab_size": size, "target_vocab_size": size, **shape, **architecture})
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Transformer(config).eval()
    return model, tokenizer


@torch.inference_mode()
def sure_sample(model: Transformer, limits: Limits) -> dict[str, Any]:
    """A sample that every precision decodes alike.

    Of the sources of one token, it is the one whose target tokens lead the runners-up by most: CTranslate2's int8
    saturates on processors without VNNI, and changes tokens that lead by a whole nat.
    """
    found = greedy_decode(model, [[token] for token in range(4, model.config.source_vocab_size)], limits, rows=400)
    sources = torch.tensor([[*hypothesis.source, model.config.eos_id] for hypothesis in found])
    begun = [torch.tensor([model.config.bos_id, *hypothesis.tokens[:-1]]) for hypothesis in found]
    best = model(sources, pad_sequence(begun, batch_first=True)).topk(2, -1).values  # [source, target, 2]
    padding = pad_sequence([torch.zeros(len(tokens)) for tokens in begun], batch_first=True, padding_value=torch.inf)
    leads = (best[..., 0] - best[..., 1] + padding).amin(1)  # [source]
    surest = found[int(leads.argmax())]
    return {"source": SURE, "source_ids": list(surest.source), "target_ids": surest.tokens}


class Service:
    """Runs an application on an event loop in a thread, and sends it requests without a socket."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        self._lifespan = self.app.router.lifespan_context(self.app)
        self.state: Any = (self.run(self._lifespan.__aenter__()) or {})[APPLICATION]
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(self._with_state), base_url="http://test")
        return self

    def __exit__(self, *error: object) -> None:
        self.run(self._client.aclose())
        self.run(self._lifespan.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` on the application's event loop and returns its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=5 * WAIT_S)

    def advance_clock(self, seconds: float) -> None:
        """Advances the event loop's clock, which all time limits use."""
        now = self._loop.time
        self._loop.time = lambda: now() + seconds  # type: ignore[method-assign]
        self._loop.call_soon_threadsafe(lambda: None)

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.run(self._client.request(method, path, **options))

    def get(self, path: str) -> httpx.Response:
        return self.request("GET", path)

    def post(self, path: str, body: object) -> httpx.Response:
        return self.request("POST", path, json=body)

    def post_together(self, path: str, bodies: list[Any]) -> list[httpx.Response]:
        """Posts all `bodies` at once."""
        return self.post_mixed([(path, body) for body in bodies])

    def post_mixed(self, requests: Sequence[tuple[str, Any]]) -> list[httpx.Response]:
        """Posts bodies to paths, all at once."""

        async def together() -> list[httpx.Response]:
            return await asyncio.gather(*(self._client.post(path, json=body) for path, body in requests))

        return self.run(together())

    def leave(self, gate: Gate, path: str, **options: Any) -> int:
        """Posts, and disconnects once a decoder waits at `gate`. Returns the status that the service then sends."""

        async def left() -> int:
            request = httpx.Request("POST", f"http://test{path}", **options)
            bodies, is_gone, sent = [await request.aread()], asyncio.Event(), list[Any]()

            async def receive() -> dict[str, Any]:
                if bodies:
                    return {"type": "http.request", "body": bodies.pop()}
                await is_gone.wait()
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                sent.append(message)

            scope = {"type": "http", "method": "POST", "path": path, "root_path": "", "query_string": b""}
            headers = [(name.lower(), value) for name, value in request.headers.raw]
            answering = asyncio.create_task(self._with_state({**scope, "headers": headers}, receive, send))
            await asyncio.to_thread(gate.entered.wait)
            is_gone.set()
            await answering
            return int(sent[0]["status"])

        return self.run(left())

    async def _with_state(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app({**scope, "state": {APPLICATION: self.state}}, receive, send)


@pytest.fixture(scope="session", autouse=True)
def _no_manual_of_this_checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The page has the same links whether or not somebody has run `make docs` here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.api.manual.FOLDER", tmp_path_factory.getbasetemp() / "no-manual")
        yield


@pytest.fixture(scope="session", autouse=True)
def _detection_loads_once() -> Iterator[None]:
    """Shares the language detection libraries, which take a second to load, among all services and translators."""
    shared, load = Libraries(), Libraries.load

    def load_shared(libraries: Libraries) -> object:
        libraries.loaded = load(shared)
        return libraries.loaded

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Libraries, "load", load_shared)
        yield


@pytest.fixture(scope="session")
def bundle_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of bundles with a single one, en-fr."""
    folder = tmp_path_factory.mktemp("bundles")
    make_bundle(folder / "en-fr")
    return folder


@pytest.fixture(scope="session")
def bundle(bundle_folder: Path) -> LoadedBundle:
    return load_bundle(bundle_folder / "en-fr", torch.device("cpu"))


HARDLY_BUSY: dict[str, Any] = {"workers": 1, "precision": "float32", "max_wait_ms": 60_000}
"""One worker, and no request is refused because the machine is slow. With precision="auto" and a processor for the int8
kernels, it starts and decodes in a tenth of the time; that does for all tests but those that compare numbers."""


def serving(
    bundles: Path | tuple[Path, ...],
    reload_timing: ReloadTiming = RELOAD_TIMING,
    trainer: Sequence[str] | None = None,
    importer: Sequence[str] | None = None,
    **settings: Any,
) -> Service:
    """The service of a folder of bundles, as a context manager; its worker is a thread."""
    chosen = Settings(
        bundles=bundles if isinstance(bundles, tuple) else (bundles,),
        device="cpu",
        **{**HARDLY_BUSY, **settings},
    )
    app = create_app(
        chosen,
        load_catalogue(chosen),
        InProcessWorker,
        reload_timing=reload_timing,
        trainer=trainer,
        importer=importer,
    )
    return Service(app)


@pytest.fixture(scope="session")
def service(bundle_folder: Path) -> Iterator[Service]:
    """The service of `bundle_folder` with the default limits, once it is ready."""
    with serving(bundle_folder) as service:
        assert service.run(service.state.deployments.current.engine.wait_started())
        yield service


@contextmanager
def listening(
    bundles: Path,
    protocol: type[Connection] = Connection,
    trainer: Sequence[str] | None = None,
    importer: Sequence[str] | None = None,
    /,
    **settings: Any,
) -> Iterator[str]:
    """Serves a folder of bundles on a real socket, for clients that need one; yields the URL."""
    chosen = Settings(bundles=(bundles,), device="cpu", **{**HARDLY_BUSY, **settings})
    app = create_app(chosen, load_catalogue(chosen), InProcessWorker, trainer=trainer, importer=importer)
    config = uvicorn.Config(app, **{**server_options(chosen), "http": protocol})
    server = QuickServer(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            with httpx.Client(base_url=url) as client:
                while client.get("/ready").status_code != 200:
                    assert thread.is_alive()
                    time.sleep(0.02)
            app_state(server.lifespan.state).request_queue.max_delay_s = 60.0  # on a busy machine no request is late
            yield url
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="session")
def shipped_url() -> Iterator[str]:
    """The URL of a service of bundles/en-fr alone, whose translations differ from text to text."""
    with listening(SHIPPED / "en-fr", precision="int8") as url:  # as it ships, and in a fortieth of the time
        yield url


@pytest.fixture
def deepl_client(shipped_url: str) -> Iterator[DeepLClient]:
    """DeepL's own client."""
    from deepl_clients import client_of

    with client_of(shipped_url) as client:
        yield client


@pytest.fixture
def fast_deepl_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """DeepL's clients try once, and poll documents every 10 ms rather than every five seconds."""
    monkeypatch.setattr("deepl.http_client.max_network_retries", 0)
    monkeypatch.setattr("deepl.translator.time", SimpleNamespace(time=time.time, sleep=lambda _: time.sleep(0.01)))
    monkeypatch.setattr("app.api.deepl.documents.STATUS_WAIT_S", 0.1)


@pytest.fixture(scope="session")
def shared_browser() -> Iterator[SharedBrowser]:
    from chromium import SharedBrowser, chromium

    with chromium() as browser:
        shared = SharedBrowser(browser)
        shared.leave()
        yield shared
        shared.enter()


@pytest.fixture(scope="module")
def browser(shared_browser: SharedBrowser) -> Iterator[Browser]:
    """The browser: until the module ends, its event loop allows no other in this thread."""
    yield shared_browser.enter()
    shared_browser.leave()


@pytest.fixture
def visit(browser: Browser, shipped_url: str) -> Iterator[Visit]:
    """A page in the browser, whose console and requests are checked at the end of the test."""
    from chromium import Visit

    visit = Visit(browser, shipped_url)
    yield visit
    visit.end()


@pytest.fixture
def kept_visit(
    shared_browser: SharedBrowser, browser: Browser, shipped_url: str, request: pytest.FixtureRequest
) -> Iterator[Visit]:
    """A visit whose single page stays for other tests, empty: loading it again takes 0.6 s of processor time.

    Tests leave panels closed and the clock alone. After a failed test the next one gets a new page.
    """
    from chromium import Visit
    from playwright.sync_api import expect

    failed = request.session.testsfailed
    if shared_browser.kept is None:
        shared_browser.kept = Visit(browser, shipped_url, shares_tab=False)
        shared_browser.kept.page()
    visit = shared_browser.kept
    [page] = visit.pages
    page.fill("#source-text", "")
    expect(page.locator("#target-text")).to_be_empty()
    expect(page.locator("#target-language")).to_have_value("fr")
    yield visit
    page.unroute_all()
    try:
        visit.check()
        shared_browser.kept = None if request.session.testsfailed > failed else visit
    except AssertionError:
        shared_browser.kept = None
        raise
    finally:
        visit.complaints.clear()
        visit.allowed.clear()
        if shared_browser.kept is None:
            visit.close()


def with_processor_features(patch: pytest.MonkeyPatch, *features: str) -> None:
    """A processor with these alone."""
    patch.setattr("model.int8.isa.processor_features", lambda: set(features))


def fail_admission(patch: pytest.MonkeyPatch, service: Service, error: Exception) -> None:
    """Raises `error` where requests ask whether the engine has room for them."""

    def fail(client: str, waited_s: float) -> None:
        raise error

    patch.setattr(service.state.deployments.current.engine.scheduler, "check", fail)


@functools.cache
def torch_backend(folder: str, checksum: str) -> TorchBackend:
    """PyTorch's backend of a bundle, whose weights have this checksum."""
    return TorchBackend(load_bundle(Path(folder), torch.device("cpu")).model)


def decode_with(batch: type[DecodeBatch], monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the workers of this test, which are threads, decode with `batch`.

    The default sample of a bundle is not checked, so that `batch` sees only what the test sends.
    """
    check = BundleExecutor.check_samples

    def new_batch(executor: BundleExecutor) -> DecodeBatch:
        backend = executor.backend
        if not isinstance(backend, TorchBackend):
            backend = torch_backend(executor.spec.folder, executor.spec.checksum)
        return batch(backend.new_state(executor.rows, executor.spec.limits), backend.config)

    def check_samples(executor: BundleExecutor) -> None:
        if [sample.source for sample in executor.spec.samples] != [SURE]:
            check(executor)

    monkeypatch.setattr(BundleExecutor, "new_batch", new_batch)
    monkeypatch.setattr(BundleExecutor, "check_samples", check_samples)


class Gate:
    """Blocks decoder steps until opened, then records the number of sentences in each step."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.sizes: list[int] = []

    def pass_through(self, size: int) -> None:
        self.entered.set()
        assert self.opened.wait(WAIT_S)
        self.sizes.append(size)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A gate before every decoder step of the engines of this test."""
    gate = Gate()

    class Gated(DecodeBatch):
        def step(self, most: int = 1, enough: int = 0) -> list[Hypothesis]:
            gate.pass_through(len(self.running))
            return super().step(most, enough)

    decode_with(Gated, monkeypatch)
    yield gate
    gate.opened.set()


NAMES = ["Tom", "Mary", "Ann-Lee", "Ali", "Yuki", "Otto", "Ines", "Bo"]
THINGS = [("apple", "pomme"), ("dog", "chien"), ("house", "maison"), ("book", "livre"), ("chair", "chaise")]
PAIRS = [
    Pair(f"{name} has {number} {english}s.", f"{name} a {number} {french}s.")
    for name in NAMES
    for number in range(2, 10)
    for english, french in THINGS
]
TRAINING_LIMITS = Limits(max_source=32, max_target=32)


def small_config(vocab_size: int, **fields: Any) -> ModelConfig:
    """A configuration small enough to train in seconds."""
    shape = {"d_model": 16, "num_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1}
    return ModelConfig.from_dict(
        {"source_vocab_size": vocab_size, "target_vocab_size": vocab_size, "dropout": 0.1, **shape, **fields}
    )


FEW_TOKENS = Limits(max_source=32, max_target=32, ratio=0.5, margin=2)
measure_briefly = partial(measure, min_timed_s=0.0)


def train_quickly(patch: pytest.MonkeyPatch, measured: Callable[..., Timings] = measure_briefly) -> None:
    """Has commands draw no curves, and plan by what is `measured`: by default three steps, not those of six seconds.

    Translations may be hardly longer than references: an untrained model ends few sentences.
    """
    patch.setattr("training.optim.progress.draw_curves", lambda history: b"")
    patch.setattr("training.evaluation.scoring.Limits", lambda *given: Limits(*given) if given else FEW_TOKENS)
    patch.setattr("training.pipeline.run.measure", measured)


@pytest.fixture
def quick_training(monkeypatch: pytest.MonkeyPatch) -> None:
    train_quickly(monkeypatch)


@pytest.fixture
def small_default_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Corpora of any size are trained on as few as the tests have, with few evaluations."""
    smallest = Size(1e9, "d2l", dropout=0.1, batch_tokens=512, epochs=1, warmup=5, learning_rate_factor=0.3)
    monkeypatch.setattr("training.optim.defaults.SIZES", (smallest,))
    monkeypatch.setattr("training.optim.defaults.EVALUATIONS", 2)


def made_once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that `make` fills, once for all processes of pytest-xdist. Nobody may write to it."""
    of_all = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        of_all = of_all.parent
    with open(of_all / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (of_all / name).exists():
            folder = tmp_path_factory.mktemp(name)
            make(folder)
            folder.rename(of_all / name)
    return of_all / name


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of 320 pairs, 16 of them for development."""

    def prepare(folder: Path) -> None:
        pairs = folder / "pairs.tsv"
        write_pairs(pairs, PAIRS)
        options = PrepareOptions((str(pairs),), "en", "fr", folder / "data", vocab_size=360, augment_share=0.0)
        prepare_corpora(options, lambda line: None)

    return made_once(tmp_path_factory, "prepared", prepare) / "data"


@pytest.fixture(scope="session")
def run_folder(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of 120 steps on `data`."""
    recipe = Recipe(120, batch_tokens=400, warmup=30, learning_rate_factor=0.5, cooldown=0.3, evaluate_every=40, keep=2)
    config = small_config(Tokenizer.load(data / "sentencepiece.model").vocab_size, d_model=32, d_ff=64)

    def learn(folder: Path) -> None:
        train(data, folder / "run", config, recipe, torch.device("cpu"), TRAINING_LIMITS, save_every=40)

    return made_once(tmp_path_factory, "trained", learn) / "run"


@pytest.fixture(scope="module")
def patient_stores() -> Iterator[None]:
    """Has stores wait for their server as long as a busy machine takes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("store_connection.URGENT_TIMEOUT_S", "store_valkey.TIMEOUT_S", "store_valkey.BULK_TIMEOUT_S"):
            patch.setattr(f"app.storage.{name}", WAIT_S)
        yield


@pytest.fixture(scope="module")
def store_server(patient_stores: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with StoreServer(tmp_path_factory.mktemp("store")) as server:
        yield server
