"""The bundles that are served, by language pair, as every request looks them up.

Knows neither requests nor decoding. How they are found in folders is `app.services.startup`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from app.errors import PairNotServed
from model.bundle import Bundle, BundleError
from model.languages import AUTO, served_code


class Catalogue:
    """Bundles, one a language pair: of several places the last that has one. Raises BundleError if two of one place
    are for the same pair."""

    def __init__(self, *places: Iterable[Bundle]) -> None:
        self._bundles: dict[tuple[str, str], Bundle] = {}
        self.replaced: list[tuple[Bundle, Bundle]] = []
        """Those that are not served, each with the one that is in its place."""
        for bundles in places:
            here: dict[tuple[str, str], Bundle] = {}
            for bundle in bundles:
                other = here.setdefault((bundle.source, bundle.target), bundle)
                if other is not bundle:
                    both = f"{other.folder} and {bundle.folder} both translate {bundle.pair}"
                    raise BundleError(f"{both}; keep one of them")
            self.replaced += [(self._bundles[pair], new) for pair, new in here.items() if pair in self._bundles]
            self._bundles |= here

    def described(self) -> Iterator[str]:
        """What is served and from where, a line a bundle, and which are not."""
        for bundle in self:
            yield f"serving {bundle.name} from {bundle.folder}"
        for old, new in self.replaced:
            yield f"not serving {old.name} from {old.folder}: {new.folder} takes its place"

    def __iter__(self) -> Iterator[Bundle]:
        return iter(self._bundles.values())

    def codes(self, source: str, target: str) -> tuple[str, str]:
        """The codes served that a client means by these, see `served_code`; one that is not served stays as it is.

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
