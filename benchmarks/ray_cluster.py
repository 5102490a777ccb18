"""A cluster of Ray on this machine, as `ray.cluster_utils` makes it for tests, with a head without cores and two nodes,
and the service on it. Ray listens on all interfaces, so everything runs in a network namespace with loopback alone.

    python -m benchmarks.ray_cluster pytest -m ray -W ignore    # any module, in such a namespace
"""

from __future__ import annotations

import atexit
import contextlib
import csv
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from app.cluster.autoscaling import LOAD, Context, by_load
from app.cluster.ray_variables import EXPECTED, REQUIRED
from benchmarks.balancer import children, family, is_ready, wait_for

ROOT = Path(__file__).resolve().parent.parent
PORT = 8000
NAME = "interlinear"
NODE_CPUS, REPLICA_CPUS = 4, 2
START_TIMEOUT_S = 300.0
HANG_VARIABLE, HANG_TIMEOUT_S = "RAY_SERVE_HAPROXY_TIMEOUT_SERVER_S", 30
"""HAProxy's time limit for a replica that hangs, and its value here; elsewhere it is 80 s."""
START_ATTEMPTS = 5
SATURATED_LOAD = 0.6
"""The least load that a saturated replica reports here. Its front and its worker share a core, so that each waits while
the other runs, and neither looks saturated; and no request is refused, which would show that it is."""
_ISOLATED = "INTERLINEAR_BENCHMARK_FOLDER"


def isolate(module: str, arguments: Sequence[str]) -> None:
    """Runs `module` in place of this program, in a network namespace of its own and with the variables of Ray that
    docs/ray.md lists, but for a shorter time limit; returns if this is that program."""
    if is_isolated():
        return
    folder = tempfile.mkdtemp(prefix="ray")  # short: Ray's sockets are in it, whose paths may have 107 characters
    (Path(folder) / "token").write_text(secrets.token_hex(32))
    variables = {**REQUIRED, **{name: value for name, (value, _) in EXPECTED.items()}}
    paths = {
        "RAY_TMPDIR": folder,
        "RAY_AUTH_TOKEN_PATH": f"{folder}/token",
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": f"{folder}/haproxy.cfg",
        "RAY_SERVE_HAPROXY_SOCKET_PATH": f"{folder}/admin.sock",
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": folder,
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": f"{folder}/server-state",
        "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": f"{folder}/metrics.sock",
        "PYTHONPATH": str(ROOT),
        HANG_VARIABLE: str(HANG_TIMEOUT_S),
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "5",  # 30 otherwise: it only takes longer
        "RAY_worker_niceness": "0",  # other programs on the machine would go first
        "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",  # after 5 s otherwise, Ray kills it, on a busy machine too
        "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60",
        "RAY_SERVE_HAPROXY_STARTUP_TIMEOUT_S": "120",
        _ISOLATED: folder,
    }
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    in_it = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, "-m", module, *arguments]
    command = ["unshare", "--net", *rights, *in_it]
    os.execvpe(command[0], command, {**os.environ, **variables, **paths})


class RayCluster:
    """A head without cores, and two nodes."""

    def __init__(self, cpus: int) -> None:
        """`cpus`: of each node."""
        from ray.cluster_utils import Cluster

        atexit.register(shutil.rmtree, os.environ[_ISOLATED], ignore_errors=True)
        self._cpus = cpus
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        self.nodes = [self.add_node(), self.add_node()]

    def add_node(self) -> Any:
        """Raises TimeoutError."""
        for _ in range(START_ATTEMPTS):
            # Ray raises Exception itself after 30 s, which a busy machine may take.
            with contextlib.suppress(Exception):
                return self.cluster.add_node(num_cpus=self._cpus)
        raise TimeoutError("no node of Ray starts")

    def stop(self) -> None:
        """Ends all processes in this network namespace, too."""
        self.cluster.shutdown()
        end_processes()


class RayService(RayCluster):
    """The service on a cluster, with its bundles in the folder `bundles`."""

    def __init__(self, bundles: Path, settings: Mapping[str, object]) -> None:
        """Starts the cluster without the service."""
        super().__init__(NODE_CPUS)
        import ray
        from ray import serve

        self.arguments = {"bundles": str(bundles), **settings}
        ray.init(address=self.cluster.address, log_to_driver=False, logging_level="ERROR")
        serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": PORT})

    def deploy(self, replicas: int = 0, version: int = 1, **options: Any) -> None:
        """Deploys, as `serve deploy` does, and waits until all replicas run. `version`: another one replaces them.
        `options`: of the deployment, with the configuration of autoscaling if `replicas` is 0."""
        from app.replica import DEPLOYMENT

        autoscaling = {"min_replicas": replicas, "max_replicas": replicas} if replicas else {}
        autoscaling |= options.pop("autoscaling_config", {})
        from ray.serve.context import _get_global_client
        from ray.serve.schema import ServeDeploySchema

        deployment = {"name": NAME, "ray_actor_options": {"num_cpus": REPLICA_CPUS}, **options}
        deployment["autoscaling_config"] = {**DEPLOYMENT["autoscaling_config"], **autoscaling}
        application = {
            "name": NAME,
            "route_prefix": "/",
            "import_path": "app.replica:application",
            "args": self.arguments,
            "runtime_env": {"env_vars": {"INTERLINEAR_BENCHMARK_VERSION": str(version)}},
            "deployments": [deployment],
        }
        config = {"proxy_location": "HeadOnly", "applications": [application]}
        _get_global_client().deploy_apps(ServeDeploySchema.model_validate(config), _blocking=False)
        self.wait_until_running(replicas or None)

    def wait_until_running(self, replicas: int | None = None) -> None:
        """Waits until the deployment is as it should be, with `replicas` running. Raises RuntimeError if it fails."""

        def is_running() -> bool:
            from ray import serve

            status = serve.status().applications.get(NAME)
            if status is None:
                return False
            if status.status == "DEPLOY_FAILED":
                raise RuntimeError(f"the service does not start: {status.message}")
            return status.status == "RUNNING" and (replicas is None or self.running() == replicas)

        wait_for(is_running, "the replicas do not run", START_TIMEOUT_S)
        wait_for(
            lambda: is_ready(PORT) and (replicas is None or len(healthy_replicas()) == replicas),
            "HAProxy sends no request to the replicas",
            START_TIMEOUT_S,
        )

    def running(self) -> int:
        """The number of replicas that run."""
        from ray import serve

        deployment = serve.status().applications[NAME].deployments.get(NAME)
        return deployment.replica_states.get("RUNNING", 0) if deployment else 0

    def stop(self) -> None:
        import ray
        from ray import serve

        with contextlib.suppress(Exception):  # it may have been killed
            serve.shutdown()
        ray.shutdown()
        super().stop()


def healthy_replicas() -> list[str]:
    """The replicas to which HAProxy sends requests; none while it starts."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        try:
            # The head has the only one: proxy_location is HeadOnly.
            connection.connect(str(next(Path(os.environ[_ISOLATED]).glob("*/admin.sock"))))
            connection.sendall(b"show stat\n")
            table = b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()
        except (OSError, StopIteration):
            return []
    rows = csv.DictReader(table.removeprefix("# ").splitlines())
    return [row["svname"] for row in rows if "SERVE_REPLICA" in row["svname"] and row["status"].startswith("UP")]


def by_load_on_shared_cores(context: Context) -> tuple[int, dict[str, Any]]:
    """The policy of the service, for loads of which SATURATED_LOAD is the highest."""
    series = (context.raw_metrics or {}).get(LOAD, {})
    scaled = {
        replica: [SimpleNamespace(value=samples[-1].value / SATURATED_LOAD)]
        for replica, samples in series.items()
        if samples
    }
    fields = ("current_num_replicas", "target_num_replicas", "current_time", "last_scale_up_time", "policy_state")
    known = {name: getattr(context, name) for name in fields}
    return by_load(SimpleNamespace(**known, raw_metrics={LOAD: scaled}))


def processes(title: str) -> list[int]:
    """Ids of the processes of this network namespace whose title begins with `title`."""
    found = []
    ours = os.readlink("/proc/self/ns/net")
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cmdline").read_bytes().startswith(title.encode()) and os.readlink(entry / "ns/net") == ours:
                found.append(int(entry.name))
    return sorted(found)


def replicas() -> list[int]:
    return processes(f"ray::ServeReplica:{NAME}")


def workers(replica: int) -> list[int]:
    """The engine's workers of a replica, or of none if it has ended."""
    return [child for child in children(replica) if b"app.engine.worker" in _command(child)]


def _command(process: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def kill_tree(process: int) -> None:
    """SIGKILL of a process and all its descendants."""
    for member in family(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)


def raylet(node: Any) -> int:
    """The process of a node, whose children all others of the node are."""
    [found] = node.all_processes["raylet"]
    process: int = found.process.pid
    return process


@contextlib.contextmanager
def ray_service(bundles: Path, settings: Mapping[str, object]) -> Iterator[RayService]:
    service = RayService(bundles, settings)
    try:
        yield service
    finally:
        service.stop()


def end_processes() -> None:
    """Kills what is left in this network namespace."""
    for process in processes(""):
        if process not in (os.getpid(), os.getppid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def until(condition: Callable[[], bool], failure: str) -> None:
    wait_for(condition, failure, START_TIMEOUT_S)


def is_isolated() -> bool:
    return _ISOLATED in os.environ


if __name__ == "__main__":
    isolate(sys.argv[1], sys.argv[2:])
