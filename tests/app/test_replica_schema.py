"""app/replica.py and app/cluster/: the configuration of Ray Serve: each field is one that Ray knows. It accepts
misspelt ones without a word."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any, get_args

import pytest
import ray
import yaml
from pydantic import BaseModel
from ray import serve
from ray.serve.config import AutoscalingConfig
from ray.serve.schema import LoggingConfig, ServeDeploySchema

from app.cluster.ray_variables import EXPECTED, REQUIRED
from app.replica import DEPLOYMENT, application
from app.settings import SettingsError

pytestmark = pytest.mark.ray

SERVE = Path(__file__).resolve().parents[2] / "deploy/ray/serve.yaml"
FREE = {"args", "user_config", "runtime_env", "ray_actor_options", "policy"}
"""Fields whose contents are not Ray Serve's."""


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models in an annotation such as list[Model] | None."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in models_in(argument)]


def unknown_fields(value: Any, model: type[BaseModel], place: str = "") -> list[str]:
    """The fields in `value`, at any depth, that `model` does not have."""
    found = []
    for name, inner in value.items():
        here = f"{place}/{name}"
        if name not in model.model_fields:
            found.append(here)
            continue
        models = [AutoscalingConfig] if name == "autoscaling_config" else models_in(model.model_fields[name].annotation)
        for number, item in enumerate(inner if isinstance(inner, list) else [inner]):
            if isinstance(item, dict) and name not in FREE:
                assert models, here
                found += unknown_fields(item, models[0], f"{here}/{number}")
    return found


CONFIG = yaml.safe_load(SERVE.read_text(encoding="utf-8"))


def test_configuration_has_no_field_that_ray_does_not_know() -> None:
    assert unknown_fields(CONFIG, ServeDeploySchema) == []
    ServeDeploySchema.model_validate(CONFIG)


def test_misspelt_field_is_found_at_any_depth_although_ray_accepts_it() -> None:
    wrong = json.loads(json.dumps(CONFIG).replace('"max_replicas"', '"max_replica"'))
    wrong["applications"][0]["deployments"][0]["max_ongoing"] = 3
    ServeDeploySchema.model_validate(wrong)
    deployment = "/applications/0/deployments/0"
    assert unknown_fields(wrong, ServeDeploySchema) == [
        f"{deployment}/autoscaling_config/0/max_replica",
        f"{deployment}/max_ongoing",
    ]


def test_code_and_file_agree_on_the_fields_that_both_have() -> None:
    [[deployment]] = [each["deployments"] for each in CONFIG["applications"]]
    for name in ("upscale_delay_s", "downscale_delay_s", "policy"):
        assert deployment["autoscaling_config"][name] == DEPLOYMENT["autoscaling_config"][name]
    assert (deployment["name"], deployment["user_config"]) == (DEPLOYMENT["name"], DEPLOYMENT["user_config"])
    assert CONFIG["logging_config"] == DEPLOYMENT["logging_config"]


def test_deployment_of_the_code_has_no_field_that_ray_does_not_know() -> None:
    assert set(DEPLOYMENT) <= set(inspect.signature(serve.deployment).parameters)
    assert set(DEPLOYMENT["autoscaling_config"]) <= set(AutoscalingConfig.model_fields)
    assert set(DEPLOYMENT["logging_config"]) <= set(LoggingConfig.model_fields)


def test_ray_knows_each_variable() -> None:
    folder = Path(ray.__file__).parent
    texts = [path.read_bytes() for path in [*folder.rglob("*.py"), *folder.glob("*.so")]]
    names = [name for name in (*REQUIRED, *EXPECTED) if name.startswith("RAY_")]
    assert [name for name in names if not any(name.encode() in text for text in texts)] == []


def test_argument_that_is_no_setting_is_refused_before_anything_starts() -> None:
    with pytest.raises(SettingsError, match="bundel: no such setting"):
        application({"bundel": "x"})
