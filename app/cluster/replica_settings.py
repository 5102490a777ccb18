"""The settings of a replica: those of the service, with what Ray Serve decides in its place."""

from __future__ import annotations

from collections.abc import Mapping

from app.settings import PREFIX, Settings, SettingsError, load_settings


def replica_settings(options: Mapping[str, object], resources: Mapping[str, float]) -> Settings:
    """The settings from the environment, overridden by `options`, for a replica with these `resources` of Ray's: cores
    as "CPU", and "GPU", which may be a fraction.

    A process of Ray may run on any core of the node, so the number of workers follows from the resources: one on a GPU,
    else one for each core but the front's. Raises SettingsError.
    """
    check_names(options)
    given = load_settings(options)
    device = given.device
    has_gpu = resources.get("GPU", 0) > 0
    if device == "auto":
        device = "cuda" if has_gpu else "cpu"
    elif (device == "cuda") != has_gpu:
        have = "has a GPU" if has_gpu else "has no GPU"
        raise SettingsError(f"{PREFIX}DEVICE={device}: the replica {have}; change num_gpus in ray_actor_options")
    workers = given.workers or (1 if device == "cuda" else max(1, int(resources.get("CPU", 0)) - 1))
    settings = given.model_copy(update={"device": device, "workers": workers})
    check_settings(settings)
    return settings


def check_names(options: Mapping[str, object]) -> None:
    """Raises SettingsError if one of the application's arguments is no setting."""
    if unknown := sorted(set(options) - set(Settings.model_fields)):
        raise SettingsError(f"{', '.join(unknown)}: no such setting; the arguments are settings, such as bundles=/data")


def check_settings(settings: Settings) -> None:
    """Raises SettingsError for settings that cannot hold for replicas."""
    if settings.instances > 1:
        raise SettingsError(f"{PREFIX}INSTANCES={settings.instances}: must be 1 in a replica; run more replicas")
    if settings.admin_port:
        raise SettingsError(
            f"{PREFIX}ADMIN_PORT={settings.admin_port}: two replicas on a node cannot share it; set it to 0, or leave "
            "it out: each replica serves /health, /ready and /metrics on its own port"
        )
    has_rates = settings.rate_requests or settings.rate_characters
    if has_rates and not settings.api_keys_file and not settings.trusted_proxies:
        raise SettingsError(
            f"{PREFIX}RATE_...: Ray's HAProxy hides the addresses of clients, who would share one rate; require keys "
            f"with {PREFIX}API_KEYS_FILE, or set {PREFIX}TRUSTED_PROXIES for a proxy in front of it"
        )
    if has_rates and not settings.store:
        raise SettingsError(
            f"{PREFIX}RATE_...: each replica would count for itself; set {PREFIX}STORE, where all count together"
        )
