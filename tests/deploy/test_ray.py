"""deploy/ and app/cluster/: the files with which Ray runs the service: the same in all places, and true to the
code. Without Ray."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cluster import autoscaling
from app.cluster.ray_variables import EXPECTED, REQUIRED
from app.settings import PREFIX, Settings

ROOT = Path(__file__).resolve().parents[2]
RAY, KUBERNETES = ROOT / "deploy/ray", ROOT / "deploy/kubernetes/ray"
VARIABLES = {**REQUIRED, **{name: value for name, (value, _) in EXPECTED.items()}}
SERVE = yaml.safe_load((RAY / "serve.yaml").read_text(encoding="utf-8"))
SERVICE: dict[str, Any] = yaml.safe_load((KUBERNETES / "rayservice.yaml").read_text(encoding="utf-8"))
CLUSTER = SERVICE["spec"]["rayClusterConfig"]
GROUPS = [CLUSTER["headGroupSpec"], *CLUSTER["workerGroupSpecs"]]
PODS = [group["template"]["spec"] for group in GROUPS]
CONTAINERS = [container for pod in PODS for container in pod["containers"]]


def test_file_of_variables_has_what_a_replica_compares() -> None:
    lines = (RAY / "ray.env").read_text(encoding="utf-8").splitlines()
    program = Path(VARIABLES["RAY_SERVE_HAPROXY_BINARY_PATH"]).relative_to(ROOT)
    workdir = re.findall(r"^WORKDIR (\S+)$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.M)[-1]
    in_image = {**VARIABLES, "RAY_SERVE_HAPROXY_BINARY_PATH": f"{workdir}/{program}"}
    assert dict(line.split("=", 1) for line in lines if not line.startswith("#")) == in_image


@pytest.mark.slow
def test_shell_gets_the_same_variables() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "app.cluster.ray_variables"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    words = [shlex.split(line) for line in said.splitlines()]
    assert all(command == "export" for command, _ in words)
    assert dict(word.split("=", 1) for _, word in words) == VARIABLES


def test_kubernetes_serves_the_same_configuration() -> None:
    assert yaml.safe_load(SERVICE["spec"]["serveConfigV2"]) == SERVE


def test_configuration_names_what_the_code_has() -> None:
    [application] = SERVE["applications"]
    module, name = application["import_path"].split(":")
    source = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    assert name in {node.name for node in source.body if isinstance(node, ast.FunctionDef)}
    assert set(application["args"]) <= set(Settings.model_fields)
    [deployment] = application["deployments"]
    module, name = deployment["autoscaling_config"]["policy"]["policy_function"].split(":")
    assert getattr(sys.modules[module], name) is autoscaling.by_load


def test_replica_fits_into_a_pod_and_pods_into_the_replicas_wanted() -> None:
    [deployment] = SERVE["applications"][0]["deployments"]
    [workers] = CLUSTER["workerGroupSpecs"]
    [container] = workers["template"]["spec"]["containers"]
    cores = str(deployment["ray_actor_options"]["num_cpus"])
    assert workers["rayStartParams"]["num-cpus"] == container["resources"]["limits"]["cpu"] == cores
    wanted = deployment["autoscaling_config"]
    assert (workers["minReplicas"], workers["maxReplicas"]) == (wanted["min_replicas"], wanted["max_replicas"])
    assert CLUSTER["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"


def test_every_pod_gets_the_variables() -> None:
    [kustomization] = yaml.safe_load_all((RAY / "kustomization.yaml").read_text(encoding="utf-8"))
    [generated] = kustomization["configMapGenerator"]
    assert (RAY / generated["envs"][0]).is_file()
    assert [container["envFrom"] for container in CONTAINERS] == [[{"configMapRef": {"name": generated["name"]}}]] * 2


def test_kustomize_finds_the_names_in_a_ray_service() -> None:
    names = yaml.safe_load((KUBERNETES / "names.yaml").read_text(encoding="utf-8"))
    for field in [*names["images"], *names["nameReference"][0]["fieldSpecs"]]:
        assert field["kind"] == SERVICE["kind"]
        place: Any = SERVICE
        for part in field["path"].split("/"):
            place = place[0][part] if isinstance(place, list) else place[part]
        assert isinstance(place, str) or part == "name"


def test_every_setting_exists() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in [*RAY.iterdir(), *KUBERNETES.iterdir()])
    named = re.findall(rf"{PREFIX}(\w+)", text)
    assert "PRECISION" in named
    assert {name.lower() for name in named} <= set(Settings.model_fields)


def test_clients_reach_the_port_of_the_configuration_and_no_other() -> None:
    policy, _ = yaml.safe_load_all((KUBERNETES / "network.yaml").read_text(encoding="utf-8"))
    for_all = [rule for rule in policy["spec"]["ingress"] if "from" not in rule]
    assert for_all == [{"ports": [{"port": SERVE["http_options"]["port"]}]}]
    labels = policy["spec"]["podSelector"]["matchLabels"].items()
    assert all(labels <= group["template"]["metadata"]["labels"].items() for group in GROUPS)


@pytest.mark.parametrize("pod", PODS, ids=["head", "worker"])
def test_pods_have_few_rights_and_time_to_finish(pod: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"]
    assert f"\nUSER {pod['securityContext']['runAsUser']}\n" in (RAY / "Dockerfile").read_text(encoding="utf-8")
    [container] = pod["containers"]
    rights = container["securityContext"]
    assert (rights["readOnlyRootFilesystem"], rights["allowPrivilegeEscalation"]) == (True, False)
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert pod["terminationGracePeriodSeconds"] > 60 + int(container["lifecycle"]["preStop"]["exec"]["command"][-1])
    # All that Ray writes to: its home and /tmp/ray are below the one, its object store is the other.
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/tmp", "/dev/shm"}


def test_image_has_what_ray_and_kuberay_need() -> None:
    dockerfile = (RAY / "Dockerfile").read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert any(re.match(r"ray\[(data,)?serve\]", requirement) for requirement in extras["ray"])
    assert "['optional-dependencies']['ray']" in dockerfile
    assert re.search(r"install -y --no-install-recommends bash wget", dockerfile)
    assert "HOME=/tmp/" in dockerfile
    assert all(container["image"] == "interlinear:ray" for container in CONTAINERS)
    assert "-t interlinear:ray -f deploy/ray/Dockerfile ." in dockerfile


def test_usage_statistics_are_off_and_a_token_is_asked_for() -> None:
    assert (VARIABLES["RAY_USAGE_STATS_ENABLED"], VARIABLES["RAY_AUTH_MODE"]) == ("0", "token")
    assert CLUSTER["authOptions"] == {"mode": "token"}


def test_accesses_are_not_logged_by_ray_or_haproxy() -> None:
    assert SERVE["logging_config"] == {"enable_access_log": False}
    # What Ray writes after it, "local0 info", becomes a comment of HAProxy's configuration.
    assert re.fullmatch(r"\S+ local0 warning #", VARIABLES["RAY_SERVE_HAPROXY_LOG_TARGET"])


@pytest.mark.skipif(not shutil.which("haproxy"), reason="HAProxy is not installed")
def test_program_in_place_of_haproxy_changes_what_ray_has_no_variable_for(tmp_path: Path) -> None:
    """The form is that of Ray 2.60; tests/app/test_replica.py has Ray itself."""
    file = tmp_path / "haproxy.cfg"
    file.write_text(
        "defaults\n    mode http\n    timeout connect 5s\n    timeout client 80s\n    timeout server 80s\n"
        f"    errorfile 503 {tmp_path}/500.http\nfrontend http_frontend\n    bind 127.0.0.1:8000\n"
        "    use_backend http-interlinear if { path_beg / }\n"
        "backend http-interlinear\n    # Enable HTTP connection reuse for better performance\n    http-reuse always\n"
        "    server replica 127.0.0.1:30000 check\n"
    )
    checked = subprocess.run([VARIABLES["RAY_SERVE_HAPROXY_BINARY_PATH"], "-c", "-f", str(file)], capture_output=True)
    assert checked.returncode == 0, checked.stderr
    lines = [line.strip() for line in file.read_text().splitlines()]
    assert lines[:4] == ["defaults", "option http-buffer-request", "timeout check 5s", "timeout http-request 80s"]
    assert not any(line.startswith("errorfile") for line in lines)
    once = lines[lines.index("http-reuse always") + 1]
    assert once in (ROOT / "deploy/balancer/haproxy.cfg").read_text(encoding="utf-8")
    assert once.startswith("http-request disable-l7-retry if ")
