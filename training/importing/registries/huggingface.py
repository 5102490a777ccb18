"""Repositories of the Hugging Face Hub: M2M-100, NLLB-200, OPUS-MT, CTranslate2 folders.

The Hub lists one repository at a time, with sizes, and with checksums of large files. Files that are pickles are left.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from training.importing.errors import ImportFault
from training.importing.model_files import MAX_TEXT_BYTES
from training.importing.registries.offer import (
    MAX_MODEL_BYTES,
    Figure,
    Offer,
    RemoteFile,
    evaluated_figures,
    parse_json,
    resolve_address,
    split_pair,
)

ADDRESS = "https://huggingface.co/"
HOSTS = ("huggingface.co", "*.huggingface.co", "*.hf.co")
"""Large files redirect to storages below these, as its documentation of firewalls lists them."""
WEIGHTS = re.compile(r"(model|model-\d{5}-of-\d{5})\.safetensors|model\.bin")
WANTED = re.compile(
    WEIGHTS.pattern + r"|model\.safetensors\.index\.json|(generation_|tokenizer_)?config\.json|tokenizer\.json"
    r"|special_tokens_map\.json|added_tokens\.json|(target_)?vocab\.json|(shared|source|target)_vocabulary\.(json|txt)|\w[\w.-]*\.spm(\.model)?"
    r"|sentencepiece(\.bpe)?\.model|spiece\.model|README\.md|LICENSE(\.\w+)?",
    re.ASCII,
)
NLLB = "facebook/nllb-200-distilled-600M"


def list_address(base: str, repository: str, revision: str | None) -> str:
    """The address of a repository's list of files."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository, re.ASCII):
        raise ImportFault(f"huggingface:{repository} is not of the form huggingface:OWNER/NAME")
    return f"{base.rstrip('/')}/api/models/{repository}/revision/{quote(revision or 'main', safe='')}?blobs=true"


def read_offer(content: bytes, base: str, repository: str, languages: tuple[str | None, str | None]) -> Offer:
    """The model of a repository, at the revision that was listed. `languages` are those that the user gave."""
    listed = parse_json(content, repository)
    siblings = listed.get("siblings") if isinstance(listed, dict) else None
    revision = listed.get("sha") if isinstance(listed, dict) else None
    if not isinstance(siblings, list) or not re.fullmatch(r"[0-9a-f]{40}", str(revision)):
        raise ImportFault(f"huggingface:{repository}: the Hub's answer has no list of files")
    entries = [entry for entry in siblings if isinstance(entry, dict) and isinstance(entry.get("rfilename"), str)]
    names = [entry["rfilename"] for entry in entries]
    if not any(WEIGHTS.fullmatch(name) for name in names):
        pickle = next((name for name in names if name.endswith((".bin", ".pt", ".h5"))), None)
        has = f"only {pickle}, which is not read since it may run code" if pickle else "no weights"
        raise ImportFault(
            f"huggingface:{repository} has {has}: it needs safetensors. Look for a revision that has them, such as "
            f"huggingface:{repository}@refs/pr/1, or convert it with save_pretrained(..., safe_serialization=True)"
        )
    files = tuple(
        _file(entry, base, repository, str(revision)) for entry in entries if WANTED.fullmatch(entry["rfilename"])
    )
    card = listed.get("cardData")
    licence = _licence(card) if isinstance(card, dict) else None
    tags = _languages(repository, languages)
    size = sum(file.size or 0 for file in files)
    return Offer(
        "huggingface", repository, str(revision), files, f"https://huggingface.co/{repository}",
        licence or "Not stated by the repository.",
        (f"{repository.split('/')[0]}: https://huggingface.co/{repository}",),
        *tags, size, _figures(repository, tags),
    )  # fmt: skip


def _licence(card: Mapping[str, Any]) -> str | None:
    """The licence or licences of a model card; for "other" its name, which may say that it forbids commercial use."""
    stated = card.get("license")
    licences = [licence for licence in (stated if isinstance(stated, list) else [stated]) if isinstance(licence, str)]
    if licences == ["other"] and isinstance(card.get("license_name"), str):
        licences = [card["license_name"]]
    return ", ".join(licences) or None


def _languages(repository: str, given: tuple[str | None, str | None]) -> tuple[str | None, str | None]:
    """What the user says goes first, then names such as opus-mt-en-fr."""
    match = re.fullmatch(r"Helsinki-NLP/opus-mt-(?:tc-(?:big|base)-)?([a-z]{2,3}-[a-z]{2,3})", repository)
    found = split_pair(match[1]) if match else (None, None)
    return given[0] or found[0], given[1] or found[1]


def _figures(repository: str, tags: tuple[str | None, str | None]) -> tuple[Figure, ...]:
    if repository == NLLB:
        return evaluated_figures("nllb-600m", *tags)
    return evaluated_figures("opus", *tags) if repository == f"Helsinki-NLP/opus-mt-{tags[0]}-{tags[1]}" else ()


def _file(entry: Mapping[str, Any], base: str, repository: str, revision: str) -> RemoteFile:
    name, size, lfs = entry["rfilename"], entry.get("size"), entry.get("lfs")
    sha256 = lfs.get("sha256") if isinstance(lfs, dict) else None
    limit = MAX_MODEL_BYTES if WEIGHTS.fullmatch(name) else MAX_TEXT_BYTES
    if not (size is None or (isinstance(size, int) and 0 <= size <= limit)):
        raise ImportFault(f"huggingface:{repository} has {name} with the size {size!r}")
    if not (sha256 is None or re.fullmatch(r"[0-9a-f]{64}", str(sha256))):
        raise ImportFault(f"huggingface:{repository} has {name} with the SHA-256 {sha256!r}")
    url = resolve_address(f"{base.rstrip('/')}/", f"{repository}/resolve/{revision}/{name}")
    return RemoteFile(url, name, limit, size, sha256)
