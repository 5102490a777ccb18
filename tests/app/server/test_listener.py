"""An unavailable port is reported in one line, with what to do."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.__main__ import cli
from app.server.listener import CannotListen, listen

pytestmark = pytest.mark.slow


def closed(sockets: list[socket.socket]) -> list[tuple[str, int]]:
    """Closes `sockets`. Returns the addresses that they listened on."""
    names = [each.getsockname()[:2] for each in sockets]
    for each in sockets:
        each.close()
    return names


def test_port_in_use_is_reported_before_anything_starts(bundle_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("INTERLINEAR_BUNDLES", str(bundle_folder))
        monkeypatch.setenv("INTERLINEAR_PORT", str(port))
        result = CliRunner().invoke(cli, ["serve"])
    assert result.exit_code == 1
    assert result.stderr == (
        f"interlinear: cannot listen on port {port} of 127.0.0.1: it is already in use; "
        "stop what listens there, or set INTERLINEAR_PORT to another port\n"
    )


@pytest.mark.parametrize(
    ("host", "reason"), [("192.0.2.1", "does not have that address"), ("no_such host.invalid", "INTERLINEAR_HOST")]
)
def test_an_address_that_cannot_be_bound_is_reported(host: str, reason: str) -> None:
    with pytest.raises(CannotListen, match=reason) as error:
        listen(host, 0)
    assert "\n" not in str(error.value)


def test_each_address_of_a_host_has_a_socket_and_no_host_means_all() -> None:
    assert closed(listen("127.0.0.1", 0))[0][0] == "127.0.0.1"
    assert "127.0.0.1" in [host for host, _ in closed(listen("localhost", 0))]
    assert "0.0.0.0" in [host for host, _ in closed(listen("", 0))]
