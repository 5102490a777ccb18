"""Replicas on a cluster of Ray, with HAProxy, in the network namespace that `make scale-test` makes: killed, hung,
updated, added and removed under load, and asked by clients of all kinds."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import torch
from servers import WAIT_S, becomes
from store_server import StoreServer

from app.cluster.ray_variables import EXPECTED
from benchmarks.ray_cluster import HANG_VARIABLE, PORT, is_isolated, processes, ray_service, replicas, workers
from benchmarks.scale import Work, prepare
from benchmarks.scale_ray import SCENARIOS, SETTINGS, Cluster, Scenario, run_scenario

pytestmark = pytest.mark.ray

ROOT = Path(__file__).resolve().parents[2]
URL = f"http://127.0.0.1:{PORT}"
HELLO = {"text": "Hello.", "source": "en", "target": "fr"}
REQUESTS, CLIENTS = 400, 8


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    assert is_isolated(), "Ray listens on all interfaces: run this by make scale-test"
    with torch.random.fork_rng():
        return prepare(ROOT / "bundles/en-fr", None, tmp_path_factory.mktemp("work"))


@pytest.fixture(scope="module")
def cluster(work: Work, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    bundles = tmp_path_factory.mktemp("ray") / "bundles"
    shutil.copytree(work.bundle, bundles.with_name("first"))
    shutil.copytree(work.bundle, bundles / "bundle")
    with ray_service(bundles, SETTINGS) as service:
        cluster = Cluster(service, bundles, work.update)
        cluster.deploy(2)
        yield cluster


def logs() -> str:
    """All that Ray and the replicas have logged."""
    import ray

    folder = Path(ray._private.worker._global_node.get_logs_dir_path())
    return "".join(file.read_text(errors="replace") for file in folder.rglob("*") if file.is_file())


def test_replica_has_a_worker_for_each_core_but_one_of_what_ray_assigns(cluster: Cluster) -> None:
    assert [len(workers(replica)) for replica in replicas()] == [1, 1]


def test_answer_has_one_request_id_and_no_name_of_a_server(cluster: Cluster) -> None:
    response = httpx.post(f"{URL}/translate", json=HELLO, headers={"X-Request-ID": "mine"})
    assert response.status_code == 200
    [request_id] = response.headers.get_list("x-request-id")
    assert re.fullmatch("[0-9a-f]{16}", request_id)
    assert "server" not in response.headers
    assert becomes(lambda: f'"id":"{request_id}"' in logs())


def test_no_log_of_ray_has_the_address_of_a_client(cluster: Cluster) -> None:
    with socket.create_connection(("127.0.0.1", PORT), source_address=("127.7.7.7", 0)) as client:
        client.sendall(b"GET /models HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 10.77.77.77\r\nConnection: close\r\n\r\n")
        assert client.recv(1 << 10).startswith(b"HTTP/1.1 200")
    httpx.get(f"{URL}/health")
    assert becomes(lambda: '"route":"/health"' in logs())
    assert "127.7.7.7" not in logs()
    assert "10.77.77.77" not in logs()


def test_replica_says_in_a_line_which_variable_of_ray_is_wrong(cluster: Cluster) -> None:
    assert set(re.findall(r'"message": "(\w+)(?:=[^"]*)? should be', logs())) == {HANG_VARIABLE}
    assert HANG_VARIABLE in EXPECTED


def test_haproxy_runs_with_our_changes_to_its_configuration(cluster: Cluster) -> None:
    commands = [Path(f"/proc/{each}/cmdline").read_text().split("\0") for each in processes("") if is_haproxy(each)]
    assert commands
    for command in commands:
        text = Path(command[command.index("-f") + 1]).read_text()
        assert "option http-buffer-request" in text
        assert "http-request disable-l7-retry" in text
        assert "errorfile" not in text


def is_haproxy(process: int) -> bool:
    """Whether its program is HAProxy."""
    try:
        return Path(f"/proc/{process}/exe").readlink().name == "haproxy"
    except OSError:
        return False


def test_stream_of_sentences_passes_piece_by_piece(cluster: Cluster) -> None:
    body = {"text": " ".join(f"The house {number} is big." for number in range(300)), "source": "en", "target": "fr"}
    with httpx.stream("POST", f"{URL}/translate/stream", json=body, timeout=WAIT_S) as response:
        pieces = list(response.iter_raw())
    assert response.status_code == 200
    assert len(pieces) > 1


def test_refusals_of_the_service_pass_unchanged(cluster: Cluster) -> None:
    with httpx.Client(base_url=URL, timeout=WAIT_S) as client:
        missing = client.get("/nothing")
        large = client.post("/translate", content=b"{" + b" " * (2 << 20), headers={"Content-Type": "application/json"})
    assert [missing.status_code, large.status_code] == [404, 413]
    assert missing.headers["content-type"] == large.headers["content-type"] == "application/problem+json"


def test_each_replica_serves_metrics_on_its_own_port(cluster: Cluster) -> None:
    ports = replica_ports()
    assert len(ports) == 2
    for port in ports:
        assert "interlinear_load " in httpx.get(f"http://127.0.0.1:{port}/metrics").text


def replica_ports() -> list[int]:
    """The ports on which replicas listen."""
    found = []
    for port in range(30_000, 30_020):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                found.append(port)
    return found


def test_ray_refuses_who_has_no_token(cluster: Cluster) -> None:
    program = f"import ray; ray.init('{cluster.service.cluster.address}'); print('connected')"
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "f" * 64}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode != 0
    assert "connected" not in done.stdout


def test_usage_statistics_are_off(cluster: Cluster) -> None:
    from ray._common.usage.usage_lib import usage_stats_enabled

    assert not usage_stats_enabled()


def test_bundle_that_is_refused_leaves_the_replicas_as_they_are(cluster: Cluster) -> None:
    before = replicas()
    sums = cluster.bundles / "bundle" / "SHA256SUMS"
    kept = sums.read_text()
    sums.write_text("0" * 8 + kept[8:])
    try:
        cluster.deploy(2, user_config={"bundles": "broken"})
        assert becomes(lambda: logs().count("keeping the bundles that are being served") >= 2)
    finally:
        sums.write_text(kept)
    assert replicas() == before
    assert httpx.post(f"{URL}/translate", json=HELLO).status_code == 200


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_no_request_is_lost_answered_twice_or_changed(cluster: Cluster, work: Work, scenario: Scenario) -> None:
    rows = run_scenario(scenario, cluster, REQUESTS, CLIENTS, work)
    assert sum(row.answered for row in rows) >= REQUESTS
    assert [(row.refused, row.lost, row.twice, row.changed) for row in rows] == [(0, 0, 0, 0)] * len(rows)


def test_forged_address_gives_no_new_rate(cluster: Cluster, tmp_path: Path) -> None:
    """Last, since it spends the rate."""
    with StoreServer(tmp_path) as store:
        rates = {"rate_requests": "10/hour", "trusted_proxies": "10.0.0.1", "store": store.url}
        cluster.service.arguments |= rates
        cluster.version += 1
        cluster.deploy(2)
        forged = [{"X-Forwarded-For": f"1.2.3.{number}"} for number in range(60)]
        statuses = [httpx.post(f"{URL}/translate", json=HELLO, headers=each).status_code for each in forged]
    assert set(statuses) == {200, 429}
    # A replica counts alone while the store is late.
    assert 10 <= statuses.count(200) <= 3 * 10
