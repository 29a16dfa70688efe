"""What a git command does: reads, changes the repository, or loses work."""

from __future__ import annotations

import re

from ksadk.tools.commands.findings import CHANGES, READS_GIT, Finding, unclear, worst
from ksadk.tools.commands.flags import read_flags
from ksadk.tools.commands.operands import into_protected
from ksadk.tools.commands.places import judge_write, leads_outside
from ksadk.tools.commands.programs import PROGRAMS
from ksadk.tools.commands.words import UNKNOWN, Word

LOOKS = READS_GIT._replace(reason="read_only")
REFUSED = frozenset({"reset", "clean", "push", "checkout"})

_WITH_VALUE = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"}
)
_GLOBAL = frozenset(
    {"--no-pager", "-P", "--no-replace-objects", "--literal-pathspecs", "--no-optional-locks"}
)

_LISTING = frozenset(
    {"-l", "--list", "--contains", "--merged", "--no-merged", "--no-contains", "--points-at"}
)
_REMOTE = re.compile(r"\w[\w./-]*", re.ASCII)


def judge_git(words: tuple[Word, ...]) -> Finding:
    """What git does with these arguments."""
    at, problem = _subcommand(words)
    name = words[at].text if at < len(words) else ""
    if any(word.text in REFUSED for word in words[at : at + 1]) or (problem and _names_refused(words)):
        return Finding("reject", "git_refused", f"git {_refused_in(words)} discards or publishes work")
    if problem:
        return unclear(f"git {problem}")
    if not name:
        return LOOKS if _is_question(words) else unclear("git with no command")
    if UNKNOWN in name or not words[at].known:
        return Finding("ask", "unknown_words", "runs a git command that only the run will tell")
    finding = _judge_subcommand(name, words[at + 1 :])
    moved = any(word.text.startswith("-C") for word in words[:at])
    return CHANGES if moved and finding is READS_GIT else finding


def _is_question(words: tuple[Word, ...]) -> bool:
    return [word.text for word in words] in (["--version"], ["--help"])


def _names_refused(words: tuple[Word, ...]) -> bool:
    return any(word.text in REFUSED for word in words)


def _refused_in(words: tuple[Word, ...]) -> str:
    return next(word.text for word in words if word.text in REFUSED)


def _subcommand(words: tuple[Word, ...]) -> tuple[int, str]:
    """Where the subcommand stands, and what is not harmless in front of it."""
    at, problem = 0, ""
    while at < len(words) and words[at].may_be_flag:
        text = words[at].text
        if text in ("--version", "--help") and at == 0:
            return len(words), problem
        name, joined, value = text.partition("=")
        if name == "-C" or (text in _WITH_VALUE and not joined):
            value = words[at + 1].text if at + 1 < len(words) else ""
            at += 1
            if name != "-C" or leads_outside(value) or UNKNOWN in value or not value:
                problem = problem or f"{name} may make it run other programs"
        elif text not in _GLOBAL:
            problem = problem or f"{name.replace(UNKNOWN, '...')} is not known to be harmless"
        at += 1
    return at, problem


def _judge_subcommand(name: str, words: tuple[Word, ...]) -> Finding:
    kind, flags = PROGRAMS.get(f"git {name}", ("", ""))
    if kind in ("g-read", "g-look"):
        reading = read_flags(flags, words)
        changing = name == "reflog" and any(word.text in ("expire", "delete") for word in reading.operands)
        if reading.problem or changing:
            return unclear(f"git {name}: {reading.problem or 'it deletes entries'}")
        return READS_GIT if kind == "g-read" else LOOKS
    if kind == "g-tree":
        return _judge_branch(words, flags)
    if name in ("stash", "remote", "worktree", "submodule", "config", "notes", "bisect"):
        return _judge_nested(name, words)
    if kind != "g-edit":
        return Finding("ask", "repository", f"git {name} may lose work, or is not known")
    reading = read_flags(flags, words)
    if reading.problem:
        return unclear(f"git {name}: {reading.problem}")
    if name in ("init", "mv") and reading.operands:
        places = [judge_write(word, elsewhere=False) for word in reading.operands]
        found = [place for place in (*places, into_protected(reading.operands)) if place is not None]
        if found:
            return worst(found)
    if name == "fetch" and not all(word.known and _REMOTE.fullmatch(word.text) for word in reading.operands):
        return Finding("ask", "network", "git fetch from a place that is named here")
    return CHANGES._replace(does=f"git {name} changes the repository")


def _judge_branch(words: tuple[Word, ...], flags: str) -> Finding:
    reading = read_flags(flags, words)
    if reading.problem:
        return Finding("ask", "repository", "git branch moves, deletes or changes a branch")
    listing = any(word.text.partition("=")[0] in _LISTING for word in words)
    return READS_GIT if listing or not reading.operands else CHANGES._replace(does="makes a branch")


_NESTED = {
    "stash": {
        "list": READS_GIT,
        "show": READS_GIT,
        "push": CHANGES,
        "": CHANGES,
        "apply": CHANGES,
        "pop": CHANGES,
    },
    "remote": {"": READS_GIT, "show": READS_GIT, "get-url": READS_GIT},
    "worktree": {"list": READS_GIT},
    "submodule": {"status": READS_GIT, "": READS_GIT},
    "config": {},
    "notes": {"list": READS_GIT, "show": READS_GIT, "": READS_GIT},
    "bisect": {"log": READS_GIT},
}
_NESTED_FLAGS = (
    PROGRAMS["git log"][1]
    + " -v -q -m= --message= --all --porcelain --verbose --recursive --include-untracked"
)


def _judge_nested(name: str, words: tuple[Word, ...]) -> Finding:
    if name == "config":
        return _judge_config(words)
    reading = read_flags(_NESTED_FLAGS, words)
    verb = reading.operands[0] if reading.operands else None
    finding = _NESTED[name].get(verb.text if verb is not None else "")
    if reading.problem or finding is None or (verb is not None and not verb.known):
        return Finding("ask", "repository", f"git {name} may lose work, or is not known")
    return LOOKS if finding is READS_GIT else finding


def _judge_config(words: tuple[Word, ...]) -> Finding:
    texts = [word.text for word in words if word.known]
    flags = {"--get", "--get-all", "--list", "-l", "--global", "--local", "--show-origin", "--get-regexp"}
    reads = {"--get", "--get-all", "--list", "-l", "--get-regexp"} & set(texts)
    plain = all(text in flags or not text.startswith("-") for text in texts) and len(texts) == len(words)
    if plain and (reads or (len(texts) == 1 and "." in texts[0])):
        return LOOKS
    return Finding("ask", "repository", "git config may change which programs git starts")
