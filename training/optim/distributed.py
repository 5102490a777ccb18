"""Several processes that train one model: which one this is, what they tell each other, and how they end together.

    torchrun --standalone --nproc-per-node 2 -m training train --data data/mine --out runs/mine

torchrun tells each its number in the environment. Started without it, there is one process and no process group. Each
step they work on rows of the same batch and add up their gradients (DistributedDataParallel), so that N processes take
the steps that one would. On CPUs they talk through Gloo. On GPUs, a GPU each, gradients go through NCCL: that path is
written and has never been run.
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

Value = TypeVar("Value")

_PATIENCE = timedelta(hours=2)
"""How long the others wait for the first to evaluate and save. One that has died is noticed at once, without this; who
waits for a GPU that waits for it is ended by torchrun."""


@dataclass(frozen=True)
class World:
    """The processes of a run: this is number `rank`, from 0, of `size`."""

    rank: int = 0
    size: int = 1
    device_name: str = "cpu"

    @property
    def device(self) -> torch.device:
        """Where this process computes: on GPUs, one of its own."""
        return torch.device(self.device_name)

    @property
    def is_first(self) -> bool:
        """Whether this is the one that evaluates, saves and prints."""
        return self.rank == 0

    def parallel(self, module: nn.Module) -> nn.Module:
        """`module`, whose backward pass adds up the gradients of all processes and divides them by their number."""
        # The model's buffers are constants, alike in all. PyTorch 2.13 renamed the option that says so.
        renamed = "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
        constant: dict[str, Any] = {"forward_sync_buffers" if renamed else "broadcast_buffers": False}
        return DistributedDataParallel(module, **constant)

    def apart(self, module: object) -> AbstractContextManager[None]:
        """Within it, the backward pass of what is `parallel` leaves each process its own gradients."""
        return module.no_sync() if isinstance(module, DistributedDataParallel) else nullcontext()

    def sum(self, values: Tensor) -> Tensor:
        """`values` of all processes, added up."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def highest(self, number: int) -> int:
        """The highest `number` of any process: all get the same."""
        if self.size == 1:
            return number
        shared = torch.tensor(number)
        dist.all_reduce(shared, dist.ReduceOp.MAX)
        return int(shared.item())

    def from_first(self, compute: Callable[[], Value]) -> Value:
        """What `compute` gives in the first process, which alone calls it; the others wait for it."""
        if self.size == 1:
            return compute()
        found = [compute() if self.is_first else None]
        dist.broadcast_object_list(found, device=torch.device("cpu"))
        value: Any = found[0]
        return value  # type: ignore[no-any-return]

    def check_alike(self, value: object) -> None:
        """Raises DistributedError, in all processes, if `value` is not the same in all."""
        differs = self.from_first(lambda: value) != value
        if self.highest(int(differs)):
            raise DistributedError("the processes find different data or run folders: they must see the same files")

    def seed(self, seed: int, step: int) -> None:
        """Sets what dropout draws from in `step`: different in every process, and nothing that would need saving.

        One process alone keeps the generator that it has.
        """
        if self.size > 1:
            digest = hashlib.blake2b(f"{seed} {step} {self.rank}".encode(), digest_size=7).digest()
            torch.manual_seed(int.from_bytes(digest, "big"))


ALONE = World()


class DistributedError(ValueError):
    """Several processes cannot go on together, for a reason their user can act on."""


def processes_started() -> int:
    """How many torchrun has started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def joined(device: torch.device) -> Iterator[World]:
    """This process among those that torchrun started, each of which must come here; alone without torchrun.

    Raises DistributedError if another one dies.
    """
    if processes_started() == 1:
        yield World(device_name=str(device))
        return
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        if device.index >= torch.cuda.device_count():
            raise DistributedError(f"there are {torch.cuda.device_count()} GPUs here: --nproc-per-node is to be that")
        torch.cuda.set_device(device)
    try:
        # What processes tell each other of the run goes through Gloo: on a GPU it would wait for the step to end.
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=_PATIENCE)
        yield World(dist.get_rank(), dist.get_world_size(), str(device))
    except RuntimeError as error:
        if not _is_loss(error):
            raise
        raise DistributedError(
            "another process of this training has ended, and so all do; "
            "the same command goes on from what was saved last, with as many processes as you like"
        ) from error
    dist.destroy_process_group()


def _is_loss(error: RuntimeError) -> bool:
    """Whether it is from the connections between processes, not from the work of this one."""
    return isinstance(error, dist.DistError) or any(word in str(error).lower() for word in ("gloo", "connection"))
