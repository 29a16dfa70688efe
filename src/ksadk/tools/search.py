"""Rank tools by a query: a small inverted index over names, descriptions, groups and argument names."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ksadk import search_terms

NAME, SUMMARY, ARGUMENT, GROUP, TEXT = 4.0, 1.6, 1.2, 1.2, 1.0
"""What a term is worth where it stands; the best place counts. SUMMARY is a description's first line."""

_SYNONYM = 0.7
_READ_WORDS = 16
_MANY = 500
_INDEXED_CHARS = 2_000
"""How much of a description is read; the rest of a long one says little about what a tool is for."""

_SYNONYMS: dict[str, tuple[str, ...]] = {
    "grep": ("search",), "find": ("search",), "rg": ("search",), "lookup": ("search",), "query": ("search",),
    "open": ("read",), "cat": ("read",), "view": ("read",), "show": ("read", "list"), "get": ("read",),
    "ls": ("list",), "dir": ("list", "directory"), "folder": ("directory", "file"), "enumerate": ("list",),
    "rm": ("delete",), "remove": ("delete",), "erase": ("delete",), "unlink": ("delete",),
    "modify": ("edit",), "change": ("edit",), "replace": ("edit",), "patch": ("edit",), "update": ("edit",),
    "create": ("write",), "save": ("write",), "overwrite": ("write",),
    "execute": ("run",), "exec": ("run",), "launch": ("run",), "run": ("execute",),
    "shell": ("command",), "bash": ("command", "shell"), "terminal": ("command",), "cmd": ("command",),
    "script": ("code",), "python": ("code",), "snippet": ("code",), "program": ("code",),
    "url": ("fetch", "web"), "http": ("fetch", "web"), "download": ("fetch",), "browse": ("fetch", "web"),
    "page": ("fetch", "web"), "internet": ("web",), "online": ("web",), "google": ("web", "search"),
    "check": ("lint", "status"), "validate": ("lint",), "format": ("lint",), "health": ("status",),
    "info": ("status",), "container": ("sandbox",), "document": ("file",), "text": ("file",),
    "batch": ("multi",), "several": ("multi",), "many": ("multi",),
}  # fmt: skip

_CJK_SYNONYMS: dict[str, tuple[str, ...]] = {
    "读": ("read",), "查看": ("read", "status"), "打开": ("read",), "加载": ("load",), "写": ("write",),
    "保存": ("write",), "创建": ("write",), "新建": ("write",), "改": ("edit",), "编辑": ("edit",),
    "替换": ("edit",), "删": ("delete",), "移除": ("delete",), "列": ("list",), "目录": ("list", "directory"),
    "搜": ("search",), "查找": ("search",), "检索": ("search",), "文件": ("file",), "工作区": ("workspace",),
    "运行": ("run", "execute"), "执行": ("run", "execute"), "命令": ("command",), "终端": ("command",),
    "代码": ("code",), "脚本": ("code",), "沙箱": ("sandbox",), "技能": ("skill",), "状态": ("status",),
    "网": ("web",), "抓取": ("fetch",), "下载": ("fetch",), "检查": ("lint", "status"), "工具": (),
}  # fmt: skip
"""What a Chinese word in a query means in the words of tool names; found anywhere inside a run."""


class Document(NamedTuple):
    """What is known of one tool."""

    name: str
    description: str = ""
    group: str = ""
    arguments: tuple[str, ...] = ()
    prior: float = 1.0
    """A factor on all of its scores: above 1 for what is meant when a query does not say."""


class Hit(NamedTuple):
    """One result: the document's position, its score and, in words, why it is one."""

    position: int
    score: float
    reason: str


@dataclass(eq=False)
class ToolIndex:
    """An index over documents. Building is linear; a query touches only tools that share a term with it."""

    documents: list[Document]
    _weights: list[dict[str, float]] = field(init=False)
    _postings: dict[str, dict[float, list[int]]] = field(init=False)
    """For each term the positions that hold it, by what it is worth there."""
    _rank: list[int] = field(init=False)
    """The place of each document in the order of names."""

    def __post_init__(self) -> None:
        by_name = sorted(range(len(self.documents)), key=lambda position: self.documents[position].name)
        self._rank = [0] * len(by_name)
        for place, position in enumerate(by_name):
            self._rank[position] = place
        self._weights = [_weigh(document) for document in self.documents]
        self._postings = {}
        for position, weights in enumerate(self._weights):
            for term, worth in weights.items():
                self._postings.setdefault(term, {}).setdefault(worth, []).append(position)

    def search(self, query: str, limit: int, *, without: Collection[int] = ()) -> list[Hit]:
        """The best `limit` documents, best first, equal ones by name; `without` leaves positions out.

        A document scores, for each word of the query, its best match; rare words count more than common
        ones. Words after the first sixteen are not read, nor, unless there are no others, those that most
        of a great many documents hold.
        """
        words = _query_words(query)[:_READ_WORDS]
        scores = self._scores(words, _MANY) or self._scores(words[:1], len(self.documents))
        for position in without:
            scores.pop(position, None)
        best = sorted(
            self._best(scores, limit), key=lambda position: (-scores[position], self._rank[position])
        )
        return [Hit(position, round(scores[position], 3), self._reason(position, words)) for position in best]

    def _scores(self, words: list[dict[str, float]], many: int) -> dict[int, float]:
        scores: dict[int, float] = {}
        for word in words:
            found = self._word_scores(word, many)
            if len(found) > len(scores):
                found, scores = scores, found
            for position, score in found.items():
                scores[position] = scores.get(position, 0.0) + score
        return scores

    def _best(self, scores: dict[int, float], limit: int) -> Iterable[int]:
        """The positions of the best, in no order: of equal ones at the end, the first by name."""
        if len(scores) <= limit:
            return scores
        least = heapq.nlargest(limit, scores.values())[-1]
        better = [position for position, score in scores.items() if score > least]
        equal = [position for position, score in scores.items() if score == least]
        return better + heapq.nsmallest(limit - len(better), equal, key=self._rank.__getitem__)

    def _word_scores(self, word: dict[str, float], many: int) -> dict[int, float]:
        """The best score of a word in each document that it is in. A term that `many` documents hold, and
        most of them, says something only where it is part of a name."""
        groups: list[tuple[float, list[int]]] = []
        for term, share in word.items():
            postings = self._postings.get(term, {})
            count = sum(map(len, postings.values()))
            rarity = math.log(1 + len(self.documents) / count) if count else 0.0
            least = NAME if count > max(many, len(self.documents) // 2) else 0.0
            groups += [
                (share * rarity * worth, positions) for worth, positions in postings.items() if worth >= least
            ]
        best: dict[int, float] = {}
        for score, positions in sorted(groups):  # later, better scores overwrite earlier ones
            best.update(dict.fromkeys(positions, score))
        return best

    def _reason(self, position: int, words: list[dict[str, float]]) -> str:
        weights = self._weights[position]
        in_name: list[str] = []
        elsewhere: list[str] = []
        for word in words:
            terms = [term for term in word if term in weights]
            if terms:
                term = max(terms, key=lambda term: word[term] * weights[term])
                (in_name if weights[term] >= NAME * self.documents[position].prior else elsewhere).append(
                    term
                )
        parts = [("name", in_name), ("description", elsewhere)]
        return "; ".join(f"{place}: {', '.join(dict.fromkeys(terms))}" for place, terms in parts if terms)


def _weigh(document: Document) -> dict[str, float]:
    """Each term of a document and what it is worth there: later, better places overwrite earlier ones."""
    summary, _, rest = document.description[:_INDEXED_CHARS].partition("\n")
    weights = dict.fromkeys(search_terms.terms(rest), TEXT)
    for text, worth in (
        (" ".join(document.arguments), ARGUMENT),
        (document.group, GROUP),
        (summary, SUMMARY),
    ):
        weights.update(dict.fromkeys(search_terms.terms(text), worth))
    name = search_terms.terms(document.name)
    # Of two names that hold a word, the shorter one is more about it.
    weights.update(dict.fromkeys(name, NAME + 1 / (len(name) + 1)))
    if document.prior != 1.0:
        weights = {term: worth * document.prior for term, worth in weights.items()}
    return weights


def _query_words(query: str) -> list[dict[str, float]]:
    """For each word of the query, the terms that stand for it and what each is worth."""
    words: list[dict[str, float]] = []
    for part in search_terms.parts(query):
        if search_terms.is_cjk(part):
            meant = [terms for key, terms in _CJK_SYNONYMS.items() if key in part and terms]
            words += [dict.fromkeys(terms, 1.0) for terms in meant]
            words.append(dict.fromkeys(search_terms.pairs(part) or [part], 1.0))
            continue
        for word in search_terms.terms_of(part):
            synonyms = [search_terms.stem(term) for term in _SYNONYMS.get(word, ())]
            words.append({**dict.fromkeys(synonyms, _SYNONYM), word: 1.0})
    return words
