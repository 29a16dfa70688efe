"""Where a command writes: in the workspace, outside of it, or where no tool may."""

from __future__ import annotations

import fnmatch
import posixpath
import re

from ksadk.project_files import PROTECTED_PATHS
from ksadk.tools.commands.addresses import is_metadata, mentions_metadata
from ksadk.tools.commands.findings import NETWORK, Finding
from ksadk.tools.commands.words import UNKNOWN, Script, Word, shown

SINKS = re.compile(r"/dev/(?:null|stdout|stderr|tty|fd/[0-9]+)")
_SOCKET = re.compile(r"/dev/(?:tcp|udp)(?:/|\Z)")
_PROTECTED = tuple(tuple(path.split("/")) for path in PROTECTED_PATHS)
_TOPS = frozenset(names[0] for names in _PROTECTED)
_PATTERN = re.compile(r"[*?\[]")
_MOVES = frozenset({"cd", "pushd", "popd"})
_SECRETS = re.compile(
    r"(?:~[\w-]*|(?:.*/)?root|(?:.*/)?home/[^/]+|\0)/\.(?:ssh|aws|azure|gnupg|netrc|kube|docker|git-credentials"
    r"|config|pypirc|npmrc|password-store|vault-token|\w+_history)(?:/.*|\Z)"
    r"|/(?:var/)?run/secrets(?:/.*|\Z)|/dev/(?:[shv]d|xvd|nvme|dm-|mapper/|disk/|k?mem).*"
    r"|/etc/(?:shadow|gshadow|sudoers).*|/proc/[^/]+/(?:environ|mem|root|cwd).*|(?:.*/)?\.agentengine(?:/.*|\Z)"
)
_RESULTS = re.compile(
    r".*\.(?:log|txt|out|err|json|xml|csv|tsv|md|html|diff|lock|svg|png)|/tmp/.*|/dev/.*", re.DOTALL
)
_CODE_ALL_THE_SAME = re.compile(
    r"(?:.*/)?(?:package|composer|deno|\.\w+rc|[\w.-]*config|[\w-]*project|nx|turbo|lerna|angular|CMake\w*)\.json"
    r"|(?:.*/)?(?:CMakeLists|requirements[\w-]*)\.txt|(?:.*/)?(?:pom|build|phpunit)\.xml"
)


def judge_write(word: Word, *, elsewhere: bool) -> Finding | None:
    """What is wrong with writing there, if anything. `elsewhere`: the line may leave the workspace first."""
    text = word.text
    if SINKS.fullmatch(text):
        return None
    if _SOCKET.match(text):
        host = text.split("/")[3:4]
        return metadata() if host and is_metadata(host[0]) else NETWORK
    if text.startswith("/dev/"):
        return Finding("reject", "device", f"writes to the device {shown(text)}")
    path = posixpath.normpath(text) if text else ""
    if is_protected(path):
        return protected(path)
    if UNKNOWN in text or word.splits or not text:
        return Finding("ask", "unknown_place", "writes where only the run will tell")
    if path.startswith("/tmp/") and not path.startswith("/tmp/."):  # the home of a sandbox
        return None
    if leads_outside(path):
        return Finding("ask", "outside_workspace", f"writes to {shown(path)}, outside of the workspace")
    if elsewhere and not path.startswith("/"):
        return Finding("ask", "outside_workspace", "writes after the line may have left the workspace")
    if path.casefold().startswith(".git/"):
        return Finding("ask", "repository", f"writes to {shown(path)} behind git's back")
    return None


def may_connect(word: Word) -> bool:
    """Whether a redirection from there may be a connection."""
    text = word.text
    return _SOCKET.match(text) is not None or (text.startswith("/dev/") and not word.known)


def leads_outside(path: str) -> bool:
    """Whether a path, as written, is outside of the workspace."""
    path = posixpath.normpath(path) if path else ""
    return path.startswith(("/", "~", "../")) or path == ".."


def is_protected(path: str) -> bool:
    """Whether a path, from the workspace's root, is protected, below such a place, or above one."""
    names = posixpath.normpath(path).casefold().split("/")
    if names[0] not in _TOPS and not _PATTERN.search(names[0]):
        return False
    return any(
        all(fnmatch.fnmatchcase(wanted, name) for name, wanted in zip(names, protected, strict=False))
        and (len(names) >= len(protected) or names[0] == ".git")
        and (names[0] != "*" or len(names) > 1)
        for protected in _PROTECTED
    )


def protected(path: str) -> Finding:
    """The refusal of a change to such a path."""
    return Finding("reject", "protected_path", f"changes {shown(path)}, which no tool may change")


def is_secret(text: str) -> bool:
    """Whether a path is one that credentials are kept at."""
    return _SECRETS.fullmatch(text) is not None


def may_be_code(path: str) -> bool:
    """Whether what is written there might be run later: anything but a log or a report."""
    return _RESULTS.fullmatch(path) is None or _CODE_ALL_THE_SAME.fullmatch(path) is not None


def metadata() -> Finding:
    """The refusal of the addresses at which clouds hand out credentials."""
    return Finding("reject", "metadata_host", "reaches the address at which a cloud hands out credentials")


def names_metadata(words: tuple[Word, ...]) -> bool:
    """Whether an argument names such an address, in any notation."""
    return any(mentions_metadata(shown(word.text.replace(UNKNOWN, " "))) for word in words)


def may_leave(script: Script) -> bool:
    """Whether a line may change to a directory outside of the workspace, or into a protected one."""
    for command in script.commands:
        texts = [word.text for word in command.words]
        at = next((number for number, text in enumerate(texts[:4]) if text in _MOVES), None)
        if at is None or (at > 0 and texts[0] not in ("command", "builtin", "time")):
            continue
        targets = [word for word in command.words[at + 1 :] if word.text not in ("-P", "-L", "--", "-e")]
        if len(targets) != 1 or not targets[0].known or texts[at] == "popd":
            return True
        target = posixpath.normpath(targets[0].text)
        if target != "." and (leads_outside(target) or target.startswith((".", "-"))):
            return True
    return False
