"""The registry of served bundles, by language pair. `app.services.startup` finds them in folders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain

from app.errors import PairNotServed
from model.bundle import Bundle
from model.bundle_files import BundleError
from model.languages import AUTO, language_alone, served_code

PREFERRED_PIVOT = "en"
MAX_LISTED_PAIRS = 200
"""Maximum number of pairs that an error lists."""
_MAX_DIRECTIONS_KEPT = 1024
Pair = tuple[str, str]


class Catalogue:
    """Bundles, one per language pair. A bundle of one direction goes before bundles of several, wherever they are;
    otherwise later places override earlier ones.

    In one place a bundle of fewer directions goes before one of more. Raises BundleError if one place has two bundles
    of equally many for a pair.

    With `pivot`, two bundles also serve the pair that they make: fr-en and en-de serve fr-de. Pairs `beyond` them are
    served, too, but by no bundle: `route` does not find them.
    """

    def __init__(self, *places: Iterable[Bundle], pivot: bool = True, beyond: Iterable[Pair] = ()) -> None:
        self._bundles: dict[Pair, Bundle] = {}
        self.replaced: list[tuple[Bundle, Bundle]] = []
        """Bundles that do not serve one of their directions, in that direction, each with the one that does."""
        for bundles in places:
            here: dict[Pair, Bundle] = {}
            for bundle in sorted(bundles, key=lambda bundle: bundle.directions.count):
                for pair in bundle.directions:
                    other = here.setdefault(pair, bundle)
                    if other is bundle:
                        continue
                    if other.directions.count == bundle.directions.count:
                        both = f"{other.folder} and {bundle.folder} both translate {'-'.join(pair)}"
                        raise BundleError(f"{both}; keep one of them")
                    self.replaced.append((bundle.in_direction(*pair), other))
            for pair, new in here.items():
                old = self._bundles.get(pair, new)
                first, second = (old, new) if old.directions.count == 1 < new.directions.count else (new, old)
                if first is not second:
                    self.replaced.append((second.in_direction(*pair), first))
                self._bundles[pair] = first
        self._pivots = _pivots(list(self._bundles)) if pivot else {}
        """The language between the two of a pair that no bundle serves."""
        self._beyond = [pair for pair in beyond if not self.has_route(*pair)]
        self._served = list({id(bundle): bundle for bundle in self._bundles.values()}.values())
        self._in_direction = lru_cache(_MAX_DIRECTIONS_KEPT)(lambda pair: self._bundles[pair].in_direction(*pair))

    def descriptions(self) -> Iterator[str]:
        """Yields a line for each bundle: which is served from where, and which is overridden."""
        for bundle in self:
            yield f"serving {bundle.name} from {bundle.folder}"
        overridden = Counter((old.folder, new.folder) for old, new in self.replaced)
        for old, new in self.replaced:
            if count := overridden.pop((old.folder, new.folder), 0):
                more = f" and {count - 1:,} other pairs" if count > 1 else ""
                yield f"not serving {old.name}{more} from {old.folder}: {new.folder} takes its place"

    def __iter__(self) -> Iterator[Bundle]:
        """Yields every bundle that serves a pair; one of several directions once, without a choice."""
        return iter(self._served)

    def codes(self, source: str, target: str) -> Pair:
        """Maps a client's codes to served ones as `served_code` does; keeps a code that is not served.

        `source` may be AUTO.
        """
        if self.has_route(source, target):
            return source, target
        source = AUTO if source.lower() == AUTO else served_code(source, self.source_languages) or source
        direct = self.target_languages if source == AUTO else self._direct_targets.get(source, [])
        reached = [] if source == AUTO else self.targets(source)
        everywhere = self.target_languages
        return source, next(filter(None, (served_code(target, of) for of in (direct, reached, everywhere))), target)

    def pairs(self) -> Iterator[Pair]:
        """Yields every pair served: those with a bundle, those through another language, and those beyond."""
        yield from self._bundles
        yield from self._pivots
        yield from self._beyond

    def has_route(self, source: str, target: str) -> bool:
        """Whether bundles serve a pair of served codes."""
        return (source, target) in self._bundles or (source, target) in self._pivots

    @cached_property
    def language_pairs(self) -> Mapping[Pair, None]:
        """The keys are the pairs served, without variants of languages, in the order of `pairs`."""
        alone = {code: language_alone(code) for code in chain(self.source_languages, self.target_languages)}
        return dict.fromkeys((alone[source], alone[target]) for source, target in self.pairs())

    @cached_property
    def source_languages(self) -> Sequence[str]:
        """The languages that are translated, in the order of the bundles."""
        return list(dict.fromkeys(source for source, _ in (*self._bundles, *self._beyond)))

    @cached_property
    def target_languages(self) -> Sequence[str]:
        """The languages that others are translated into, in the order of the bundles."""
        return list(dict.fromkeys(target for _, target in (*self._bundles, *self._beyond)))

    @cached_property
    def languages(self) -> Sequence[str]:
        """All that are sources or targets, by code."""
        return sorted({*self.source_languages, *self.target_languages})

    @cached_property
    def targets_by_source(self) -> Mapping[str, Sequence[str]]:
        """By source language, the languages that it is translated into, those with a bundle first."""
        return _grouped(self.pairs())

    def targets(self, source: str) -> Sequence[str]:
        """The languages that `source` is translated into, those with a bundle first."""
        return self.targets_by_source.get(source, [])

    def sources(self, target: str) -> Sequence[str]:
        """The languages that are translated into `target`, those with a bundle first."""
        return self._sources_by_target.get(target, [])

    @cached_property
    def _sources_by_target(self) -> Mapping[str, Sequence[str]]:
        return _grouped((target, source) for source, target in self.pairs())

    @cached_property
    def _direct_targets(self) -> Mapping[str, Sequence[str]]:
        return _grouped(self._bundles)

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
        """The bundles that translate from `source` to `target`, each in its direction, one after another: one or two.
        Raises PairNotServed."""
        pair = source, target = self.codes(source, target)
        if pair in self._bundles:
            return [self._in_direction(pair)]
        if pivot := self._pivots.get(pair):
            return [self._in_direction((source, pivot)), self._in_direction((pivot, target))]
        raise PairNotServed(f"No bundle translates from {source} to {target}. Served: {listed_pairs(self.pairs())}.")


def listed_pairs(pairs: Iterable[Pair]) -> str:
    """Names pairs in an error, if there are many only the first."""
    names = ["-".join(pair) for pair in pairs]
    more = f" and {len(names) - MAX_LISTED_PAIRS:,} others" if len(names) > MAX_LISTED_PAIRS else ""
    return ", ".join(names[:MAX_LISTED_PAIRS]) + more


def _grouped(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    """By the first of each pair, the second ones in order."""
    groups: dict[str, list[str]] = {}
    for one, other in pairs:
        groups.setdefault(one, []).append(other)
    return groups


def _pivots(pairs: Sequence[Pair]) -> dict[Pair, str]:
    """The pivot language of each pair that only two of `pairs` together make: English if possible, else the first.

    Two variants of one language are no such pair: one is not a translation of the other.
    """
    targets = _grouped(pairs)
    everywhere = dict.fromkeys(target for _, target in pairs)
    missing = {source: everywhere.keys() - {source, *direct} for source, direct in targets.items()}
    by_pivot = sorted(pairs, key=lambda pair: language_alone(pair[1]) != PREFERRED_PIVOT)
    found: dict[Pair, str] = {}
    for source, pivot in by_pivot:
        if not missing[source]:
            continue  # so is every source of a bundle for all pairs, of which there may be tens of thousands
        for target in targets.get(pivot, []):
            if target in missing[source] and language_alone(source) != language_alone(target):
                found.setdefault((source, target), pivot)
    return found
