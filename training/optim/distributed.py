"""Distributed training: ranks, communication between processes, and ending together.

    torchrun --standalone --nproc-per-node 2 -m training train --data data/mine --out runs/mine

torchrun passes each process its rank in the environment. Without torchrun there is one process, and no process group.
In each step the processes compute rows of the same batch and add their gradients (DistributedDataParallel), so that N
processes take the same steps as one. CPUs communicate through Gloo. GPUs, one per process, exchange gradients through
NCCL: that path is written and has never been run.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from training.launch import processes_started

Value = TypeVar("Value")

_PATIENCE = timedelta(hours=2)
"""Timeout for processes that wait while the first one evaluates and saves. It is not needed to detect a dead process;
torchrun ends processes that wait for each other's GPU."""


@dataclass(frozen=True)
class World:
    """The processes of a run: this one has rank `rank`, from 0 to `size` - 1."""

    rank: int = 0
    size: int = 1
    device_name: str = "cpu"

    @property
    def device(self) -> torch.device:
        """The device of this process; each process has its own GPU."""
        return torch.device(self.device_name)

    @property
    def is_first(self) -> bool:
        """Whether this process evaluates, saves and prints."""
        return self.rank == 0

    def parallel(self, module: nn.Module, some_unused: bool) -> nn.Module:
        """Wraps `module` so that its backward pass averages the gradients of all processes.

        `some_unused`: whether there are passes in which some parameters have no gradient.
        """
        # The model's buffers are constants, equal in all processes. PyTorch 2.13 renamed the option that says so.
        renamed = "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
        constant: dict[str, Any] = {"forward_sync_buffers" if renamed else "broadcast_buffers": False}
        return DistributedDataParallel(module, find_unused_parameters=some_unused, **constant)

    def no_sync(self, module: object) -> AbstractContextManager[None]:
        """A context in which the backward pass of a `parallel` module does not exchange gradients."""
        return module.no_sync() if isinstance(module, DistributedDataParallel) else nullcontext()

    def sum(self, values: Tensor) -> Tensor:
        """The sum of all processes' `values`."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def max(self, number: int) -> int:
        """The highest `number` of all processes, in all processes."""
        if self.size == 1:
            return number
        shared = torch.tensor(number)
        dist.all_reduce(shared, dist.ReduceOp.MAX)
        return int(shared.item())

    def broadcast_from_first(self, compute: Callable[[], Value]) -> Value:
        """The result of `compute` in all processes. Only the first one calls it; the others wait."""
        if self.size == 1:
            return compute()
        found = [compute() if self.is_first else None]
        dist.broadcast_object_list(found, device=torch.device("cpu"))
        value: Any = found[0]
        return value  # type: ignore[no-any-return]

    def check_equal(self, value: object) -> None:
        """Raises DistributedError in all processes if `value` differs between any."""
        differs = self.broadcast_from_first(lambda: value) != value
        if self.max(int(differs)):
            raise DistributedError("the processes find different data or run folders: they must see the same files")

    def seed(self, seed: int, step: int) -> None:
        """Seeds dropout for `step`, differently in every process, so that no generator state needs saving.

        A single process keeps its generator.
        """
        if self.size > 1:
            digest = hashlib.blake2b(f"{seed} {step} {self.rank}".encode(), digest_size=7).digest()
            torch.manual_seed(int.from_bytes(digest, "big"))


ALONE = World()


class DistributedError(ValueError):
    """Several processes cannot continue together, for a reason that the user can act on."""


@contextmanager
def joined(device: torch.device) -> Iterator[World]:
    """A context with the World of the processes that torchrun started, or of a single process without torchrun.

    All processes must enter it. Raises DistributedError if another process dies.
    """
    if processes_started() == 1:
        yield World(device_name=str(device))
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        if device.index >= torch.cuda.device_count():
            raise DistributedError(f"there are {torch.cuda.device_count()} GPUs here: set --nproc-per-node to that")
        torch.cuda.set_device(device)
    try:
        # Control messages between processes go through Gloo: on a GPU they would wait for the step to end.
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=_PATIENCE)
        yield World(dist.get_rank(), dist.get_world_size(), str(device))
    except RuntimeError as error:
        if not _is_connection_error(error):
            raise
        raise DistributedError(
            "another process of this training has ended, so all of them end; "
            "the same command resumes from the last saved state, with any number of processes"
        ) from error
    dist.destroy_process_group()


def _is_connection_error(error: RuntimeError) -> bool:
    """Whether an error comes from a connection between processes rather than from this process's work."""
    return isinstance(error, dist.DistError) or any(word in str(error).lower() for word in ("gloo", "connection"))
