"""Loads a bundle's weights into a model, verifies them with the bundle's samples, and writes bundles.

The rest of the format, and its verification, is in `model.bundle`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.atomic_files import check_replaceable, replacing_folder
from model.bundle import Bundle, checked
from model.bundle_files import (
    ALIGNMENT,
    CARD,
    CONFIG,
    SUMS,
    TARGET_VOCABULARY,
    VOCABULARY,
    WEIGHTS,
    BundleError,
    file_of,
    format_version,
    read_bundle,
)
from model.decoding import as_backend
from model.decoding.batch import Backend
from model.hypothesis import Limits
from model.int8.weights import quantise_rows
from model.safetensors_format import Content, file_header, in_file_order, read_tensors
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from model.weight_storage import DTYPES, INT8, is_int8_matrix, scale_name, stored_tensors


@dataclass(frozen=True)
class LoadedBundle(Bundle):
    """A bundle with its model, in evaluation mode."""

    model: Transformer


_TENSOR_TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    INT8: torch.int8,
}
"""PyTorch's types, by safetensors' names for them."""
_ROWS = 4096
"""Rows of a weight that are stored together."""


def load_bundle(
    folder: Path,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    mapped: bool = False,
    restore: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]] | None = None,
) -> LoadedBundle:
    """Loads a bundle for inference with its weights as `dtype` on `device`. `mapped`: see `read_bundle`. `restore`: to
    be called in place of `restored`, for weights that are not to be in memory.

    Raises BundleError, with a one-line message, for a missing or changed file, another format version, or weights that
    do not have the architecture's shapes.
    """
    config, files = read_bundle(folder, mapped)
    bundle = checked(folder, config, files)
    try:
        alignment = _tensors(files[ALIGNMENT], False) if ALIGNMENT in files else {}
        weights = (restore or restored)(_tensors(files.pop(WEIGHTS), mapped) | alignment)
        model = Transformer.with_weights(bundle.architecture, weights)
    except (ValueError, TypeError, RuntimeError) as error:
        # PyTorch reports a wrong size in a RuntimeError of several lines.
        raise BundleError(f"{folder}: {(str(error) or repr(error)).splitlines()[0]}") from None
    known = {field.name: getattr(bundle, field.name) for field in dataclasses.fields(bundle)}
    return LoadedBundle(**known, model=model.to(device, dtype).eval())


def _tensors(content: Content, mapped: bool) -> dict[str, Tensor]:
    """The tensors of a file of weights, in its memory if it is `mapped`, else each in its own, aligned for products."""
    found = {}
    for name, (dtype, shape, data) in read_tensors(content).items():
        if mapped:
            found[name] = torch.frombuffer(data, dtype=_TENSOR_TYPES[dtype]).view(shape)
        else:
            found[name] = torch.empty(shape, dtype=_TENSOR_TYPES[dtype])
            found[name].view(-1).view(torch.uint8).numpy()[:] = np.frombuffer(data, np.uint8)
    return found


def fill(model: Transformer, weights: Mapping[str, Tensor]) -> None:
    """Copies `weights` by name into the parameters of `model`."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])


def stored(weights: Mapping[str, Tensor], storage: str) -> dict[str, Tensor]:
    """The tensors of model.safetensors for `weights`, in a type of `STORAGES`, on the CPU."""
    tensors: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if storage == "int8" and is_int8_matrix(name, tuple(weight.shape)):
            rows, scale = quantise_rows(weight.detach().float().cpu().numpy())
            tensors[name], tensors[scale_name(name)] = torch.from_numpy(rows).contiguous(), torch.from_numpy(scale)
        else:
            dtype = getattr(torch, "float16" if storage == "int8" else storage)
            tensors[name] = weight.detach().to("cpu", dtype).contiguous()
    return tensors


def restored(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights that `stored` made `tensors` of, rounded, int8 ones as float32. Stored again, they give `tensors`."""
    weights = dict(tensors)
    for name, tensor in tensors.items():
        if tensor.dtype == torch.int8:
            weights[name] = tensor.float().mul_(weights.pop(scale_name(name))[:, None])
    return weights


def check_samples(bundle: LoadedBundle, backend: Backend | None = None) -> None:
    """Translates the bundle's samples, with `backend` or the model itself; BundleError if a token differs."""
    samples, limits = bundle.spec.samples, bundle.spec.limits
    longest = max((len(sample.source_ids) for sample in samples), default=1)
    limits = limits.for_sources(longest, max((len(sample.target_prefix) for sample in samples), default=0))
    batch = as_backend(backend or bundle.model).new_batch(min(64, max(1, len(samples))), limits)
    bundle.spec.check_samples(batch)


def save_bundle(
    folder: Path,
    model: Transformer,
    tokenizer: Tokenizer,
    limits: Limits,
    record: Mapping[str, Any],
    card: str,
    *,
    target_tokenizer: Tokenizer | None = None,
    dtype: str = "float16",
    replace: bool = False,
    in_place: bool = False,
) -> None:
    """Writes a bundle to `folder`, its weights stored as `dtype`, one of `STORAGES`.

    `tokenizer` is the source's, and the target's as well unless there is a `target_tokenizer`. `record` completes
    config.json (source and target, or directions; training, metrics, licence, attribution, remarks, samples, and any of
    `bundle_files.LATER_SECTIONS`); `card` is the model card.

    The bundle is written beside its place and renamed, so that no reader sees a partial one. Raises NotReplaceable if
    one exists, unless `replace`; the old one is then swapped out and deleted last. With `in_place` the files are
    written into `folder` itself, which exists and which no reader knows yet.
    """
    if not in_place:
        check_replaceable(folder, replace)
    contents = {VOCABULARY: tokenizer.proto}
    if target_tokenizer is not None and target_tokenizer is not tokenizer:
        contents[TARGET_VOCABULARY] = target_tokenizer.proto
    if model.alignment is not None:
        contents[ALIGNMENT] = alignment_content(model)
    weights = {name: weight for name, weight in model.named_parameters() if file_of(name) == WEIGHTS}
    tensors = _stored_tensors(weights, dtype)
    config = {"architecture": model.config.to_dict(), "limits": dataclasses.asdict(limits), **record}
    config = {"format_version": format_version(config, {WEIGHTS: file_header(tensors), **contents}), **config}
    contents[CONFIG] = (json.dumps(config, indent=2, ensure_ascii=False) + "\n").encode()
    with nullcontext(folder) if in_place else replacing_folder(folder) as place:
        sums = {WEIGHTS: _write_weights(place / WEIGHTS, weights, tensors, dtype)}
        for name, content in contents.items():
            (place / name).write_bytes(content)
            sums[name] = hashlib.sha256(content).hexdigest()
        order = [name for name in (CONFIG, WEIGHTS, ALIGNMENT, VOCABULARY, TARGET_VOCABULARY) if name in sums]
        (place / SUMS).write_text("".join(f"{sums[name]}  {name}\n" for name in order))
        (place / CARD).write_bytes(card.encode())


def alignment_content(model: Transformer) -> bytes:
    """The file of the weights of its alignment head, which are few: in half precision whatever the others are in."""
    weights = {name: weight for name, weight in model.named_parameters() if file_of(name) == ALIGNMENT}
    tensors, numbers = _stored_tensors(weights, "float16"), stored(weights, "float16")
    parts = [numbers[name].view(-1).view(torch.uint8).numpy().tobytes() for name in in_file_order(tensors)]
    return file_header(tensors) + b"".join(parts)


def _stored_tensors(weights: Mapping[str, Tensor], storage: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The types and shapes of the tensors that `stored` makes."""
    shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
    found = stored_tensors(shapes, storage == "int8")
    return {name: (types[0] if len(types) == 1 else DTYPES[storage], shape) for name, (types, shape) in found.items()}


def _write_weights(
    path: Path, weights: Mapping[str, Tensor], tensors: Mapping[str, tuple[str, tuple[int, ...]]], storage: str
) -> str:
    """Writes model.safetensors, some rows at a time. Returns its SHA-256."""
    digest = hashlib.sha256()
    with open(path, "wb") as file:

        def write(content: bytes | memoryview) -> None:
            digest.update(content)
            file.write(content)

        write(file_header(tensors))
        for name in in_file_order(tensors):
            weight = name if name in weights else name.removesuffix(scale_name(""))
            for start in range(0, len(weights[weight]), _ROWS):  # at once they would need memory several times over
                tensor = stored({weight: weights[weight][start : start + _ROWS]}, storage)[name]
                write(tensor.view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
