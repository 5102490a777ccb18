"""deploy/kubernetes/: the manifests of deploy/kubernetes: valid for two versions of Kubernetes, and true to the
service that they run."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from app.api import health
from app.settings import PREFIX, Settings, load_settings

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy/kubernetes"
FOLDERS = sorted(path.parent for path in DEPLOY.rglob("kustomization.yaml"))
FILES = sorted(path for path in DEPLOY.rglob("*.yaml") if path.name not in ("kustomization.yaml", "names.yaml"))
VERSIONS = "1.34", "1.36"
OF_OPERATORS = "ScaledObject", "PodMonitor", "RayService"
"""Kinds that Kubernetes itself does not have."""


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


ALL = [(path, document) for path in FILES for document in documents(path)]
OURS = {document["metadata"]["name"]: document for _, document in ALL if document["kind"] == "Deployment"}
SERVICES = {document["metadata"]["name"]: document for _, document in ALL if document["kind"] == "Service"}


def container(name: str) -> dict[str, Any]:
    [found] = OURS[name]["spec"]["template"]["spec"]["containers"]
    return dict(found)


def ray_groups() -> list[dict[str, Any]]:
    """The head and the groups of workers of the RayService."""
    [found] = [document for _, document in ALL if document["kind"] == "RayService"]
    cluster = found["spec"]["rayClusterConfig"]
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


def patches(folder: Path) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """The target and each operation of the patches in a kustomization."""
    for patch in documents(folder / "kustomization.yaml")[0].get("patches", []):
        for operation in yaml.safe_load(patch["patch"]):
            yield patch["target"], operation


def kind_of(document: dict[str, Any]) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("path", "document"), ALL, ids=lambda found: kind_of(found) if isinstance(found, dict) else "")
def test_manifest_is_valid(path: Path, document: dict[str, Any], version: str) -> None:
    if document["kind"] not in OF_OPERATORS:
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_kustomization_builds_valid_manifests(folder: Path) -> None:
    built = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    found = [document for document in yaml.safe_load_all(built.stdout) if document["kind"] not in OF_OPERATORS]
    for document in found:
        for version in VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)
    for deployment in (document for document in found if document["kind"] == "Deployment"):
        [made] = deployment["spec"]["template"]["spec"]["containers"]
        names = [variable["name"] for variable in made["env"]]
        assert len(names) == len(set(names))
        volumes = {volume["name"] for volume in deployment["spec"]["template"]["spec"]["volumes"]}
        assert {mount["name"] for mount in made["volumeMounts"]} == volumes


def test_validation_finds_a_misspelt_field() -> None:
    wrong = {**OURS["interlinear"], "sepc": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.34", strict=True)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_kustomization_names_files_that_exist(folder: Path) -> None:
    [kustomization] = documents(folder / "kustomization.yaml")
    for resource in kustomization["resources"]:
        found = folder / resource
        assert found.is_file() or (found / "kustomization.yaml").is_file(), resource


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_patch_changes_what_the_base_has(folder: Path) -> None:
    for target, operation in patches(folder):
        place: Any = OURS[target["name"]]
        *parents, last = [part.replace("~1", "/") for part in operation["path"].split("/")[1:]]
        for part in parents:
            place = place[int(part) if isinstance(place, list) else part]
        assert operation["op"] == "add" or last in place


def test_gpu_patch_sets_the_device() -> None:
    operations = {operation["path"]: operation.get("value") for _, operation in patches(DEPLOY / "gpu")}
    [path] = [path for path, value in operations.items() if value == "cuda"]
    number = int(path.split("/")[-2])
    assert container("interlinear")["env"][number]["name"] == "INTERLINEAR_DEVICE"


def added(folder: Path) -> dict[str, Any]:
    """What the patches in a kustomization add to each list, if it is one value for each."""
    return {
        operation["path"].removesuffix("/-").rpartition("/")[2]: operation["value"]
        for _, operation in patches(folder)
        if operation["path"].endswith("/-")
    }


def test_published_models_are_kept_on_one_volume_of_all_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = DEPLOY / "models-volume"
    made = added(folder)
    [claim] = documents(folder / "volume.yaml")
    assert made["volumes"]["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    place = made["volumeMounts"]["mountPath"]
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"INTERLINEAR_MODELS_DIR={place}\n" in dockerfile
    assert f"install -d -o interlinear -g interlinear {place}\n" in dockerfile
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    assert list(compose["volumes"]) == ["models"]
    assert all(service["volumes"] == [f"models:{place}"] for service in compose["services"].values())
    assert made["env"]["name"] == "INTERLINEAR_MODELS"
    monkeypatch.setenv(made["env"]["name"], made["env"]["value"])
    assert len(load_settings().models) == 3


def test_only_the_importer_reaches_other_networks_and_by_https_alone() -> None:
    policies = [(path, document) for path, document in ALL if document["kind"] == "NetworkPolicy"]
    rules = [(path, rule) for path, document in policies for rule in document["spec"].get("egress", [])]
    outside = {path: rule["ports"] for path, rule in rules if any("ipBlock" in peer for peer in rule.get("to", []))}
    assert outside == {DEPLOY / "models-volume/network.yaml": [{"port": 443, "protocol": "TCP"}]}
    closed = [document["spec"]["egress"] for path, document in policies if path == DEPLOY / "base/network.yaml"]
    assert [] in closed


def test_every_setting_exists() -> None:
    files = [*DEPLOY.rglob("*.yaml"), ROOT / "docker-compose.scale.yml"]
    named = set(re.findall(rf"{PREFIX}(\w+)", "".join(path.read_text() for path in files)))
    assert {name.lower() for name in named} <= set(Settings.model_fields)


@pytest.mark.parametrize("name", OURS)
def test_probes_ask_for_routes_and_ports_that_exist(name: str) -> None:
    found = container(name)
    ports = {port["name"]: port["containerPort"] for port in found["ports"]}
    routes = {route.path for route in health.router.routes}  # type: ignore[attr-defined]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        for how, details in found.get(probe, {}).items():
            if how in ("httpGet", "tcpSocket"):
                assert details["port"] in ports
                assert how == "tcpSocket" or details["path"] in routes


def test_balancer_finds_the_instances() -> None:
    environ = {variable["name"]: variable["value"] for variable in container("interlinear-balancer")["env"]}
    instances = SERVICES[environ["BACKENDS"]]
    assert instances["spec"]["clusterIP"] == "None"
    assert [port["port"] for port in instances["spec"]["ports"]] == [int(environ["BACKEND_PORT"])]
    assert set(re.findall(r"\$\{(\w+)\}", (ROOT / "deploy/balancer/haproxy.cfg").read_text())) == set(environ)


@pytest.mark.parametrize(("path", "document"), ALL, ids=lambda found: kind_of(found) if isinstance(found, dict) else "")
def test_selectors_match_pods(path: Path, document: dict[str, Any]) -> None:
    labels = [deployment["spec"]["template"]["metadata"]["labels"] for deployment in OURS.values()]
    labels += [group["template"]["metadata"]["labels"] for group in ray_groups()]
    spec = document["spec"]
    selector = spec.get("selector") or spec.get("podSelector")
    if selector:
        assert any(selector.get("matchLabels", selector).items() <= each.items() for each in labels)


@pytest.mark.parametrize("name", OURS)
def test_pods_have_few_rights(name: str) -> None:
    pod = OURS[name]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] > 0
    rights = container(name)["securityContext"]
    assert (rights["readOnlyRootFilesystem"], rights["allowPrivilegeEscalation"]) == (True, False)
    assert rights["capabilities"] == {"drop": ["ALL"]}


def test_user_is_the_images() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    user = OURS["interlinear"]["spec"]["template"]["spec"]["securityContext"]["runAsUser"]
    assert re.search(rf"^USER {user}$", dockerfile, re.M)


def test_pod_is_given_longer_than_a_stop_takes() -> None:
    pod = OURS["interlinear"]["spec"]["template"]["spec"]
    pause = int(container("interlinear")["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert pod["terminationGracePeriodSeconds"] > pause + 31
