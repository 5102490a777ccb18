"""Licences that must be accepted before a model is downloaded or imported."""

from __future__ import annotations

from model.published import forbids_commercial_use
from training.importing.errors import ImportFault


def check_licence(name: str, licence: str, accepted: bool) -> None:
    """Raises ImportFault if the licence forbids commercial use and was not accepted."""
    if not accepted and forbids_commercial_use(licence):
        raise ImportFault(
            f"{name} has the licence {licence}, which forbids commercial use: read it, and add --accept-licence if "
            "you may use the model"
        )
