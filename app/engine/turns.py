"""Whose turn it is: clients take turns, one job each, and so do the requests of each client, a few jobs each."""

from __future__ import annotations

from collections import OrderedDict

from app.engine.job import TURN_JOBS, Job, JobGroup


class _Requests:
    """A client's requests with waiting jobs: new ones, which take turns, and those that continue, in their order.

    The two kinds alternate, so that a request that has begun soon ends, and keeps nobody waiting.
    """

    def __init__(self) -> None:
        self._continuing, self._new = (OrderedDict[JobGroup, None](), OrderedDict[JobGroup, None]())
        self._new_is_next = False

    def __bool__(self) -> bool:
        return bool(self._continuing or self._new)

    def add(self, group: JobGroup) -> None:
        (self._continuing if group.continues else self._new)[group] = None

    def remove(self, group: JobGroup) -> None:
        del (self._continuing if group.continues else self._new)[group]

    def first(self) -> JobGroup:
        is_new = not self._continuing or (self._new_is_next and bool(self._new))
        return next(iter(self._new if is_new else self._continuing))

    def end_turn(self, group: JobGroup) -> None:
        self._new_is_next = group.continues
        if group in self._new and not group.started % TURN_JOBS:
            self._new.move_to_end(group)


class ClientTurns:
    """The requests with waiting jobs for one model."""

    def __init__(self) -> None:
        self._requests: OrderedDict[str, _Requests] = OrderedDict()
        """By client, in the order of their turns."""
        self.requests = 0

    def __bool__(self) -> bool:
        return bool(self._requests)

    def add(self, group: JobGroup) -> None:
        """Adds a request behind the client's others of its kind, and a client that had none behind the others."""
        self._requests.setdefault(group.client.name, _Requests()).add(group)
        group.client.requests += 1
        self.requests += 1

    def remove(self, group: JobGroup) -> None:
        """Removes a request that has no waiting jobs any more."""
        requests = self._requests[group.client.name]
        requests.remove(group)
        group.client.requests -= 1
        self.requests -= 1
        if not requests:
            del self._requests[group.client.name]

    def first(self) -> JobGroup | None:
        """The request whose turn it is."""
        return next(iter(self._requests.values())).first() if self._requests else None

    def take(self, group: JobGroup) -> Job:
        """Takes the next job of `group`."""
        job = group.waiting.popleft()
        group.started += 1
        if not group.waiting:
            self.remove(group)
        return job

    def end_turn(self, group: JobGroup) -> None:
        """Puts the client behind the others, and a request behind the client's others if its own turn is over."""
        if requests := self._requests.get(group.client.name):
            self._requests.move_to_end(group.client.name)
            requests.end_turn(group)
