"""The options of `import`, and their validation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

from model.languages import is_language_code
from model.weight_storage import STORAGES
from training.importing.registries.hosts import Place
from training.options import Option

PositionsOf = Literal["marian", "huggingface"]


def _language_codes(text: str) -> tuple[str, ...]:
    """Parses `--languages`. Raises ValueError."""
    codes = tuple(dict.fromkeys(text.split(",")))
    if len(codes) < 2 or not all(map(is_language_code, codes)):
        raise ValueError(f"--languages must be at least two language codes, such as en,fr,de, not {text!r}")
    return codes


@dataclass(frozen=True)
class ImportOptions:
    """What to import. Raises ValueError, naming the fault."""

    path: Annotated[Path | None, Option(metavar="MODEL", is_argument=True)] = None
    """The model: firefox:en-fr, opus:en-fr, argos:en-fr, huggingface:OWNER/NAME, or a folder or file: what
    --download-only made, a CTranslate2 folder, an Argos Translate package (.argosmodel). @ and a version choose
    one: firefox:en-fr@tiny."""
    source: str | None = None
    """The language that it translates, such as en. (default: what the registry says)"""
    target: str | None = None
    """The language that it translates into. (default: what the registry says)"""
    out: Path | None = None
    """The folder to make. (default: en-fr in the folder of --into, by the languages)"""
    into: Annotated[Path | None, Option(metavar="DIR")] = None
    """The folder in which to make it under its default name. (default: bundles)"""
    languages: Annotated[tuple[str, ...] | None, Option(metavar="CODES", parse=_language_codes)] = None
    """Import only these languages of a model of many, such as en,fr,de. (default: all)"""
    list: Annotated[str | None, Option(metavar="REGISTRY", panel="Registries")] = None
    """List the models of a registry, or of one of its pairs: firefox, opus, argos, or such as firefox:en-fr."""
    download_only: Annotated[bool, Option(panel="Registries")] = False
    """Only download, into a folder that `import` takes on another machine. --out is that folder."""
    offline: Annotated[bool, Option(panel="Registries")] = False
    """Use no network, only models that were downloaded before."""
    registry: Annotated[str | None, Option(metavar="URL|FILE", panel="Registries")] = None
    """A mirror's list of models, in place of the registry's own. Addresses in it may be relative to it."""
    host: Annotated[tuple[str, ...], Option(metavar="HOST", panel="Registries")] = ()
    """A further host that a list or a redirect may lead to, such as models.example, with its port unless that is 443.
    Repeat for more. (default: those of the registry, and of --registry)"""
    downloads: Annotated[Path | None, Option(metavar="DIR", panel="Registries")] = None
    """The folder for downloads. (default: models in the cache folder)"""
    accept_licence: bool = False
    """Import a model although its licence forbids commercial use."""
    unless: Annotated[Path | None, Option(metavar="BUNDLE")] = None
    """Do nothing if that bundle was made of the very weights that the registry has."""
    replace: bool = False
    """Replace an existing bundle."""
    positions: PositionsOf = "marian"
    """For a model that Marian trained, marian's own positions, or huggingface's, those of its copies in transformers
    and CTranslate2, which differ a little, for comparison."""
    dtype: str = "float32"
    """Storage type of weights. int8 takes a quarter of float32's space, float16 and bfloat16 half. (default: float32,
    which rounds nothing)"""
    licence: str | None = None
    """The model's licence, for the card. (default: what the model says)"""
    attribution: Annotated[tuple[str, ...], Option(metavar="TEXT")] = ()
    """Whom to credit, for the card; repeat for more."""
    check: Annotated[tuple[str, ...], Option(metavar="FILE")] = ()
    """Pairs to measure BLEU and chrF on, beside the published scores; as `evaluate --pairs`. Repeat for more."""
    calibrate: Annotated[tuple[str, ...], Option(metavar="FILE")] = ()
    """Pairs that the model was not trained on, to fit its estimates of quality with; as --check. Repeat for more."""
    threads: int | None = None
    """CPU threads. (default: one per core)"""
    as_json: Annotated[bool, Option(names=("--json",))] = False
    """Say everything in JSON, an object a line, and end when standard input does; for programs."""

    def __post_init__(self) -> None:
        for name in ("source", "target"):
            value = getattr(self, name)
            if value is not None and not is_language_code(value):
                raise ValueError(f"--{name} must be a language code like en or pt-BR, not {value!r}")
        if self.source is not None and self.source == self.target:
            raise ValueError(f"--source and --target are both {self.source}")
        if self.positions not in get_args(PositionsOf):
            raise ValueError(f"--positions must be one of {', '.join(get_args(PositionsOf))}, not {self.positions!r}")
        if self.dtype not in STORAGES:
            raise ValueError(f"--dtype must be one of {', '.join(STORAGES)}, not {self.dtype!r}")
        if self.path is None and self.list is None:
            raise ValueError("name a model, such as firefox:en-fr, or a path; or --list firefox")
        if self.out is not None and self.into is not None:
            raise ValueError("give --out or --into, not both")
        for host in self.host:
            Place.parse(host)
        if self.registry is not None and urlsplit(self.registry).username is not None:
            raise ValueError("--registry must not contain a password, since addresses are recorded")

    @property
    def model(self) -> Path:
        """The model to import."""
        assert self.path is not None, "__post_init__ checks it"
        return self.path

    @property
    def pair(self) -> tuple[str, str]:
        """Source and target languages. Raises ValueError if they are not known."""
        if self.source is None or self.target is None:
            raise ValueError(f"give --source and --target, the languages that {self.path} translates")
        return self.source, self.target

    @property
    def folder(self) -> Path:
        """The bundle to make."""
        return self.out or self.default_folder("-".join(self.pair))

    def default_folder(self, name: str) -> Path:
        """The folder of a bundle called `name`."""
        return (self.into or Path("bundles")) / name
