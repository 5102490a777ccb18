"""Bulk translation on a Ray cluster: actors that hold an engine each, for shards or for people's own Datasets.

Only this module of bulk translation imports Ray, whose usage statistics are off. Every machine needs this package, and
the bundles in the same folders.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray

from app.bulk import manifest, places
from app.bulk.command import Translate
from app.bulk.pipeline import Finished, Job, translate_shards
from app.bulk.places import first_line
from app.bulk.rows import Row, Translated, row_windows, text_row, translate_rows
from app.bulk.shards import Shard
from app.cli.exit_codes import CANNOT_SERVE
from app.cli.offline_engine import Command, CommandError, Prepared, Report, Session, prepare, start_session
from app.engine.launch import WorkerProcess
from app.settings import PREFIX

MAX_WORKERS = 4
"""Cores of an actor unless --workers says otherwise: one front process feeds no more, see docs/scale.md."""
SHARDS_IN_FLIGHT = 3
"""Shards that an actor has at once, so that the end of one does not leave its workers idle."""
CONNECT_TIMEOUT_S = 10.0
"""Ray itself tries for minutes."""
MAX_RETRIES = 3
"""Times that a shard is tried again after its actor died."""


def on_cluster(address: str) -> Translate:
    """What translates shards on the cluster at `address`; "local" starts one on this machine."""

    async def translate(
        shards: list[Shard],
        job: Job,
        prepared: Prepared,
        finish: Callable[[Finished], None],
        advance: Callable[[int], None],
    ) -> None:
        with _connected(address):
            command = _everywhere(prepared.command, prepared.settings.bundles)
            is_on_gpu = prepared.config.device == "cuda"
            count, cores = _actors(command.workers, is_on_gpu)
            command = replace(command, workers=1 if is_on_gpu else cores)
            made_with = manifest.describe(prepared, job.column)
            actor = ray.remote(ShardTranslator).options(num_cpus=cores, num_gpus=int(is_on_gpu), max_restarts=-1)
            actors = [
                actor.remote(command, job.source.uri, job.target.uri, job.column, made_with)
                for _ in range(min(count, len(shards)))
            ]
            try:
                await _share_out(shards, actors, finish, advance)
            except ray.exceptions.RayError as error:
                cause = getattr(error, "cause", None)
                raise cause if isinstance(cause, CommandError) else _lost(error) from None
            finally:
                for each in actors:
                    ray.kill(each)

    return translate


def _lost(error: Exception) -> CommandError:
    return CommandError(CANNOT_SERVE, f"Ray: {str(error).strip().splitlines()[0]}")


async def _share_out(
    shards: list[Shard], actors: list[Any], finish: Callable[[Finished], None], advance: Callable[[int], None]
) -> None:
    """Gives each actor that runs its next shards, and those of an actor that died to any other: the cluster may have no
    place where it could be started again."""
    waiting = asyncio.Queue[Shard]()
    for shard in shards:
        waiting.put_nowait(shard)
    missing = len(shards)
    deaths = Counter[str]()
    """Of actors that had a shard, by its output."""
    all_done = asyncio.Event()

    async def work(actor: Any) -> None:
        nonlocal missing
        while True:
            await actor.wait_started.options(max_task_retries=-1).remote()
            shard = await waiting.get()
            try:
                done = await actor.translate.remote(shard)
            except ray.exceptions.RayActorError:
                deaths[shard.output] += 1
                if deaths[shard.output] > MAX_RETRIES:
                    raise
                waiting.put_nowait(shard)
                continue
            advance(done.report.texts)
            finish(done)
            missing -= 1
            if not missing:
                all_done.set()

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work(actor)) for _ in range(SHARDS_IN_FLIGHT) for actor in actors]
            await all_done.wait()
            for task in tasks:
                task.cancel()
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


class ShardTranslator:
    """An actor: translates shards through an engine of its own, and writes them."""

    def __init__(self, command: Command, source: str, target: str, column: str, made_with: manifest.Content) -> None:
        """`made_with`: what this machine must translate with, too."""
        self._arguments = command, source, target, column, made_with
        self._shards: queue.SimpleQueue[Shard] = queue.SimpleQueue()
        self._results: dict[str, asyncio.Future[Finished]] = {}
        self._work: asyncio.Task[None] | None = None

    async def wait_started(self) -> None:
        """Returns once this actor has its place in the cluster."""

    async def translate(self, shard: Shard) -> Finished:
        """Raises CommandError."""
        self._work = self._work or asyncio.create_task(self._run())
        result = self._results[shard.output] = asyncio.get_running_loop().create_future()
        self._shards.put(shard)
        await asyncio.wait([result, self._work], return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            self._work.result()  # raises
        done: Finished = result.result()
        return done

    async def _run(self) -> None:
        command, source, target, column, made_with = self._arguments
        prepared = prepare(command)
        node = f"the node {ray.util.get_node_ip_address()}"
        manifest.check_same(manifest.describe(prepared, column), made_with, f"{node} would translate")
        output = places.place(target)
        job = Job(places.place(source), output, column, partial(manifest.check, output, made_with))

        def finish(done: Finished) -> None:
            self._results.pop(done.shard.output).set_result(done)

        async with start_session(prepared, WorkerProcess) as session:
            await translate_shards(iter(self._shards.get, None), job, session, finish)


def processor(
    source: str,
    target: str,
    text: str = "text",
    *,
    glossary: str = "",
    markup: bool = False,
    bundles: str | None = None,
    workers: int = 1,
    concurrency: int | tuple[int, int] = 1,
    batch_size: int = 1024,
    preprocess: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    postprocess: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> Callable[[ray.data.Dataset], ray.data.Dataset]:
    """A function from Dataset to Dataset, as `ray.data.llm.build_processor` returns: adds `translation`, `score` and
    `warnings` to the rows, which keep their order if the context has `preserve_order`.

    `text`: the column to translate. `workers`: cores of an actor; `concurrency`: actors. `preprocess` and `postprocess`
    map rows before and after. A text that cannot be translated stays as it is; `warnings` says why.
    """
    command = Command(source, target, glossary=glossary, markup=markup, bundles=bundles, workers=workers)
    command = _everywhere(command, prepare(command).settings.bundles)  # refuses here what every actor would

    def process(dataset: ray.data.Dataset) -> ray.data.Dataset:
        if preprocess:
            dataset = dataset.map(preprocess)
        dataset = dataset.map_batches(
            BatchTranslator,
            fn_constructor_args=(command, text),
            batch_size=batch_size,
            batch_format="pyarrow",
            num_cpus=workers,
            concurrency=concurrency,
        )
        return dataset.map(postprocess) if postprocess else dataset

    return process


class BatchTranslator:
    """A worker of Ray Data, which translates batches of columns."""

    def __init__(self, command: Command, text: str) -> None:
        self._command, self._text = command, text
        self._stack = AsyncExitStack()
        self._session: asyncio.Task[Session] | None = None

    async def _open(self) -> Session:
        return await self._stack.enter_async_context(start_session(prepare(self._command), WorkerProcess))

    async def __call__(self, table: Any) -> AsyncIterator[Any]:
        """Yields the table with the new columns."""
        from app.bulk.parquet_format import check_columns, texts_of, with_translations

        check_columns(table.schema, self._text)
        self._session = self._session or asyncio.create_task(self._open())
        session = await self._session
        texts = texts_of(table.column(self._text).combine_chunks())
        rows = [Row(number) if each is None else text_row(number, each) for number, each in enumerate(texts)]
        report = Report(quiet=True, collect=True)
        windows = [translate_rows(window, session, report, "") for window in row_windows(rows)]
        done: list[Translated] = [row for window in await asyncio.gather(*windows) for row in window]
        yield with_translations(table, done)


def _everywhere(command: Command, bundles: Sequence[Path]) -> Command:
    """The command for other processes, whose current folder and environment differ."""
    glossary = Path(command.glossary)
    return replace(
        command,
        bundles=",".join(str(each.absolute()) for each in bundles),
        glossary=str(glossary.absolute()) if glossary.is_file() else command.glossary,
        memory=command.memory if command.memory in ("", "off") else str(Path(command.memory).absolute()),
    )


@contextmanager
def _connected(address: str) -> Iterator[None]:
    """Connects to the cluster, whose workers get our settings. Raises CommandError."""
    settings = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    try:
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if port.isdigit():  # "auto" and "local" have none
            socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S).close()
        ray.init(
            address=address,
            runtime_env={"env_vars": settings},
            logging_level=logging.ERROR,
            log_to_driver=False,
            include_dashboard=False if address == "local" else None,
        )
    except Exception as error:  # Ray raises Exception itself if a node does not start in time
        raise CommandError(CANNOT_SERVE, f"no Ray cluster at {address}: {first_line(error)}") from None
    try:
        yield
    finally:
        ray.shutdown()


def _actors(workers: int, is_on_gpu: bool) -> tuple[int, int]:
    """How many actors fit into the cluster, and the cores of each. Raises CommandError."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if is_on_gpu:
        count, cores = sum(int(node.get("GPU", 0)) for node in nodes), 1
    else:
        most = max((int(node.get("CPU", 0)) for node in nodes), default=0)
        cores = workers or max(1, min(MAX_WORKERS, most))
        count = sum(int(node.get("CPU", 0)) // cores for node in nodes)
    if not count:
        raise CommandError(CANNOT_SERVE, f"no node of the Ray cluster has {'a GPU' if is_on_gpu else f'{cores} cores'}")
    return count, cores
