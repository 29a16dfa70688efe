"""The system calls that a sandbox is refused, as a program for the kernel.

Most of them need rights that a sandbox has not. The others reach what no namespace divides (the keys that a
login holds), would undo a boundary (new namespaces), or are large and seldom needed in here.
"""

from __future__ import annotations

import platform
import struct

_EPERM, _ENOSYS = 1, 38
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets; the low halves of arguments
_NAMESPACES = 0x7E020000
_TERMINAL = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX type into a terminal
_X32 = 0x40000000

_NEW = {
    "io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431,
    "fsmount": 432, "fspick": 433, "mount_setattr": 442,
}  # fmt: skip
_X86_64 = {
    "pivot_root": 155, "acct": 163, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168,
    "reboot": 169, "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179,
    "lookup_dcookie": 212, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250,
    "perf_event_open": 298, "open_by_handle_at": 304, "setns": 308, "finit_module": 313,
    "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323, **_NEW,
}  # fmt: skip
_AARCH64 = {
    "lookup_dcookie": 18, "umount2": 39, "mount": 40, "pivot_root": 41, "quotactl": 60, "acct": 89,
    "kexec_load": 104, "init_module": 105, "delete_module": 106, "reboot": 142, "add_key": 217,
    "request_key": 218, "keyctl": 219, "swapon": 224, "swapoff": 225, "perf_event_open": 241,
    "open_by_handle_at": 265, "setns": 268, "finit_module": 273, "bpf": 280, "userfaultfd": 282,
    "kexec_file_load": 294, **_NEW,
}  # fmt: skip

_CLONE3 = 435
_MACHINES = {
    # machine: what the kernel calls it, unshare, clone, ioctl, and what is refused
    "x86_64": (0xC000003E, 272, 56, 16, _X86_64),
    "aarch64": (0xC00000B7, 97, 220, 29, _AARCH64),
}


def program(machine: str | None = None) -> bytes | None:
    """The filter for this machine, or None where its system calls are not known here."""
    found = _MACHINES.get(machine or platform.machine())
    if found is None:
        return None
    architecture, unshare, clone, ioctl, refused = found
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        _refuse(_ENOSYS),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        _refuse(_ENOSYS),
        # glibc and others fall back to clone, whose flags can be looked at.
        (_EQUAL, 0, 1, _CLONE3),
        _refuse(_ENOSYS),
    ]
    for number in sorted(refused.values()):
        lines += [(_EQUAL, 0, 1, number), _refuse(_EPERM)]
    for number in (unshare, clone):
        lines += _if_argument(number, _FIRST, [(_ANY_BIT, 0, 1, _NAMESPACES), _refuse(_EPERM)])
    for request in _TERMINAL:
        lines += _if_argument(ioctl, _SECOND, [(_EQUAL, 0, 1, request), _refuse(_EPERM)])
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


Line = tuple[int, int, int, int]


def _refuse(error: int) -> Line:
    return _RETURN, 0, 0, _ERRNO | error


def _if_argument(number: int, argument: int, then: list[Line]) -> list[Line]:
    """For one system call, look at the low half of an argument; the call's number is loaded again after."""
    return [(_EQUAL, 0, len(then) + 2, number), (_LOAD, 0, 0, argument), *then, (_LOAD, 0, 0, _NUMBER)]
