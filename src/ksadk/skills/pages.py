"""A listing that comes in pages, put together; and what can be wrong with the pages of a service."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
Parameters = dict[str, str]

PAGE_SIZE = 100
MAX_PAGES = 20
MAX_ITEMS = 10_000
"""Items that one answer may list: of a service that pages its own way, a page may have more than ours."""
FIRST_PAGE = {"PageNumber": "1", "PageSize": str(PAGE_SIZE)}


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page. total: how many items all pages have, where the service says."""

    items: Sequence[T]
    refused: Sequence[str]
    total: int | None

    @property
    def size(self) -> int:
        """How many items the service listed."""
        return len(self.items) + len(self.refused)


@dataclass(frozen=True)
class Whole(Generic[T]):
    """All pages. warnings: each begins with the word of what is wrong."""

    items: tuple[T, ...]
    refused: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def all_pages(
    ask: Callable[[dict[str, str]], Page[T]],
    what: str,
    *,
    key: Callable[[T], Hashable],
    first: dict[str, str],
) -> Whole[T]:
    """Ask for pages until they end: a short one, or as many items as there are said to be.

    `ask` is given a page's parameters. Where `first` has none, the service decides how many items its first
    page has; if these are not all, pages are asked for by number. An item that comes again counts once.
    """
    found: dict[Hashable, T] = {}
    refused: list[str] = []
    warnings: list[str] = []
    page = ask(first)
    number, total = (1 if first else 0), page.total
    while True:
        had = len(found)
        for item in page.items:
            found.setdefault(key(item), item)
        refused += page.refused
        if page.total != total:
            warnings.append(
                f"directory_changed: {what} had {total} items, then {page.total}, while it was listed"
            )
            total = page.total
        if _is_last(page, number, len(found) + len(refused), total):
            break
        if number and len(found) == had:
            warnings.append(f"pagination_repeated: page {number} of {what} has nothing new")
            break
        if number == MAX_PAGES:
            warnings.append(f"page_budget_exhausted: {what} has more than {MAX_PAGES} pages of {PAGE_SIZE}")
            break
        if not number and page.size < PAGE_SIZE:  # the service's own pages are smaller: begin again
            refused.clear()
            number = 1
        else:
            number = max(number + 1, 2)
        page = ask({"PageNumber": str(number), "PageSize": str(PAGE_SIZE)})
    if total is not None and len(found) + len(refused) < total:
        warnings.append(f"directory_incomplete: {what} has {total} items, and {len(found)} were listed")
    return Whole(tuple(found.values()), refused, warnings)


def _is_last(page: Page[T], number: int, had: int, total: int | None) -> bool:
    if total is not None:
        return had >= total or not page.size
    # Without a total only a full page can have one behind it, and more than a page is all there is.
    return page.size < PAGE_SIZE if number else page.size != PAGE_SIZE
