"""The registry of served bundles, by language pair. `app.services.startup` finds them in folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from app.errors import PairNotServed
from model.bundle import Bundle, BundleError
from model.languages import AUTO, served_code


class Catalogue:
    """Bundles, one per language pair; later places override earlier ones. Raises BundleError if one place has two for
    a pair."""

    def __init__(self, *places: Iterable[Bundle]) -> None:
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
        if (source, target) in self._bundles:
            return source, target
        source = AUTO if source.lower() == AUTO else served_code(source, [b.source for b in self]) or source
        reached = [bundle.target for bundle in self if source in (AUTO, bundle.source)]
        everywhere = [bundle.target for bundle in self]
        return source, served_code(target, reached) or served_code(target, everywhere) or target

    def find(self, source: str, target: str) -> Bundle:
        """The bundle that translates from `source` to `target`. Raises PairNotServed."""
        if bundle := self._bundles.get(self.codes(source, target)):
            return bundle
        served = ", ".join(bundle.pair for bundle in self)
        raise PairNotServed(f"No bundle translates from {source} to {target}. Served: {served}.")
