"""What a bubblewrap sandbox sees of this machine: mounts, as bwrap's arguments, and how they are verified."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ksadk.project_files import PROTECTED_PATHS
from ksadk.sandbox.base import WORKSPACE_DIRECTORY
from ksadk.sandbox.interpreters import SYSTEM_PATH, VENV, Python, find_python
from ksadk.sandbox.limits import Limits
from ksadk.sessions import STATE_DIR
from ksadk.settings import Settings

HOME = "/tmp"
TOOLS = "/opt/sandbox/bin"
NO_RESOLVER = "nameserver 192.0.2.1\n"
"""An address that is nobody's: looking for a name ends at once, and is counted as a missing way out."""

_MAX_ENTRIES = 1000
_DEVICES = tuple(f"/dev/{name}".encode() for name in ("full", "null", "random", "tty", "urandom", "zero"))
"""What bwrap mounts of itself."""

_READ_ONLY = ("/", "/usr", "/etc", "/dev", "/proc/sys")

_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version",
    "fonts", "gai.conf", "host.conf", "inputrc", "java", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
    "localtime", "lsb-release", "magic", "mailcap", "mime.types", "nsswitch.conf", "os-release",
    "pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs", "protocols", "python3", "python3.11", "python3.12",
    "python3.13", "services", "shells", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo",
    "timezone", "xdg",
)  # fmt: skip
_ETC_WITH_NETWORK = ("hosts", "resolv.conf")
_PASSWD = "root:x:0:0:root:/:/usr/sbin/nologin\nsandbox:x:1000:1000:sandbox:/tmp:/bin/bash\n"
_GROUP = "root:x:0:\nsandbox:x:1000:\n"


@dataclass(frozen=True)
class Layout:
    """What is seen.

    arguments: for bwrap; each value of `data` is what its key, an argument, stands for the descriptor of.
    path: the directories of PATH.
    read_only, empty, closed: paths that must not be writable, must have nothing in them, must not be
        readable; what runs in the sandbox verifies that before anything else does.
    """

    arguments: tuple[str, ...]
    path: tuple[str, ...]
    read_only: tuple[str, ...]
    empty: tuple[str, ...]
    closed: tuple[str, ...]
    data: Mapping[str, bytes] = field(default_factory=dict)

    def sources(self) -> set[bytes]:
        """What of this machine is mounted: nothing that is not below one of these must be."""
        words = zip(self.arguments, self.arguments[1:], strict=False)
        bound = {os.fsencode(source) for word, source in words if word in ("--bind", "--ro-bind")}
        return bound.union(_DEVICES)


def layout(
    root: Path,
    limits: Limits,
    *,
    net: bool,
    hidden: Sequence[Path] = (),
    files: Mapping[str, bytes],
    original: Path | None = None,
    resolver: str = NO_RESOLVER,
) -> Layout:
    """The mounts for a workspace `root`, a path without links.

    hidden: files and directories of the workspace that are kept from the sandbox; those that are not there
        are left alone, since a mount would make them.
    files: what is put below /tmp.
    original: what the workspace is a copy of; programs are installed for that path.
    net: whether the network is this machine's; else names are looked up as `resolver` says.
    """
    python = find_python(original or root)
    data = {"{passwd}": _PASSWD.encode(), "{group}": _GROUP.encode()}
    if not net:
        data["{resolver}"] = resolver.encode()
    protected = (root / name for name in PROTECTED_PATHS if name != STATE_DIR)
    kept = sorted({place for path in protected if (place := _place(root, path)) is not None})
    denied = list(_denied(root, hidden))
    arguments = [
        *_system(net, os.stat("/etc").st_mtime_ns),  # noqa: PTH116
        *_temporary(limits, files, data),
        *_interpreters(python, original or root),
        "--bind", str(root), WORKSPACE_DIRECTORY,
        *(word for place in kept for word in ("--ro-bind", str(root / place), _inside(place))),
        *(word for place, directory in denied for word in _deny(_inside(place), directory)),
        "--remount-ro", "/",
    ]  # fmt: skip
    return Layout(
        tuple(arguments),
        (*python.path, *SYSTEM_PATH, TOOLS),
        (*_READ_ONLY, *(place for _, place in python.directories), *map(_inside, kept)),
        tuple(_inside(place) for place, directory in denied if directory),
        tuple(_inside(place) for place, directory in denied if not directory),
        data,
    )  # fmt: skip


@functools.lru_cache(maxsize=4)
def _system(net: bool, changed: int) -> tuple[str, ...]:  # noqa: ARG001  # the state of /etc that it is for
    return tuple(_of_system(net))


def _of_system(net: bool) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for place in _SYSTEM:
        if os.path.islink(place):  # noqa: PTH114
            yield from ("--symlink", os.readlink(place), place)  # noqa: PTH115
        elif os.path.isdir(place):  # noqa: PTH112
            yield from ("--ro-bind", place, place)
    yield from ("--perms", "0755", "--dir", "/etc")
    for name in (*_ETC, *(_ETC_WITH_NETWORK if net else ())):
        place = f"/etc/{name}"
        if os.path.exists(place):  # noqa: PTH110
            yield from ("--ro-bind", os.path.realpath(place), place)
    yield from ("--ro-bind-data", "{passwd}", "/etc/passwd", "--ro-bind-data", "{group}", "/etc/group")
    if not net:
        yield from ("--ro-bind-data", "{resolver}", "/etc/resolv.conf")
    # bwrap itself leaves /proc/sys writable for whoever root is outside.
    yield from ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev")


def _temporary(limits: Limits, files: Mapping[str, bytes], data: dict[str, bytes]) -> Iterator[str]:
    yield from ("--size", str(limits.shm_bytes), "--perms", "1777", "--tmpfs", "/dev/shm")
    yield from ("--remount-ro", "/dev")
    yield from ("--size", str(limits.tmp_bytes), "--perms", "1777", "--tmpfs", "/tmp")
    yield from ("--dir", "/var", "--symlink", "/tmp", "/var/tmp")
    for number, (place, content) in enumerate(files.items()):
        data[f"{{file{number}}}"] = content
        yield from ("--file", f"{{file{number}}}", place)


def _interpreters(python: Python, root: Path) -> Iterator[str]:
    for source, place in python.directories:
        yield from ("--ro-bind", source, place)
    if (str(root / VENV), str(root / VENV)) in python.directories:
        # An installation that refers to the project's own files finds them where they are outside.
        with os.scandir(root) as found:
            entries = [entry for entry in found if not entry.name.startswith(".")]
        # Packages are directories. bwrap takes a number of arguments, and no more.
        entries.sort(key=lambda entry: (not entry.is_dir(follow_symlinks=False), entry.name))
        for entry in entries[:_MAX_ENTRIES]:
            yield from ("--symlink", f"{WORKSPACE_DIRECTORY}/{entry.name}", entry.path)
    yield from ("--dir", TOOLS)
    for name, target in python.links:
        yield from ("--symlink", target, f"{TOOLS}/{name}")


def _denied(root: Path, hidden: Iterable[Path]) -> Iterator[tuple[str, bool]]:
    """Places of the workspace that are kept from the sandbox, parents first; whether each is a directory."""
    settings = Settings.from_env()
    every = (root / STATE_DIR, settings.state_dir(), settings.config_dir(), *hidden)
    places = {place for path in every if (place := _place(root, root / path)) is not None}
    gone: list[str] = []
    for place in sorted(places, key=lambda place: (place.count("/"), place)):
        if not place.startswith(tuple(gone)):  # what a hidden directory holds is hidden with it
            directory = (root / place).is_dir()
            gone += [f"{place}/"] if directory else []
            yield place, directory


def _deny(place: str, directory: bool) -> tuple[str, ...]:
    """A directory becomes an empty one that takes nothing; a file one that cannot be opened, as no device
    can in a sandbox's workspace."""
    if directory:
        return "--perms", "0555", "--size", "4096", "--tmpfs", place, "--remount-ro", place
    return "--ro-bind", "/dev/null", place


def _place(root: Path, path: Path) -> str | None:
    """Where a path leads, from the root; None where that is outside, or nothing is there."""
    real = os.path.realpath(path)
    if not os.path.lexists(real) or real == str(root) or not real.startswith(f"{str(root).rstrip('/')}/"):
        return None
    return os.path.relpath(real, root)


def _inside(place: str) -> str:
    return f"{WORKSPACE_DIRECTORY}/{place}"
