"""The variables of Ray that a replica depends on, and which of them are missing or wrong.

Ray reads them when it starts on a node, so that each node needs all of them. Imports only the standard library.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

REQUIRED = {
    "RAY_SERVE_ENABLE_HA_PROXY": "1",
    "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
}
"""Without these a replica does not start: requests reach it directly, on the event loop that the service runs on."""
EXPECTED = {
    "RAY_SERVE_HAPROXY_BINARY_PATH": (
        str(Path(__file__).with_name("haproxy")),
        "requests that arrive in two packets are lost with their replica, and may take for ever to arrive",
    ),
    "RAY_SERVE_HAPROXY_RETRY_ON": (
        "conn-failure empty-response response-timeout",
        "requests in a replica that dies are lost",
    ),
    # After three refused connections HAProxy takes a replica as dead, and asks Ray's proxy if there is no other: a
    # request that made all three attempts itself has some left.
    "RAY_SERVE_HAPROXY_RETRIES": ("5", "requests in a replica that dies may be lost"),
    "RAY_SERVE_HAPROXY_TUNE_BUFSIZE": ("65536", "requests of more than 16 KB are lost with their replica"),
    "RAY_SERVE_HAPROXY_TIMEOUT_SERVER_S": ("80", "requests in a replica that hangs are lost"),
    "RAY_SERVE_HAPROXY_TIMEOUT_CLIENT_S": ("80", "connections of clients that have gone stay open for an hour"),
    "RAY_SERVE_HAPROXY_HEALTH_CHECK_INTER": ("1s", "a replica that is not ready gets requests for 10 seconds"),
    "RAY_SERVE_HAPROXY_LOG_TARGET": (
        "127.0.0.1:514 local0 warning #",
        "HAProxy sends clients' addresses to the system's log",
    ),
    "RAY_SERVE_HAPROXY_METRICS_ENABLED": ("0", "HAProxy logs each request for Ray's metrics, a tenth of its time"),
    "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": ("2", "autoscaling is 8 seconds late"),
    "FORWARDED_ALLOW_IPS": ("", "Ray's proxy, which stands in when no replica is ready, believes forged addresses"),
    "RAY_USAGE_STATS_ENABLED": ("0", "Ray sends usage statistics to its makers"),
    "RAY_AUTH_MODE": ("token", "whoever reaches Ray's ports runs programs on this node"),
}
"""What each should be, and what happens otherwise. The program is this package's. The time
limits are those of deploy/balancer/haproxy.cfg."""


def faults(environ: Mapping[str, str]) -> Sequence[str]:
    """A line for each variable of EXPECTED that is missing or has another value."""
    return [
        f"{name}={environ[name]} should be {value!r}: {otherwise}"
        if name in environ
        else f"{name} should be {value!r}, and is not set: {otherwise}"
        for name, (value, otherwise) in EXPECTED.items()
        if environ.get(name) != value
    ]


def missing(environ: Mapping[str, str]) -> Sequence[str]:
    """The assignments of REQUIRED that `environ` lacks."""
    return [f"{name}={value}" for name, value in REQUIRED.items() if environ.get(name) != value]


if __name__ == "__main__":  # eval "$(python -m app.cluster.ray_variables)", before Ray starts
    for name, value in {**REQUIRED, **{name: value for name, (value, _) in EXPECTED.items()}}.items():
        print(f"export {name}={shlex.quote(value)}")
