"""The published models that the service can name without asking anybody: catalogue.json, which ships.

`python -m training.importing.catalogue` makes that file from the registries' lists (docs/registries.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec.structs import asdict

from model.languages import served_code
from model.published import ModelName, parse_name

CATALOGUE = Path(__file__).with_name("catalogue.json")


class Figure(msgspec.Struct, frozen=True):
    """A published score, which was not measured here."""

    dataset: str
    metric: str
    score: float
    origin: str
    """Who published it."""


class RegistryList(msgspec.Struct, frozen=True):
    """What all models of a registry have in common, and the list that they were read from."""

    publisher: str
    licence: str
    page: str
    address: str
    host: str
    """Where its files are."""
    dated: str
    """When the list was made or stored, in ISO 8601."""


class _Row(msgspec.Struct, frozen=True):
    """A model as catalogue.json has it."""

    model: str
    source: str
    """Language tags, as the bundle will have them."""
    target: str
    size: int | None = msgspec.field(default=None, name="bytes")
    """Bytes to download, if known."""
    weights_bytes: int | None = None
    """Bytes of the weights, unpacked, if the registry says."""
    sha256: str | None = None
    """SHA-256 of the weights, unpacked, if the registry says."""
    is_released: bool = True
    """Whether its publisher uses it: Mozilla's list also has models that Firefox does not have."""
    figures: tuple[Figure, ...] = ()
    page: str | None = None
    """None if it is the registry's."""


class _File(msgspec.Struct, frozen=True):
    format: int
    registries: dict[str, RegistryList]
    models: list[_Row]


class PublishedModel(_Row, frozen=True, kw_only=True):
    """A model that a registry offers."""

    name: ModelName
    publisher: str
    host: str
    """From which it is downloaded."""
    licence: str
    page: str


class PublishedModels:
    """The models that registries offered when the catalogue was made, the best of each pair and registry first."""

    def __init__(self, models: Iterable[PublishedModel], lists: dict[str, RegistryList]) -> None:
        self.all = tuple(models)
        self.lists = lists
        self.sources = tuple(sorted({model.source for model in self.all}))
        self.targets = tuple(sorted({model.target for model in self.all}))

    @property
    def dated(self) -> str:
        """The date of the newest of the lists, in ISO 8601; `lists` has that of each."""
        return max((one.dated for one in self.lists.values()), default="")

    def matching(
        self, source: str | None = None, target: str | None = None, from_or_to: Collection[str] = ()
    ) -> tuple[PublishedModel, ...]:
        """The models from `source`, into `target`, and from or into any of the languages `from_or_to`, as far as these
        are given; written as clients write them."""
        from_code, to_code = source and served_code(source, self.sources), target and served_code(target, self.targets)
        sources = {served_code(code, self.sources) for code in from_or_to}
        targets = {served_code(code, self.targets) for code in from_or_to}
        return tuple(
            model
            for model in self.all
            if (source is None or model.source == from_code)
            and (target is None or model.target == to_code)
            and (not from_or_to or model.source in sources or model.target in targets)
        )


@lru_cache
def load_catalogue(path: Path = CATALOGUE) -> PublishedModels:
    """Reads a catalogue. Raises OSError, and ValueError if it is damaged."""
    content = msgspec.json.decode(path.read_bytes(), type=_File)
    if content.format != 1:
        raise ValueError(f"{path} has the format {content.format}, not 1")
    return PublishedModels((_published(row, content.registries) for row in content.models), content.registries)


def _published(row: _Row, lists: dict[str, RegistryList]) -> PublishedModel:
    name = parse_name(row.model)
    if name is None or name.registry not in lists:
        raise ValueError(f"{row.model!r} is not the name of a model in {', '.join(lists)}")
    common = lists[name.registry]
    of_registry = {"publisher": common.publisher, "host": common.host, "licence": common.licence}
    return PublishedModel(**{**asdict(row), **of_registry, "page": row.page or common.page}, name=name)
