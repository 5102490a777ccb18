"""The service as a replica of Ray Serve.

    serve run app.replica:application
    serve run app.replica:application bundles=/data precision=int8
    serve deploy deploy/ray/serve.yaml

A replica is the whole service: a front and its workers. Imports Ray, which the extra `ray` installs; docs/ray.md
says what it needs.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import redirect_stderr
from typing import Any

import ray
from ray import serve
from starlette.types import ASGIApp

from app.cluster.autoscaling import LOAD, by_load
from app.cluster.hosting import Hosted
from app.cluster.ray_variables import faults, missing
from app.cluster.replica_settings import check_names, replica_settings
from app.errors import BundlesRefused, Unavailable
from app.runtime.json_logs import log_to_stderr
from app.runtime.process_tuning import tune_process
from app.settings import SettingsError, ignored_variables
from model.bundle_files import BundleError

MAX_UNREADY_S = 300.0
"""How long a replica may be without a worker: it starts them again itself, which may take minutes on a GPU."""
log = logging.getLogger(__name__)


class Replica:
    """One replica. Ray Serve calls its methods; requests do not pass through it."""

    def __init__(self, options: dict[str, object]) -> None:
        """`options`: settings, which override those of the environment. Raises SettingsError and BundleError."""
        tune_process()
        with redirect_stderr(sys.__stderr__):  # Ray Serve sends standard error to a log of its own format, late
            log_to_stderr()
        try:
            self._hosted = _hosted(options)
        except (SettingsError, BundleError) as error:
            log.critical("%s", error)
            raise
        self._bundles: object = None
        self._ready_at = 0.0
        """When it was last seen ready, in seconds on the monotonic clock."""

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Called once; Ray Serve then runs the lifespan, and begins to listen when it has started."""
        self._hosted.take_connections()
        return self._hosted

    async def check_health(self) -> None:
        """Raises Unavailable if no worker has run for MAX_UNREADY_S: Ray Serve then replaces the replica. HAProxy sends
        it no request meanwhile."""
        now = time.monotonic()
        try:
            self._hosted.check_ready()
        except Unavailable:
            if now - self._ready_at > MAX_UNREADY_S:
                raise
        else:
            self._ready_at = now

    async def record_autoscaling_stats(self) -> dict[str, float]:
        return {LOAD: self._hosted.state.metrics.load.current()}

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Loads the bundles in the folders again if the value of `bundles` has changed; any value will do.

        Keeps the old ones if the new ones are refused: raising would end a replica that serves.
        """
        bundles, self._bundles = self._bundles, user_config.get("bundles")
        if bundles == self._bundles:
            return
        try:
            await self._hosted.state.deployments.reload()
        except BundlesRefused as error:
            log.error("keeping the bundles that are being served: %s", error)


def _hosted(options: dict[str, object]) -> Hosted:
    """Raises SettingsError and BundleError."""
    if lacking := missing(os.environ):
        raise SettingsError(f"Ray was started on this node without {' '.join(lacking)}")
    for line in (*faults(os.environ), *(f"{name} is not a setting; ignored" for name in ignored_variables(os.environ))):
        log.warning("%s", line)

    from app.main import create_app, server_options
    from app.services.startup import load_catalogue

    settings = replica_settings(options, ray.get_runtime_context().get_assigned_resources())
    catalogue = load_catalogue(settings)
    app = create_app(settings, catalogue, detect_early=True)
    for line in catalogue.descriptions():
        log.info(line)
    return Hosted(app, server_options(settings))


DEPLOYMENT: dict[str, Any] = {
    "name": "interlinear",
    # A front, and a worker on the other core. deploy/ray/serve.yaml has 4.
    "ray_actor_options": {"num_cpus": 2},
    # The service's own queue refuses what it cannot do in time, and says when to ask again.
    "max_ongoing_requests": 2_000,
    "autoscaling_config": {
        "min_replicas": 1,
        "max_replicas": 10,
        "upscale_delay_s": 4.0,
        "downscale_delay_s": 300.0,
        "policy": {"policy_function": f"{by_load.__module__}:{by_load.__name__}"},
    },
    "user_config": {"bundles": ""},
    "health_check_period_s": 10,
    "health_check_timeout_s": 30,
    # For HAProxy to learn that the replica goes, 30 s, and for requests that have begun: 60 s, INTERLINEAR_DEADLINE_MS.
    "graceful_shutdown_timeout_s": 100,
    # Ray's access log has the addresses of clients.
    "logging_config": {"enable_access_log": False},
}
"""Arguments for serve.deployment. A configuration file for Serve may override each."""


def application(arguments: dict[str, object]) -> serve.Application:
    """What `serve run` deploys. `arguments`: settings by name, for all replicas. Raises SettingsError."""
    check_names(arguments)
    deployment = serve.deployment(**DEPLOYMENT)(serve.ingress()(Replica))
    bound: serve.Application = deployment.bind(arguments)
    return bound
