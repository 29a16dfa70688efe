"""Rank skills by a query: name, alias and tag first, then how many of its words say what a skill is about."""

from __future__ import annotations

import bisect
import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ksadk import search_terms

EXACT_NAME, NAME, ALIAS, TAG = 100, 90, 80, 65
METADATA, METADATA_WORD, METADATA_MOST = 20, 10, 55
"""A match in the metadata scores METADATA, and METADATA_WORD for each word of it, up to METADATA_MOST."""

READ_CHARS = 1_000
READ_WORDS = 16
_INDEXED_CHARS = 4_000
_LEAST_BEGINNING = 3
_MOST_BEGINNINGS = 64
_SEPARATORS = re.compile(r"[\s_-]+")


class Searchable(Protocol):
    """What a skill is found by."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def aliases(self) -> Sequence[str]: ...
    @property
    def tags(self) -> Sequence[str]: ...
    @property
    def examples(self) -> Sequence[str]: ...


class Hit(NamedTuple):
    """One result: the skill's position, its score, and why: exact_name, name, alias, tag or metadata."""

    position: int
    score: int
    reason: str


class _Query(NamedTuple):
    """A query in one form whatever its case, width and separators, and as the terms that it asks for."""

    plain: str
    terms: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> _Query:
        text = _one_width(text[:READ_CHARS])
        terms = (term for part in search_terms.parts(text) for term in _asked(part))
        return cls(_plain(text), tuple(dict.fromkeys(terms))[:READ_WORDS])


class _Labels:
    """The short texts of one kind, such as names, and which skills have them."""

    def __init__(self) -> None:
        self.whole: dict[str, list[int]] = {}
        self._words: dict[str, list[int]] = {}

    def add(self, bit: int, texts: Iterable[str]) -> None:
        for text in texts:
            self.whole.setdefault(_plain(text), []).append(bit)
            for word in set(search_terms.terms(_one_width(text))):
                self._words.setdefault(word, []).append(bit)

    def holding(self, text: str) -> set[int]:
        """The skills of which one of these texts holds that one. One letter is part of too much."""
        if len(text) < 2 and text.isascii():
            return set()
        found = (bits for whole, bits in self.whole.items() if text in whole)
        return set(itertools.chain.from_iterable(found))

    def with_words(self, terms: Iterable[str]) -> set[int]:
        """The skills of which these texts hold all of those words, in any order; none for no words."""
        held = [set(self._words.get(term, ())) for term in terms]
        return set.intersection(*held) if held else set()


@dataclass(eq=False)
class SkillIndex:
    """An index over skills. Building is linear; a set of skills is a whole number with a bit for each."""

    skills: Sequence[Searchable]
    _by_name: list[int] = field(init=False)
    """The position of each bit's skill: bits are in the order of names."""
    _names: _Labels = field(init=False, default_factory=_Labels)
    _aliases: _Labels = field(init=False, default_factory=_Labels)
    _tags: _Labels = field(init=False, default_factory=_Labels)
    _held: dict[str, list[int]] = field(init=False, default_factory=dict)
    """For each term the bits of the skills that hold it anywhere."""
    _vocabulary: list[str] = field(init=False)
    _sets: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        names = [(_plain(skill.name), skill.name, at) for at, skill in enumerate(self.skills)]
        self._by_name = [at for *_, at in sorted(names)]
        for bit, at in enumerate(self._by_name):
            skill = self.skills[at]
            self._names.add(bit, [skill.name])
            self._aliases.add(bit, skill.aliases)
            self._tags.add(bit, skill.tags)
            for term in _terms_of(skill):
                self._held.setdefault(term, []).append(bit)
        self._vocabulary = sorted(self._held)

    def search(self, query: str, limit: int) -> list[Hit]:
        """The best `limit` skills, best first.

        Of equal scores the shorter name comes first, and in the metadata who holds more of the query's words,
        then who holds the rarer ones; then the first by name. A word that no skill holds stands for those
        that begin with it. What comes after 1,000 characters or 16 words is not read.
        """
        found: dict[int, Hit] = {}
        for score, reason, bits in self._levels(_Query.of(query)):
            for bit in itertools.islice((bit for bit in bits if bit not in found), limit - len(found)):
                found[bit] = Hit(self._by_name[bit], score, reason)
            if len(found) >= limit:
                break
        return list(found.values())

    def _levels(self, query: _Query) -> Iterator[tuple[int, str, Iterable[int]]]:
        """The skills of each score, best score first; a skill may come again with a lower one."""
        if query.plain:
            yield EXACT_NAME, "exact_name", self._names.whole.get(query.plain, ())
            named = self._named_in(query.plain) | self._names.holding(query.plain)
            yield NAME, "name", self._shortest_first(named | self._names.with_words(query.terms))
            called = self._aliases.holding(query.plain) | self._aliases.with_words(query.terms)
            yield ALIAS, "alias", self._shortest_first(called)
            tagged = {*self._tags.whole.get(query.plain, ()), *self._tags.with_words(query.terms)}
            yield TAG, "tag", self._shortest_first(tagged)
        yield from self._with_words(query.terms)

    def _named_in(self, text: str) -> set[int]:
        """The skills that are named in a query, by two words or more: one alone may just be a word."""
        padded = f"-{text}-"
        named = (bits for name, bits in self._names.whole.items() if "-" in name and f"-{name}-" in padded)
        return set(itertools.chain.from_iterable(named))

    def _shortest_first(self, bits: Iterable[int]) -> list[int]:
        return sorted(bits, key=lambda bit: (len(self.skills[self._by_name[bit]].name), bit))

    def _with_words(self, terms: Sequence[str]) -> Iterator[tuple[int, str, Iterable[int]]]:
        """The skills that hold words of the query, those with most of them first."""
        every = sorted((bits.bit_count(), term, bits) for term in terms if (bits := self._set(term)))
        sets = [bits for *_, bits in every]
        at_least = [(1 << len(self._by_name)) - 1, *(0 for _ in sets)]
        for held, bits in enumerate(sets, 1):
            for count in range(held, 0, -1):
                at_least[count] |= at_least[count - 1] & bits
        more = 0
        for count in range(len(sets), 0, -1):
            score = min(METADATA + METADATA_WORD * count, METADATA_MOST)
            yield score, "metadata", _rarest_first(at_least[count] & ~more, sets)
            more = at_least[count]

    def _set(self, term: str) -> int:
        """The skills that hold a term; where none does, those that hold a word that begins with it."""
        kept = self._sets.get(term)
        if kept is not None:
            return kept
        if term in self._held:
            self._sets[term] = _as_set(self._held[term])
            return self._sets[term]
        return functools.reduce(
            int.__or__, map(_as_set, map(self._held.__getitem__, self._beginning(term))), 0
        )

    def _beginning(self, term: str) -> list[str]:
        if len(term) < _LEAST_BEGINNING:
            return []
        first = bisect.bisect_left(self._vocabulary, term)
        near = itertools.islice(self._vocabulary, first, first + _MOST_BEGINNINGS)
        return list(itertools.takewhile(lambda word: word.startswith(term), near))


def _asked(part: str) -> Iterable[str]:
    """The terms that a part of a query asks for: of CJK text pairs, since a character is in too much."""
    return search_terms.pairs(part) or part if search_terms.is_cjk(part) else search_terms.terms_of(part)


def _terms_of(skill: Searchable) -> set[str]:
    """The terms that a skill is found by, of each kind of text only so much."""
    kinds = (skill.name, skill.description, *map("\n".join, (skill.aliases, skill.tags, skill.examples)))
    text = _one_width("\n".join(kind[:_INDEXED_CHARS] for kind in kinds))
    return {term for part in set(search_terms.parts(text)) for term in search_terms.terms_of(part)}


def _one_width(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


@functools.lru_cache(maxsize=16_384)
def _plain(text: str) -> str:
    return _SEPARATORS.sub("-", _one_width(text).casefold()).strip("-")


def _as_set(bits: list[int]) -> int:
    """Bits, in rising order, as one number."""
    digits = bytearray(b"0") * (bits[-1] + 1)
    for bit in bits:
        digits[-1 - bit] = 49  # "1"
    return int(digits, 2)


def _rarest_first(among: int, sets: Sequence[int]) -> Iterator[int]:
    """The bits of a set: first those in the first of `sets`, of these those in the second, and so on."""
    if not among:
        return
    if sets:
        yield from _rarest_first(among & sets[0], sets[1:])
        yield from _rarest_first(among & ~sets[0], sets[1:])
        return
    while among:
        lowest = among & -among
        yield lowest.bit_length() - 1
        among ^= lowest
