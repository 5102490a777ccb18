"""docs/ray.md and deploy/kubernetes/ray/: the commands of docs/ray.md, and what KubeRay does with
deploy/kubernetes/ray, on one node in the network namespace that `make scale-test` makes: `ray start`, and the
configuration to the head's HTTP API."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from servers import WAIT_S, becomes

from benchmarks.balancer import is_ready
from benchmarks.ray_cluster import PORT, end_processes, is_isolated, replicas, workers

pytestmark = pytest.mark.ray

ROOT = Path(__file__).resolve().parents[2]
SERVICE: dict[str, Any] = yaml.safe_load((ROOT / "deploy/kubernetes/ray/rayservice.yaml").read_text(encoding="utf-8"))
RAY, SERVE = [[sys.executable, "-m", f"ray.{name}"] for name in ("scripts.scripts", "serve.scripts")]


@pytest.fixture(scope="module")
def head() -> Iterator[subprocess.Popen[bytes]]:
    """A node with the parameters of the manifest, and the cores of both its workers."""
    assert is_isolated(), "Ray listens on all interfaces: run this by make scale-test"
    [group] = SERVICE["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    parameters = {
        **group["rayStartParams"],
        "num-cpus": int(group["rayStartParams"]["num-cpus"]) * group["minReplicas"],
    }
    options = [f"--{name}={value}" for name, value in parameters.items()]
    with subprocess.Popen(
        [*RAY, "start", "--head", "--block", *options], cwd=ROOT, stdout=subprocess.DEVNULL
    ) as process:
        yield process
        process.terminate()
    end_processes()


def test_configuration_of_the_manifest_serves_as_many_replicas_as_it_names(
    head: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    text = SERVICE["spec"]["serveConfigV2"]
    (tmp_path / "serve.yaml").write_text(text)

    def is_deployed() -> bool:
        assert head.poll() is None, "Ray has ended"
        return subprocess.run([*SERVE, "deploy", str(tmp_path / "serve.yaml")], capture_output=True).returncode == 0

    assert becomes(is_deployed)  # the head's HTTP API is not there at once
    [deployment] = yaml.safe_load(text)["applications"][0]["deployments"]
    count, cores = deployment["autoscaling_config"]["min_replicas"], deployment["ray_actor_options"]["num_cpus"]
    assert becomes(lambda: len(replicas()) == count and is_ready(PORT))
    assert becomes(lambda: [len(workers(each)) for each in replicas()] == [cores - 1] * count)
    hello = {"text": "Hello.", "source": "en", "target": "fr"}
    assert httpx.post(f"http://127.0.0.1:{PORT}/translate", json=hello, timeout=WAIT_S).status_code == 200
    said = subprocess.run([*SERVE, "status"], capture_output=True, text=True).stdout
    assert "HEALTHY" in said
