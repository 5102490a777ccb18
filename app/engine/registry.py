"""The registry of served bundles, by language pair. `app.services.startup` finds them in folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from app.errors import PairNotServed
from model.bundle import Bundle
from model.bundle_files import BundleError
from model.languages import AUTO, language_alone, served_code

PREFERRED_PIVOT = "en"


class Catalogue:
    """Bundles, one per language pair; later places override earlier ones. Raises BundleError if one place has two for
    a pair.

    With `pivot`, two bundles also serve the pair that they make: fr-en and en-de serve fr-de.
    """

    def __init__(self, *places: Iterable[Bundle], pivot: bool = True) -> None:
        self._bundles: dict[tuple[str, str], Bundle] = {}
        self.replaced: list[tuple[Bundle, Bundle]] = []
        """Overridden bundles, each with the one served instead."""
        for bundles in places:
            here: dict[tuple[str, str], Bundle] = {}
            for bundle in bundles:
                other = here.setdefault((bundle.source, bundle.target), bundle)
                if other is not bundle:
                    both = f"{other.folder} and {bundle.folder} both translate {bundle.pair}"
                    raise BundleError(f"{both}; keep one of them")
            self.replaced += [(self._bundles[pair], new) for pair, new in here.items() if pair in self._bundles]
            self._bundles |= here
        self._pivots = _pivots(list(self._bundles)) if pivot else {}
        """The language between the two of a pair that no bundle serves."""

    def descriptions(self) -> Iterator[str]:
        """Yields a line for each bundle: which is served from where, and which is overridden."""
        for bundle in self:
            yield f"serving {bundle.name} from {bundle.folder}"
        for old, new in self.replaced:
            yield f"not serving {old.name} from {old.folder}: {new.folder} takes its place"

    def __iter__(self) -> Iterator[Bundle]:
        return iter(self._bundles.values())

    def codes(self, source: str, target: str) -> tuple[str, str]:
        """Maps a client's codes to served ones as `served_code` does; keeps a code that is not served.

        `source` may be AUTO.
        """
        if (source, target) in self._bundles or (source, target) in self._pivots:
            return source, target
        source = AUTO if source.lower() == AUTO else served_code(source, [b.source for b in self]) or source
        direct = [bundle.target for bundle in self if source in (AUTO, bundle.source)]
        reached = [] if source == AUTO else self.targets(source)
        everywhere = [bundle.target for bundle in self]
        return source, next(filter(None, (served_code(target, of) for of in (direct, reached, everywhere))), target)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yields every pair served: those with a bundle, then those through another language."""
        yield from self._bundles
        yield from self._pivots

    def targets(self, source: str) -> list[str]:
        """The languages that `source` is translated into, those with a bundle first."""
        return [target for of, target in self.pairs() if of == source]

    def sources(self, target: str) -> list[str]:
        """The languages that are translated into `target`, those with a bundle first."""
        return [source for source, into in self.pairs() if into == target]

    def find(self, source: str, target: str) -> Bundle:
        """The bundle that translates from `source` to `target`. Raises PairNotServed."""
        route = self.route(source, target)
        if len(route) == 1:
            return route[0]
        first, second = route
        raise PairNotServed(
            f"No bundle translates from {source} to {target} directly, only {first.pair} and then {second.pair}: "
            f"name one of these two pairs."
        )

    def route(self, source: str, target: str) -> list[Bundle]:
        """The bundles that translate from `source` to `target`, one after another: one or two. Raises
        PairNotServed."""
        pair = source, target = self.codes(source, target)
        if bundle := self._bundles.get(pair):
            return [bundle]
        if pivot := self._pivots.get(pair):
            return [self._bundles[source, pivot], self._bundles[pivot, target]]
        served = ", ".join(f"{of}-{to}" for of, to in self.pairs())
        raise PairNotServed(f"No bundle translates from {source} to {target}. Served: {served}.")


def _pivots(pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The pivot language of each pair that only two of `pairs` together make: English if possible, else the first.

    Two variants of one language are no such pair: one is not a translation of the other.
    """
    served = set(pairs)
    first_legs = sorted(pairs, key=lambda pair: language_alone(pair[1]) != PREFERRED_PIVOT)
    found: dict[tuple[str, str], str] = {}
    for source, pivot in first_legs:
        for _, target in (pair for pair in pairs if pair[0] == pivot):
            if (source, target) not in served and language_alone(source) != language_alone(target):
                found.setdefault((source, target), pivot)
    return found
