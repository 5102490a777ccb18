"""Settings come from the environment and are verified at startup, and unknown ones are named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.__main__ import cli
from app.settings import Settings, SettingsError, describe_settings, ignored_variables, load_settings


def test_every_limit_is_on_by_default() -> None:
    settings = load_settings()
    limits = (settings.max_body_bytes, settings.max_text_chars, settings.max_items, settings.queue_tokens)
    assert all(limit > 0 for limit in (*limits, settings.deadline_ms))


def test_off_turns_pivoting_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().pivot
    monkeypatch.setenv("INTERLINEAR_PIVOT", "off")
    assert not load_settings().pivot


def test_settings_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLINEAR_PORT", "9000")
    monkeypatch.setenv("INTERLINEAR_CORS_ORIGINS", "https://a.example, https://B.example/")
    settings = load_settings()
    assert settings.port == 9000
    assert settings.cors_origins == ["https://a.example", "https://b.example"]


def test_command_line_options_override_the_environment_and_are_named_in_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("INTERLINEAR_PORT", "9000")
    monkeypatch.setenv("INTERLINEAR_BUNDLES", "bundles, mine,")
    assert load_settings().bundles == (Path("bundles"), Path("mine"))
    settings = load_settings({"port": "9001", "bundles": "a,b", "host": None})
    assert (settings.port, settings.bundles, settings.host) == (9001, (Path("a"), Path("b")), "127.0.0.1")
    for name, value in (("port", "many"), ("device", "tpu"), ("bundles", ","), ("workers", "-1")):
        with pytest.raises(SettingsError, match=f"^--{name} {value}: "):
            load_settings({name: value})


@pytest.mark.parametrize("option", ["host", "port", "bundles", "device", "precision", "workers"])
def test_most_common_settings_are_options_of_serve(option: str) -> None:
    shown = CliRunner().invoke(cli, ["serve", "--help"], env={"COLUMNS": "200"}).stdout
    assert f"--{option} " in shown


def test_settings_of_the_shell_reach_the_container() -> None:
    """Except those that name paths in it, and the device, which the profile sets."""
    compose = (Path(__file__).parents[2] / "docker-compose.yml").read_text(encoding="utf-8")
    passed_on = re.findall(r"^  (INTERLINEAR_\w+):(?:$| \$\{\1:-)", compose, re.M)
    all_of_them = [f"INTERLINEAR_{name.upper()}" for name in Settings.model_fields]
    own = {f"INTERLINEAR_{name}" for name in ("HOST", "PORT", "DEVICE")}
    assert passed_on == [name for name in all_of_them if name not in own]
    assert compose.count("<<: *settings") == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("INTERLINEAR_PORT", "many"),
        ("INTERLINEAR_PORT", "65536"),
        ("INTERLINEAR_PRECISION", "int7"),
        ("INTERLINEAR_DEVICE", "tpu"),
        ("INTERLINEAR_MAX_ITEMS", "0"),
        ("INTERLINEAR_RATE_REQUESTS", "many"),
        ("INTERLINEAR_RATE_CHARACTERS", "0/day"),
        ("INTERLINEAR_TRUSTED_PROXIES", "my-proxy"),
        ("INTERLINEAR_ROOT_PATH", "mt"),
        ("INTERLINEAR_ROOT_API", "weblate"),
        ("INTERLINEAR_CORS_ORIGINS", "example.org"),
        ("INTERLINEAR_CORS_ORIGINS", "https://example.org/page"),
    ],
)
def test_invalid_setting_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=f"^{name}={value}: ") as error:
        load_settings()
    assert "\n" not in str(error.value)


def test_rates_paths_and_proxies_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLINEAR_RATE_REQUESTS", "600/minute")
    monkeypatch.setenv("INTERLINEAR_RATE_CHARACTERS", "")
    monkeypatch.setenv("INTERLINEAR_ROOT_PATH", "/tools/mt/")
    monkeypatch.setenv("INTERLINEAR_TRUSTED_PROXIES", "10.0.0.0/8, ::1")
    settings = load_settings()
    assert settings.rate_requests
    assert settings.rate_requests.amount == 600
    assert settings.rate_characters is None
    assert settings.root_path == "/tools/mt"
    assert settings.trusted_proxies == ["10.0.0.0/8", "::1"]


def test_unknown_variables_with_the_prefix_are_named() -> None:
    environ = {"INTERLINEAR_PROT": "80", "INTERLINEAR_SERVICE_HOST": "10.0.0.1", "INTERLINEAR_HOST": "::", "PATH": "/"}
    assert ignored_variables(environ) == ["INTERLINEAR_PROT", "INTERLINEAR_SERVICE_HOST"]


def test_kubernetes_port_variable_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLINEAR_PORT", "tcp://10.0.0.1:8000")
    assert load_settings().port == Settings.model_fields["port"].default
    assert ignored_variables({"INTERLINEAR_PORT": "tcp://10.0.0.1:8000"}) == ["INTERLINEAR_PORT"]


def test_described_defaults_are_valid_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = describe_settings().splitlines()
    assert len(lines) == len(Settings.model_fields)
    for line in lines:
        name, _, default = line.split(" ", 1)[0].partition("=")
        monkeypatch.setenv(name, default)
    assert load_settings() == Settings.model_construct()


def test_each_setting_is_one_line_in_the_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = [line.strip() for line in CliRunner().invoke(cli, ["serve", "--help"]).output.splitlines()]
    assert [line for line in shown if line.startswith("INTERLINEAR_")] == [
        line.split(" ", 1)[0] for line in describe_settings().splitlines()
    ]
