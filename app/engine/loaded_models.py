"""Which models the workers may hold: within a limit of bytes, the least recently used make room for others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping


class LoadedModels:
    """The models that workers hold or may load, all workers the same, since they share the weights.

    Without a limit all models stay loaded. With one, a model that is not loaded waits for room: models without work in
    a worker leave, the least recently used first; if that is not enough, more of them get no new work until they have
    none. Models that wait get room in the order in which they asked, so none waits for ever.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        self.max_bytes = max_bytes
        self._sizes: dict[str, int] = {}
        self._loaded: OrderedDict[str, None] = OrderedDict()  # the least recently used first
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self._draining: set[str] = set()
        self._unloaded: list[str] = []

    def add_sizes(self, sizes: Mapping[str, int]) -> None:
        """Notes the bytes that each model takes, as a worker found."""
        self._sizes |= sizes

    def is_loaded(self, model: str) -> bool:
        return self.max_bytes is None or model in self._loaded

    @property
    def loaded(self) -> int:
        """The number of models loaded, of those whose sizes are known."""
        return len(self._sizes if self.max_bytes is None else self._loaded)

    def admitted(self, wanted: Collection[str], is_busy: Callable[[str], bool]) -> list[str]:
        """Those of the models `wanted`, which have waiting jobs, that workers may be given jobs of now.

        `is_busy`: whether a worker holds jobs of a model. Models that leave are in `take_unloaded`.
        """
        if self.max_bytes is None:
            return list(wanted)
        self._draining.clear()
        for model in [model for model in self._waiting if model not in wanted]:
            del self._waiting[model]  # its jobs were cancelled
        self._waiting |= dict.fromkeys(model for model in wanted if model not in self._loaded)
        new: set[str] = set()  # they have no work yet, and must not leave before they get some
        while self._waiting and self._make_room(next(iter(self._waiting)), new, is_busy):
            model, _ = self._waiting.popitem(last=False)
            self._loaded[model] = None
            new.add(model)
            if model in self._unloaded:  # no worker has been told yet
                self._unloaded.remove(model)
        admitted = [model for model in wanted if model in self._loaded and model not in self._draining]
        for model in admitted:
            self._loaded.move_to_end(model)
        return admitted

    def take_unloaded(self) -> list[str]:
        """The models that have left since the last call, which workers have to unload."""
        unloaded, self._unloaded = self._unloaded, []
        return unloaded

    def _make_room(self, model: str, new: Collection[str], is_busy: Callable[[str], bool]) -> bool:
        """Unloads models for `model`, as far as they have no work and are not `new`. Returns whether there is room;
        otherwise others drain."""
        assert self.max_bytes is not None
        excess = sum(self._sizes[one] for one in (*self._loaded, model)) - self.max_bytes
        older = [one for one in self._loaded if one not in new]
        for one in sorted(older, key=is_busy):  # stable: each half from the least recently used on
            if excess <= 0:
                break
            excess -= self._sizes[one]
            if is_busy(one):
                self._draining.add(one)
            else:
                del self._loaded[one]
                self._unloaded.append(one)
        return excess <= 0 and not self._draining
