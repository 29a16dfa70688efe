"""The terms that a text is found by: words, in CJK text characters and pairs of them."""

from __future__ import annotations

import functools
import re

# ASCII words end at an underscore, at a digit and where camelCase turns; CJK text comes in runs.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_PARTS = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[{_CJK}]+|[^\W_A-Za-z0-9{_CJK}]+")

_IGNORED = frozenset(
    ["the", "an", "of", "to", "in", "on", "for", "and", "or", "is", "it", "with", "by", "as", "at", "from",
     "that", "this", "be", "are", "my", "me", "some", "how", "what", "which", "where", "when",
     "do", "does", "can", "please", "want", "tool"]
)  # fmt: skip


def parts(text: str) -> list[str]:
    """The words and the runs of CJK characters of a text, in its order."""
    return _PARTS.findall(text)


def terms(text: str) -> list[str]:
    """The terms of a text, in its order: words that say something, in lower case and as singulars; of CJK
    text, every character and every pair of neighbours."""
    return [term for part in _PARTS.findall(text) for term in terms_of(part)]


@functools.lru_cache(maxsize=16_384)
def terms_of(part: str) -> tuple[str, ...]:
    """The terms of one part."""
    if is_cjk(part):
        return (*part, *pairs(part))
    word = stem(part.lower())
    return () if len(word) < 2 or word in _IGNORED else (word,)


def is_cjk(part: str) -> bool:
    """Whether a part is a run of CJK characters."""
    first = part[0]
    return "\u3040" <= first <= "\u30ff" or "\u3400" <= first <= "\u9fff" or "\uac00" <= first <= "\ud7af"


def pairs(run: str) -> list[str]:
    """The pairs of neighbours in a run of characters."""
    return [run[index : index + 2] for index in range(len(run) - 1)]


def stem(word: str) -> str:
    """A plural as its singular; both sides go through it, so a wrong one does no harm."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
