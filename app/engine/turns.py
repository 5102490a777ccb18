"""Whose turn it is: clients take turns, one job each, and so do the requests of each client, a few jobs each."""

from __future__ import annotations

from collections import OrderedDict

from app.engine.job import TURN_JOBS, Job, JobGroup


class ClientTurns:
    """The requests with waiting jobs for one model."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, OrderedDict[JobGroup, None]] = OrderedDict()
        """By client, both in the order of their turns."""
        self.requests = 0

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add(self, group: JobGroup, first: bool = False) -> None:
        """Adds a request behind the others of its client, or before them, and a client that had none behind the other
        clients."""
        groups = self._groups.setdefault(group.client.name, OrderedDict())
        groups[group] = None
        if first:
            groups.move_to_end(group, last=False)
        group.client.requests += 1
        self.requests += 1

    def remove(self, group: JobGroup) -> None:
        """Removes a request that has no waiting jobs any more."""
        groups = self._groups[group.client.name]
        del groups[group]
        group.client.requests -= 1
        self.requests -= 1
        if not groups:
            del self._groups[group.client.name]

    def first(self) -> JobGroup | None:
        """The request whose turn it is."""
        return next(iter(next(iter(self._groups.values()))), None) if self._groups else None

    def take(self, group: JobGroup) -> Job:
        """Takes the next job of `group`."""
        job = group.waiting.popleft()
        group.started += 1
        if not group.waiting:
            self.remove(group)
        return job

    def end_turn(self, group: JobGroup) -> None:
        """Puts the client behind the others, and the request behind the client's others if its own turn is over."""
        if groups := self._groups.get(group.client.name):
            self._groups.move_to_end(group.client.name)
            if group in groups and not group.started % TURN_JOBS:
                groups.move_to_end(group)
