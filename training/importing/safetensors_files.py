"""The tensors of a Hugging Face folder, from one or several .safetensors. Pickles, which can run code, are refused."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from training.importing.errors import ImportFault
from training.importing.model_files import zip_names
from training.importing.weights import value_fault

_WEIGHTS = re.compile(r"(model|model-\d{5}-of-\d{5})\.safetensors")
_PICKLES = re.compile(r".*\.(bin|pt|pth|ckpt|pkl)")
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def is_pickle(path: Path) -> bool:
    """Whether a file is a pickle, such as PyTorch's .bin and .pt, by its content."""
    if not path.is_file():
        return False
    if zipfile.is_zipfile(path):
        return any(name.endswith("data.pkl") for name in zip_names(path))
    with open(path, "rb") as file:
        start = file.read(2)
    return len(start) == 2 and start[0] == 0x80 and 2 <= start[1] <= 5


def pickle_fault(path: Path) -> ImportFault:
    return ImportFault(
        f"{path} is a pickle, which may run code and is not read: convert it to safetensors with "
        "save_pretrained(..., safe_serialization=True)"
    )


def weight_files(folder: Path) -> list[Path]:
    """The files of weights. Raises ImportFault if there are none."""
    found = sorted(file for file in folder.iterdir() if file.is_file() and _WEIGHTS.fullmatch(file.name))
    if not found:
        pickles = [file for file in sorted(folder.iterdir()) if file.is_file() and _PICKLES.fullmatch(file.name)]
        raise pickle_fault(pickles[0]) if pickles else ImportFault(f"{folder} has no model.safetensors")
    return found


class StoredTensors(Mapping[str, Tensor]):
    """Tensors by name, read when asked for, as float32. Each raises ImportFault unless all its values are finite."""

    def __init__(self, folder: Path) -> None:
        self._places: dict[str, Path] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        for path in weight_files(folder):
            try:
                with safe_open(path, "pt") as file:
                    for name in list(file.keys()):
                        if name in self._places:
                            raise ImportFault(f"{path} has {name} again")
                        self._places[name] = path
                        self._shapes[name] = tuple(file.get_slice(name).get_shape())
            except (SafetensorError, OSError, ValueError) as error:
                if isinstance(error, ImportFault):
                    raise
                raise ImportFault(f"{path} is no safetensors file: {str(error).splitlines()[0]}") from None

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._places:
            raise ImportFault(f"has no {name}")
        with safe_open(self._places[name], "pt") as file:
            tensor: Tensor = file.get_tensor(name)
        if tensor.dtype not in _FLOATS:
            raise ImportFault(f"has {name} as {tensor.dtype}, which is not supported")
        if fault := value_fault(values := tensor.float()):
            raise ImportFault(f"has {name} with {fault}")
        return values

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def shape(self, name: str) -> tuple[int, ...]:
        """Raises ImportFault if there is no such tensor."""
        if name not in self._shapes:
            raise ImportFault(f"has no {name}")
        return self._shapes[name]
