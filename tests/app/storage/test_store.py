"""app/storage/store_local.py and app/storage/store_valkey.py: the contract of stores, and Valkey on a real server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from servers import WAIT_S
from store_server import StoreServer

from app.errors import StoreUnavailable
from app.runtime.rate_limits import Rate
from app.storage import store_connection, store_valkey
from app.storage.protocols import Kind, Record, Store, StoreFull
from app.storage.store_local import LocalStore
from app.storage.store_valkey import ValkeyStore

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("patient_stores")]
NOTES = Kind("notes", 3, 100)
SHORT = Kind("short", 3, 100, life_s=0.2)
_numbers = count()


class Stores(NamedTuple):
    """One store as two instances use it; in memory there is one instance alone."""

    new: Callable[[], Store]
    is_shared: bool

    def run(self, scenario: Callable[[Store, Store], Awaitable[None]]) -> None:
        async def within() -> None:
            first = self.new()
            second = self.new() if self.is_shared else first
            async with asyncio.timeout(WAIT_S):
                for each in (first, second):
                    await each.start()
                try:
                    await scenario(first, second)
                finally:
                    for each in (first, second):
                        await each.stop()

        asyncio.run(within())


@pytest.fixture(params=["memory", "valkey"])
def stores(request: pytest.FixtureRequest) -> Stores:
    """An empty store."""
    if request.param == "memory":
        return Stores(LocalStore, is_shared=False)
    url = f"{request.getfixturevalue('store_server').url}?prefix=test{next(_numbers)}"
    return Stores(lambda: ValkeyStore(url), is_shared=True)


# ---- Rates and counters


def test_rate_grants_its_burst_and_then_says_how_long_to_wait(stores: Stores) -> None:
    async def scenario(first: Store, second: Store) -> None:
        rate = Rate.parse("60/hour")
        assert [await each.take("a", rate, 30) for each in (first, second)] == [0, 0]
        assert 59 < await first.take("a", rate, 1) <= 60
        assert 1799 < await second.take("a", rate, 30) <= 1800
        assert [await each.used("a", rate) for each in (first, second)] == [60, 60]
        assert await first.used("b", rate) == 0
        assert await first.take("b", rate, 0) == await first.take("b", rate, 60) == 0

    stores.run(scenario)


def test_rate_is_restored_steadily(stores: Stores) -> None:
    async def scenario(first: Store, second: Store) -> None:
        rate, granted, loop = Rate.parse("200/second burst 10"), 0, asyncio.get_running_loop()
        began = loop.time()
        while granted < 60:
            if wait := await (first, second)[granted % 2].take("a", rate, 1):
                await asyncio.sleep(wait)
            else:
                granted += 1
        assert granted - 10 <= 200 * (loop.time() - began) + 1

    stores.run(scenario)


@pytest.mark.parametrize("text", ["1000000000000/day", "1/day", "7/second burst 3"])
def test_both_stores_grant_the_same(store_server: StoreServer, text: str) -> None:
    async def scenario() -> None:
        rate, valkey = Rate.parse(text), ValkeyStore(f"{store_server.url}?prefix=test{next(_numbers)}")
        await valkey.start()
        amounts = [1, rate.amount // 3, rate.amount, rate.amount - rate.amount // 3 - 1, 1]
        memory = LocalStore()
        for amount in amounts:
            waits = [await store.take("a", rate, amount) for store in (memory, valkey)]
            assert waits[0] == pytest.approx(waits[1], abs=1)
            assert (waits[0] == 0) == (waits[1] == 0)
        await valkey.stop()

    asyncio.run(scenario())


def test_counters_add_up_over_instances(stores: Stores) -> None:
    async def scenario(first: Store, second: Store) -> None:
        for _ in range(10):
            first.count("a", 5)
            second.count("a", 2)
        first.count("b", 1)
        assert await first.counted("b") == 1
        await first.counted("a")
        assert await second.counted("a") == 70
        assert await first.counted("none") == 0

    stores.run(scenario)


def test_counters_are_sent_without_being_asked_for(store_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_valkey, "SEND_INTERVAL_S", 0.01)

    async def scenario() -> None:
        url = f"{store_server.url}?prefix=test{next(_numbers)}"
        first, second = ValkeyStore(url), ValkeyStore(url)
        for each in (first, second):
            await each.start()
        first.count("a", 5)
        while await second.counted("a") != 5:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        first.count("a", 1)
        await first.stop()
        assert await second.counted("a") == 6
        await second.stop()

    asyncio.run(scenario())


# ---- Records


def test_record_is_read_with_the_fields_asked_for(stores: Stores) -> None:
    async def scenario(first: Store, second: Store) -> None:
        id = "ann/é\ud800 1"
        version = await first.put(NOTES, id, {"a": b"\0\xff", "b": b""}, 3)
        assert version
        assert await second.get(NOTES, id, "a", "b", "c") == Record(version, {"a": b"\0\xff", "b": b""})
        assert await second.get(NOTES, id, "b") == Record(version, {"b": b""})
        assert await second.version(NOTES, id) == version
        assert await second.versions(NOTES) == {id: version}
        assert await second.get(NOTES, "ann", "a") is None
        assert await second.version(NOTES, "ann") == 0
        assert await second.delete(NOTES, id)
        assert not await first.delete(NOTES, id)
        assert await first.get(NOTES, id, "a") is None
        assert await first.versions(NOTES) == {}

    stores.run(scenario)


def test_change_that_is_based_on_an_old_version_is_refused(stores: Stores) -> None:
    async def scenario(first: Store, second: Store) -> None:
        old = await first.put(NOTES, "a", {"a": b"1", "b": b"1"}, 2)
        assert old
        assert await second.put(NOTES, "a", {"a": b"2"}, 2) is None
        new = await second.put(NOTES, "a", {"a": b"3", "b": None}, 1, replaces=old)
        assert new
        assert new > old
        assert await first.put(NOTES, "a", {"a": b"4"}, 1, replaces=old) is None
        assert await first.put(NOTES, "none", {"a": b"4"}, 1, replaces=old) is None
        assert await first.get(NOTES, "a", "a", "b") == Record(new, {"a": b"3"})
        await first.delete(NOTES, "a")
        again = await first.put(NOTES, "a", {"a": b"5"}, 1)
        assert again
        assert again > new

    stores.run(scenario)


def test_of_many_writers_at_once_none_is_lost(stores: Stores) -> None:
    async def scenario(first: Store, second: Store) -> None:
        await first.put(NOTES, "a", {"n": b"0"}, 1)

        async def add(store: Store) -> None:
            done = None
            while done is None:
                record = await store.get(NOTES, "a", "n")
                assert record
                await asyncio.sleep(0)
                done = await store.put(NOTES, "a", {"n": b"%d" % (int(record.fields["n"]) + 1)}, 1, record.version)

        await asyncio.gather(*(add(each) for each in (first, second) for _ in range(10)))
        record = await first.get(NOTES, "a", "n")
        assert record
        assert record.fields["n"] == b"20"

    stores.run(scenario)


def test_records_are_limited_in_number_and_bytes(stores: Stores) -> None:
    async def scenario(first: Store, second: Store) -> None:
        versions = [await each.put(NOTES, id, {}, 30) for each, id in ((first, "a"), (second, "b"), (first, "c"))]
        with pytest.raises(StoreFull) as refused:
            await second.put(NOTES, "d", {}, 1)
        assert refused.value.scarce == "records"
        assert versions[0]
        with pytest.raises(StoreFull) as refused:
            await second.put(NOTES, "a", {"a": b"1"}, 41, versions[0])
        assert refused.value.scarce == "bytes"
        assert await first.get(NOTES, "a", "a") == Record(versions[0], {})
        assert await second.put(NOTES, "a", {}, 40, versions[0])
        await first.delete(NOTES, "b")
        assert await second.put(NOTES, "d", {}, 30)

    stores.run(scenario)


def test_records_that_may_go_make_room_oldest_first(stores: Stores) -> None:
    async def scenario(first: Store, second: Store) -> None:
        for id, keep_s in (("a", 0.0), ("b", None), ("c", 0.0)):
            await first.put(NOTES, id, {}, 30, keep_s=keep_s)
            await asyncio.sleep(0.002)  # the server's times are in milliseconds
        assert await second.put(NOTES, "d", {}, 30)
        assert (await first.versions(NOTES)).keys() == {"b", "c", "d"}
        with pytest.raises(StoreFull):
            await second.put(NOTES, "e", {}, 50)
        assert (await first.versions(NOTES)).keys() == {"b", "c", "d"}
        await first.delete(NOTES, "d")
        assert await second.put(NOTES, "e", {}, 60, keep_s=60.0)
        assert (await first.versions(NOTES)).keys() == {"b", "e"}
        with pytest.raises(StoreFull):
            await second.put(NOTES, "f", {}, 60)

    stores.run(scenario)


def test_record_expires_with_its_room_however_often_it_changes(stores: Stores) -> None:
    async def scenario(first: Store, second: Store) -> None:
        version = await first.put(SHORT, "a", {"a": b"1"}, 100)
        while version:
            await asyncio.sleep(0.01)
            version = await second.put(SHORT, "a", {"a": b"2"}, 100, version)
        assert await first.get(SHORT, "a", "a") is None
        assert await first.version(SHORT, "a") == 0
        assert await first.versions(SHORT) == {}
        assert await second.put(SHORT, "b", {}, 100)

    stores.run(scenario)


# ---- Leases


def test_record_is_claimed_once_and_first_come_first_served(stores: Stores) -> None:
    async def scenario(first: Store, second: Store) -> None:
        assert await first.claim(NOTES, "one", 60) is None
        for id in "ab":
            await first.put(NOTES, id, {}, 1)
            assert await second.claim(NOTES, "two", 60) is None
        for id in "ab":
            await first.offer(NOTES, id)
            await asyncio.sleep(0.002)
        await first.offer(NOTES, "none")
        assert await first.claim(NOTES, "one", 60) == "a"
        assert await second.claim(NOTES, "two", 60) == "b"
        assert await second.claim(NOTES, "two", 60) is None
        await second.offer(NOTES, "a")  # it has a holder
        assert await second.claim(NOTES, "two", 60) is None
        await first.offer(NOTES, "a", "one")
        assert await second.claim(NOTES, "two", 60) == "a"
        await second.withdraw(NOTES, "a", "two")
        assert not await second.renew(NOTES, "a", "two", 60)
        assert await first.claim(NOTES, "one", 60) is None

    stores.run(scenario)


def test_lapsed_lease_goes_to_another_holder_and_a_renewed_one_does_not(stores: Stores) -> None:
    async def scenario(first: Store, second: Store) -> None:
        await first.put(NOTES, "a", {}, 1)
        await first.offer(NOTES, "a")
        assert await first.claim(NOTES, "one", 0.001) == "a"
        assert await first.renew(NOTES, "a", "one", 60)
        await asyncio.sleep(0.01)
        assert await second.claim(NOTES, "two", 60) is None
        assert await first.renew(NOTES, "a", "one", 0.001)
        await asyncio.sleep(0.01)
        assert await second.claim(NOTES, "two", 60) == "a"
        assert not await first.renew(NOTES, "a", "one", 60)
        await first.withdraw(NOTES, "a", "one")
        assert await second.renew(NOTES, "a", "two", 60)
        await second.delete(NOTES, "a")
        assert not await second.renew(NOTES, "a", "two", 60)

    stores.run(scenario)


def test_expired_record_cannot_be_claimed(stores: Stores) -> None:
    async def scenario(first: Store, second: Store) -> None:
        await first.put(SHORT, "a", {}, 1)
        await first.offer(SHORT, "a")
        while await first.version(SHORT, "a"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await second.claim(SHORT, "two", 60) is None

    stores.run(scenario)


# ---- The server


def test_every_key_in_the_server_has_the_prefix_and_expires(store_server: StoreServer) -> None:
    kind = Kind("notes", 3, 100, life_s=600)
    prefix = f"test{next(_numbers)}"

    async def scenario() -> None:
        store = ValkeyStore(f"{store_server.url}?prefix={prefix}")
        await store.start()
        await store.take("a", Rate.parse("5/hour"), 1)
        store.count("a", 1)
        await store.counted("a")
        await store.put(kind, "a", {"a": b"text"}, 1, keep_s=0.0)
        await store.offer(kind, "a")
        await store.claim(kind, "one", 60)
        await store.stop()

    before = set(store_server.ask("KEYS", "*").split())
    asyncio.run(scenario())
    keys = [key.decode() for key in set(store_server.ask("KEYS", "*").split()) - before if key[:1].isalpha()]
    assert len(keys) == 10
    for key in keys:
        assert key.startswith(f"{prefix}:")
        assert not store_server.ask("PTTL", key).startswith(b":-1"), key


def test_all_operations_of_one_pass_go_in_one_pipeline(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = list[int]()
    execute = store_connection.Connection.execute

    async def counting(connection: store_connection.Connection, commands: list[tuple[object, ...]]) -> list[object]:
        sizes.append(len(commands))
        return await execute(connection, commands)

    async def scenario() -> None:
        store = ValkeyStore(store_server.url)
        await store.start()
        monkeypatch.setattr(store_connection.Connection, "execute", counting)
        await asyncio.gather(*(store.take(f"m{n}", Rate.parse("5/second"), 1) for n in range(50)))
        await store.stop()

    asyncio.run(scenario())
    assert sizes == [50]


def test_server_that_forgets_its_scripts_gets_them_again(store_server: StoreServer) -> None:
    async def scenario() -> None:
        store = ValkeyStore(f"{store_server.url}?prefix=test{next(_numbers)}")
        await store.start()
        store_server.ask("SCRIPT", "FLUSH")
        rate = Rate.parse("5/hour")
        assert await asyncio.gather(*(store.take("a", rate, 1) for _ in range(5))) == [0] * 5
        assert await store.take("a", rate, 1) > 0
        await store.stop()

    asyncio.run(scenario())


def test_restart_between_two_operations_is_not_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(server: StoreServer) -> None:
        store, rate = ValkeyStore(server.url), Rate.parse("2/hour")
        await store.start()
        for _ in range(2):
            assert await store.take("a", rate, 2) == 0
            assert await store.put(NOTES, "a", {}, 1)
            assert await store.put(NOTES, "a", {}, 1) is None
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        await store.stop()

    with caplog.at_level(logging.WARNING), StoreServer(tmp_path) as server:
        asyncio.run(scenario(server))
    assert caplog.messages == []


@pytest.mark.parametrize("way", ["killed", "paused"])
def test_without_the_server_rates_are_local_and_the_rest_unavailable_until_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    gauge = list[bool]()
    monkeypatch.setattr(store_connection, "URGENT_TIMEOUT_S", 0.05)
    for name, seconds in {"PROBE_INTERVAL_S": 0.01, "TIMEOUT_S": 0.5, "BULK_TIMEOUT_S": 0.5}.items():
        monkeypatch.setattr(store_valkey, name, seconds)

    async def scenario(server: StoreServer) -> None:
        store = ValkeyStore(server.url, gauge.append)
        await store.start()
        rate = Rate.parse("2/hour")
        await store.take("a", rate, 2)
        assert await store.take("a", rate, 1) > 0
        store.count("a", 3)
        assert await store.counted("a") == 3
        await asyncio.to_thread(server.kill if way == "killed" else server.pause)
        assert [await store.take("a", rate, 1) > 0 for _ in range(3)] == [False, False, True]
        for _ in range(2):
            with pytest.raises(StoreUnavailable) as refused:
                await store.get(NOTES, "a")
            assert refused.value.retry_after_s
        with pytest.raises(StoreUnavailable):
            store.check()
        store.count("a", 4)
        assert await store.used("a", rate) == 2
        await asyncio.to_thread(server.start if way == "killed" else server.go_on)
        while not gauge[-1]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await store.counted("a") == (4 if way == "killed" else 7)
        assert await store.put(NOTES, "a", {}, 1)
        await store.stop()

    with caplog.at_level(logging.WARNING), StoreServer(tmp_path) as server:
        asyncio.run(scenario(server))
    assert gauge == [True, False, True]
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_password_is_needed_and_stays_out_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(port: int, password: str) -> bool:
        store = ValkeyStore(f"redis://:{password}@127.0.0.1:{port}/1")
        await store.start()
        try:
            return await store.put(NOTES, "a", {}, 1) is not None
        except StoreUnavailable:
            return False
        finally:
            await store.stop()

    with StoreServer(tmp_path, "--requirepass", "secret-word") as server:
        assert asyncio.run(scenario(server.port, "secret-word"))
        assert not asyncio.run(scenario(server.port, "wrong-word"))
    assert len(caplog.messages) == 1
    assert "word" not in caplog.text.replace("password", "")


def test_store_that_is_not_there_at_the_start_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_valkey, "PROBE_INTERVAL_S", 0.01)

    async def scenario(server: StoreServer) -> None:
        available = asyncio.Event()
        store = ValkeyStore(server.url, lambda is_available: available.set() if is_available else None)
        await store.start()
        with pytest.raises(StoreUnavailable):
            await store.versions(NOTES)
        await asyncio.to_thread(server.start)
        await available.wait()
        assert await store.versions(NOTES) == {}
        await store.stop()

    with StoreServer(tmp_path) as server:
        server.kill()
        asyncio.run(scenario(server))


def test_full_server_is_unavailable_and_keeps_what_it_has(tmp_path: Path) -> None:
    large = Kind("large", 100, 1 << 30)

    async def scenario(server: StoreServer) -> None:
        store = ValkeyStore(server.url)
        await store.start()
        assert await store.put(large, "a", {"a": b"x" * 500_000}, 500_000)

        async def fill() -> None:
            for number in range(10):
                await store.put(large, str(number), {"a": b"x" * 500_000}, 500_000)

        with pytest.raises(StoreUnavailable):
            await fill()
        await store.stop()

    with StoreServer(tmp_path, "--maxmemory", "3mb") as server:
        asyncio.run(scenario(server))
        assert server.ask("EXISTS", "interlinear:large:record:a").startswith(b":1")
