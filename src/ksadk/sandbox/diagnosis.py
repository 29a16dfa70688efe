"""Why bubblewrap does not work on a machine, told from what it said, and what to do about each cause."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_ELSEWHERE = "Or use a sandbox in the cloud: KSADK_SANDBOX_BACKEND=e2b."

_APPARMOR_SETTING = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_DEBIAN_SETTING = "/proc/sys/kernel/unprivileged_userns_clone"
_MAXIMUM = "/proc/sys/user/max_user_namespaces"

_PROFILE = """\
Write this profile, and load it:
  printf '%s\\n' 'abi <abi/4.0>,' 'include <tunables/global>' \\
    'profile bwrap {program} flags=(unconfined) {{ userns, }}' | sudo tee /etc/apparmor.d/bwrap
  sudo apparmor_parser -r /etc/apparmor.d/bwrap"""


@dataclass(frozen=True)
class Diagnosis:
    """cause: apparmor, no_user_namespaces, container, not_installed, platform, network or unknown.

    message says what is wrong, fix what to do.
    """

    cause: str
    message: str
    fix: str


def not_installed(searched: Sequence[str]) -> Diagnosis:
    """bwrap is nowhere on the path."""
    return Diagnosis(
        "not_installed",
        f"bwrap is not on PATH (searched: {', '.join(searched) or 'nothing'})",
        "Install it: `apt install bubblewrap`, `dnf install bubblewrap` or `pacman -S bubblewrap`. "
        + _ELSEWHERE,
    )


def other_platform() -> Diagnosis | None:
    """This is not Linux; None where it is."""
    if sys.platform == "linux":
        return None
    name = {"darwin": "macOS", "win32": "Windows"}.get(sys.platform, sys.platform)
    return Diagnosis(
        "platform",
        f"the bubblewrap sandbox is not available on {name}: it is made of namespaces, which Linux alone has",
        "Use a sandbox in the cloud: KSADK_SANDBOX_BACKEND=e2b.",
    )


def diagnose(program: str, said: str, root: Path = Path("/")) -> Diagnosis:
    """Why bwrap did not start, given its path and its last words. `root` is where the system's files are."""
    system = _System(root)
    short = said.splitlines()[-1] if said else "it said nothing"
    if system.number(_DEBIAN_SETTING) == 0:
        return Diagnosis(
            "no_user_namespaces",
            f"this system lets nobody but root make user namespaces (bwrap: {short})",
            "Allow it: `echo kernel.unprivileged_userns_clone=1 | sudo tee /etc/sysctl.d/60-userns.conf && "
            f"sudo sysctl --system`. {_ELSEWHERE}",
        )
    if system.number(_MAXIMUM) == 0 or "user namespaces are not enabled" in said.lower():
        return Diagnosis(
            "no_user_namespaces",
            f"user namespaces are turned off on this system (bwrap: {short})",
            "Allow them: `echo user.max_user_namespaces=15000 | sudo tee /etc/sysctl.d/60-userns.conf && "
            f"sudo sysctl --system`. {_ELSEWHERE}",
        )
    container = system.container()
    if container and not _sounds_like_apparmor(said):  # which is the machine's, in a container too
        return Diagnosis(
            "container",
            f"this is {container}, whose filter of system calls does not allow namespaces (bwrap: {short})",
            "Run the container with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            f"--security-opt systempaths=unconfined`, or start this program outside of it. {_ELSEWHERE}",
        )
    if system.number(_APPARMOR_SETTING) == 1 or (system.has_apparmor() and _sounds_like_apparmor(said)):
        return Diagnosis(
            "apparmor",
            f"AppArmor does not let bwrap make user namespaces (bwrap: {short})",
            f"{_PROFILE.format(program=program)}\n{_ELSEWHERE}",
        )
    if _sounds_like_apparmor(said):
        return Diagnosis(
            "apparmor",
            "something on this system, most likely AppArmor, does not let bwrap make user namespaces "
            f"(bwrap: {short})",
            f"{_PROFILE.format(program=program)}\n{_ELSEWHERE}",
        )
    return Diagnosis(
        "unknown",
        f"bwrap does not start here: {said or short}",
        f"Run `{program} --unshare-all --ro-bind / / true` to see it fail. {_ELSEWHERE}",
    )


def _sounds_like_apparmor(said: str) -> bool:
    """How bwrap ends where it may make a user namespace, and may then do nothing in it."""
    return ("uid map" in said and "ermission denied" in said) or "RTM_NEWADDR" in said


class _System:
    def __init__(self, root: Path) -> None:
        self._root = root

    def _path(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def number(self, path: str) -> int | None:
        try:
            return int(self._path(path).read_text())
        except (OSError, ValueError):
            return None

    def has_apparmor(self) -> bool:
        return self._path("/sys/module/apparmor").exists() or self._path("/etc/apparmor.d").exists()

    def container(self) -> str:
        """What this system is contained in, in words; empty for none."""
        if self._path("/.dockerenv").exists():
            return "a Docker container"
        if self._path("/run/.containerenv").exists():
            return "a Podman container"
        if self._path("/var/run/secrets/kubernetes.io").exists():
            return "a pod of Kubernetes"
        return ""
