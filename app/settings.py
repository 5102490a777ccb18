"""The service's settings: INTERLINEAR_* in the environment, verified once at startup.

Whether the machine has the requested device is checked when bundles are loaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.runtime.rate_limits import Rate
from model.machine import cache_folder
from model.published import REGISTRIES, ModelName, parse_name

PREFIX = "INTERLINEAR_"
RootAPI = Literal[
    "interlinear",
    "libretranslate",
    "deepl",
    "deeplx",
    "mtranserver",
    "immersive",
    "kiss",
    "hcfy",
    "google",
    "azure",
    "nllb",
    "plain",
    "omegat",
    "openai",
]
"""Our own API, and the names of `app.api.dialects.table`."""
IN_STORE = "store"
"""The value of `translation_memory` for memories in the store."""


class SettingsError(ValueError):
    """A setting is invalid; the message is one line that names it."""


class Settings(BaseSettings):
    """The service's configuration. Each field is an environment variable, INTERLINEAR_<FIELD>."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, arbitrary_types_allowed=True)

    host: str = Field(default="127.0.0.1", description="0.0.0.0: reachable from other machines")
    port: int = Field(default=8000, ge=0, le=65535, description="0: any free port, which the log shows")
    admin_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="Also serve /health, /ready and /metrics here, however busy the main port is",
    )
    bundles: Annotated[tuple[Path, ...], NoDecode] = Field(
        default=(Path("bundles"),),
        description="Bundles or folders of bundles, separated by commas; later ones replace earlier ones",
    )
    watch_bundles: bool = Field(default=False, description="Reload whenever these folders change")
    models: Annotated[tuple[ModelName, ...], NoDecode] = Field(
        default=(),
        description="Published models to install and serve in place of bundles, such as firefox:en-es argos:en-fr, or "
        "firefox:es for both ways with English",
    )
    models_dir: Path | None = Field(
        default=None, description="Where installed models are kept; default: `installed` in the user's cache folder"
    )
    models_required: bool = Field(default=False, description="/ready is 503 until all of `models` serve")
    registries: Annotated[Mapping[str, str], NoDecode] = Field(
        default={},
        description="Mirrors' lists of models: firefox=https://mirror.example/models.json,argos=/srv/index.json",
    )
    registry_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="Further hosts that these lists, and redirects, may name"
    )
    page_installs: bool = Field(
        default=True, description="Without API keys, clients on the service's own machine may install models"
    )
    pivot: bool = Field(
        default=True, description="Serve pairs without a bundle through another language; off: only pairs with a bundle"
    )
    min_quality: float | None = Field(
        default=None, ge=0, le=1, description="Translations of a lower quality get a warning, or see low_quality"
    )
    low_quality: Literal["warn", "source"] = Field(
        default="warn", description="warn: translations below min_quality get a warning; source: they stay untranslated"
    )
    llm: str | None = Field(
        default=None,
        description="An OpenAI-compatible server whose large model translates what the bundles are bad at: its /v1",
    )
    llm_model: str = Field(default="", description="The model's name there")
    llm_key_file: Path | None = Field(default=None, description="A file with the key for that server")
    llm_template: str = Field(
        default="instruct", description="instruct, hunyuan-mt, translategemma, or a file: how the model is asked"
    )
    llm_pairs: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="Pairs that it may translate, such as en-fr,de-en; default: all"
    )
    llm_timeout_ms: int = Field(
        default=10_000, ge=1, description="Maximum time for a sentence there; then the bundle's translation is used"
    )
    llm_parallel: int = Field(default=64, ge=1, le=1024, description="Sentences that it translates at once")
    llm_below: float = Field(
        default=0.02, ge=0, le=1, description="Sentences of a lower quality go there, if a request does not say"
    )
    engine: Literal["auto", "local", "llm"] = Field(
        default="auto",
        description="Which model translates, if a request does not say: llm, the large one; auto, both",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(default="auto", description="auto: a GPU if available")
    precision: Literal["auto", "float32", "bfloat16", "float16", "int8"] = Field(
        default="auto", description="auto: the fastest on this processor that stays close to float32"
    )
    isa: Literal["auto", "amx", "avx512vnni", "avxvnni", "avx2", "i8mm", "dotprod", "generic"] = Field(
        default="auto", description="Instruction set for int8; generic: plain C, slow. All give the same bits"
    )
    gpu_engine: Literal["graph", "triton"] = Field(
        default="graph", description="triton: kernels of our own, which have never run on a GPU; see docs/engine.md"
    )
    workers: int = Field(default=0, ge=0, description="Worker processes; 0: one per core, or one on a GPU")
    instances: int = Field(
        default=1,
        ge=1,
        le=256,
        description="Front processes on the same port, which divide the workers; one per 4 cores",
    )
    memory_bytes: int | None = Field(
        default=None, ge=1, description="Limit on loaded weights: unused models leave memory; default: all stay loaded"
    )
    max_body_bytes: int = Field(default=1 << 20, ge=1, description="Maximum size of a request")
    max_file_bytes: int = Field(default=16 << 20, ge=1, description="Maximum size of a file to translate")
    max_text_chars: int = Field(default=50_000, ge=1, description="Code points in one text")
    max_items: int = Field(default=1_000, ge=1, description="Texts in one request")
    queue_tokens: int = Field(
        default=1 << 19, ge=1, description="Source tokens that may wait, rounded up to 16 for each sentence"
    )
    max_wait_ms: int = Field(
        default=10_000,
        ge=1,
        description="Requests that would wait longer than this are refused at once; behind a balancer: 250",
    )
    glossaries: Path | None = Field(default=None, description="A folder of glossaries, NAME.SOURCE-TARGET.tsv")
    glossary_store: Path | None = Field(
        default=None, description="A folder for glossaries made over HTTP, which a restart otherwise loses"
    )
    store: str | None = Field(
        default=None,
        repr=False,  # it may have a password
        description="Valkey or Redis, which several instances share: redis://, rediss:// or unix://",
    )
    translation_memory: str | None = Field(
        default=None,
        description="A file for translation memories, or `store`: in the store; default: none are kept",
    )
    translation_memory_pairs: int = Field(
        default=200_000,
        ge=1,
        description="Pairs in all of them; every instance holds those in use, at most 2 KB for each",
    )
    translation_memory_bytes: int = Field(
        default=64 << 20, ge=1, description="Their total size in UTF-8, and 64 for each pair"
    )
    cache_bytes: int = Field(default=64 << 20, ge=0, description="Memory for cached sentences; 0: no cache")
    deadline_ms: int = Field(default=60_000, ge=1, description="Maximum time for a request, which may ask for less")
    drain_ms: int = Field(
        default=0, ge=0, description="On shutdown, keep accepting requests for this long, while /ready is 503"
    )
    send_timeout_ms: int = Field(
        default=30_000, ge=1, description="Disconnect clients that read nothing of their response for this long"
    )
    api_keys_file: Path | None = Field(default=None, description="API keys; lines that `python -m app key NAME` prints")
    rate_requests: Annotated[Rate | None, NoDecode] = Field(
        default=None, description="Limit per key, or per address without keys, such as 600/minute"
    )
    rate_characters: Annotated[Rate | None, NoDecode] = Field(default=None, description="Likewise, such as 1000000/day")
    root_api: Annotated[tuple[RootAPI, ...], NoDecode] = Field(
        default=("interlinear",),
        description="APIs that are at / as well, separated by commas: libretranslate, deepl, ...; ours moves to "
        "/interlinear where one takes its paths",
    )
    cors_origins: Annotated[list[str], NoDecode] = Field(default=[], description="Separated by commas; * for any")
    root_path: str = Field(default="", description="The path under which a proxy shows the service, such as /mt")
    trusted_proxies: Annotated[list[str], NoDecode] = Field(
        default=[],
        description="Proxies whose X-Forwarded-For, -Proto and X-Request-ID are trusted: addresses, networks, or *",
    )

    @property
    def models_folder(self) -> Path | None:
        """The folder of installed models; None if this user has no place for it."""
        try:
            return (self.models_dir or cache_folder() / "installed").absolute()
        except RuntimeError:
            return None

    @property
    def pairs_beyond(self) -> list[tuple[str, str]]:
        """The pairs that the large model is named for, whether a bundle serves them or not."""
        pairs = (pair.partition("-") for pair in self.llm_pairs) if self.llm else ()
        return [(source, target) for source, _, target in pairs]

    @field_validator("bundles", mode="before")
    @classmethod
    def _split_folders(cls, value: object) -> object:
        folders = cls._split(value)
        if not folders:
            raise ValueError("name at least one folder")
        return folders

    @field_validator("models", mode="before")
    @classmethod
    def _read_models(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        names = [parse_name(text) or text for text in value.replace(",", " ").split()]
        wanted = dict[ModelName, None]()
        for name in names:
            if isinstance(name, str):
                raise ValueError(f"{name} is no published model: it begins with {', '.join(REGISTRIES)} and a colon")
            wanted |= dict.fromkeys(name.expanded())
        directions = dict[str, ModelName]()
        for name in wanted:
            if not name.is_complete:
                raise ValueError(f"{name} is no pair of languages, such as firefox:en-es")
            if (other := directions.setdefault(name.direction, name)) != name:
                raise ValueError(f"{other} and {name} are of one direction; name one of them")
        return tuple(wanted)

    @field_validator("registries", mode="before")
    @classmethod
    def _read_registries(cls, value: object) -> object:
        entries = cls._split(value)
        if not isinstance(entries, list):
            return value
        lists = dict(entry.partition("=")[::2] for entry in entries)
        for registry, address in lists.items():
            if registry not in REGISTRIES or not address:
                raise ValueError(f"an entry has a registry, {', '.join(REGISTRIES)}, an equals sign, and its list")
            if urlsplit(address).username is not None:
                raise ValueError("a list's address must not contain a password, since addresses are recorded")
        return {
            registry: address if urlsplit(address).scheme in ("http", "https") else str(Path(address).absolute())
            for registry, address in lists.items()
        }

    @field_validator("registry_hosts")
    @classmethod
    def _check_hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for host in value:
            if not re.fullmatch(r"(\*\.)?[\w.-]+(:\d{1,5})?(/\S*)?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?", host, re.ASCII):
                raise ValueError("a host is models.example, *.models.example or models.example:8443")
        return value

    @field_validator("root_api", "cors_origins", "trusted_proxies", "llm_pairs", "registry_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("cors_origins")
    @classmethod
    def _normalise_origins(cls, value: list[str]) -> list[str]:
        origins = [origin.lower().removesuffix("/") for origin in value]
        for origin in origins:
            if not re.fullmatch(r"\*|null|[a-z][a-z0-9+.-]*://[^/\s]+", origin):
                raise ValueError("an origin has a scheme, a host and an optional port, such as https://example.org")
        return origins

    @field_validator("trusted_proxies")
    @classmethod
    def _check_networks(cls, value: list[str]) -> list[str]:
        for network in value:
            if network != "*":
                ip_network(network)
        return value

    @field_validator(
        "admin_port",
        "min_quality",
        "memory_bytes",
        "models_dir",
        "glossaries",
        "glossary_store",
        "api_keys_file",
        "llm",
        "llm_key_file",
        "store",
        "translation_memory",
        mode="before",
    )
    @classmethod
    def _empty_to_none(cls, value: object) -> object:
        return None if value == "" else value

    @field_validator("rate_requests", "rate_characters", mode="before")
    @classmethod
    def _read_rate(cls, value: object) -> object:
        return (Rate.parse(value) if value.strip() else None) if isinstance(value, str) else value

    @field_validator("root_path")
    @classmethod
    def _check_root(cls, value: str) -> str:
        if not re.fullmatch(r"(/[A-Za-z0-9._~-]+)*/?", value):
            raise ValueError("a path begins with a slash, like /mt or /tools/mt")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _check_llm(self) -> Settings:
        if self.llm and not re.match(r"https?://[^/\s]", self.llm):
            raise ValueError("INTERLINEAR_LLM is an address such as http://localhost:8080/v1")
        if self.llm and not self.llm_model:
            raise ValueError("INTERLINEAR_LLM_MODEL: name the large model")
        if not all(re.fullmatch(r"[A-Za-z]+-[A-Za-z-]+", pair) for pair in self.llm_pairs):
            raise ValueError("INTERLINEAR_LLM_PAIRS are pairs of languages, such as en-fr,en-ja")
        return self

    @field_validator("store")
    @classmethod
    def _check_store(cls, value: str | None) -> str | None:
        if value and not re.match(r"(redis|rediss|unix)://.", value):
            raise ValueError("a store is redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH")
        return value

    @field_validator("port", "admin_port", mode="before")
    @classmethod
    def _ignore_kubernetes(cls, value: object, info: ValidationInfo) -> object:
        """For a Service named "interlinear", Kubernetes sets INTERLINEAR_PORT=tcp://... in every pod."""
        return cls.model_fields[str(info.field_name)].default if _from_kubernetes(value) else value


def describe_settings() -> str:
    """The settings, one per line: variable, default, meaning."""
    return "\n".join(
        f"{f'{PREFIX}{name.upper()}={_default_text(field.default)}':<38} {field.description or ''}".rstrip()
        for name, field in Settings.model_fields.items()
    )


def _default_text(default: object) -> str:
    if default is None:
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    return ",".join(map(str, default)) if isinstance(default, list | tuple | dict) else str(default)


def load_settings(options: Mapping[str, object] | None = None) -> Settings:
    """The settings from the environment, overridden by the command line's `options`; None does not override. Raises
    SettingsError."""
    options_given = {name: value for name, value in (options or {}).items() if value is not None}
    try:
        return Settings(**options_given)  # type: ignore[arg-type]
    except ValidationError as error:
        faults = [
            f"{_option_name(str(e['loc'][0]), options_given)}{without_password(str(e['input']))}: {e['msg']}"
            for e in error.errors()
        ]
        raise SettingsError("; ".join(faults)) from None


def _option_name(field: str, options: Mapping[str, object]) -> str:
    return f"--{field.replace('_', '-')} " if field in options else f"{PREFIX}{field.upper()}="


def without_password(url: str) -> str:
    return re.sub(r"//.*@", "//...@", url)


def ignored_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables in `environ` that look like settings but are not: misspelt, or set by Kubernetes."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    ours = [name for name in environ if name.upper().startswith(PREFIX)]
    return sorted(name for name in ours if name.upper() not in known or _from_kubernetes(environ[name]))


def _from_kubernetes(value: object) -> bool:
    return isinstance(value, str) and value.startswith("tcp://")
