"""Says of every simple command of a shell line what it does."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace

from ksadk.tools.commands import builtins, interpreters
from ksadk.tools.commands.findings import (
    CHANGES,
    HARMLESS,
    NETWORK,
    READS,
    READS_GIT,
    WRAPS,
    Finding,
    Part,
    unclear,
    worst,
)
from ksadk.tools.commands.git import judge_git
from ksadk.tools.commands.grammar import check_agreement, likely_commands
from ksadk.tools.commands.operands import Writes, judge_chmod, judge_dd, judge_known
from ksadk.tools.commands.places import (
    SINKS,
    is_secret,
    judge_write,
    leads_outside,
    may_be_code,
    may_connect,
    may_leave,
    metadata,
    names_metadata,
)
from ksadk.tools.commands.programs import PROGRAMS, WITH_SUBCOMMANDS, asks_for_version
from ksadk.tools.commands.reader import read_script
from ksadk.tools.commands.words import (
    UNKNOWN,
    Assignment,
    Command,
    NotProven,
    Redirect,
    Script,
    Word,
    as_bytes,
    shown,
)
from ksadk.tools.commands.wrappers import LAUNCHED, LAUNCHERS, WRAPPERS, read_find, unwrap

MAX_NESTED = 5
"""Lines inside lines: bash -c inside of bash -c."""

MAX_GUESSED = 100_000
"""Characters of commands, the shortest first, that are made out in a line that is not read with certainty."""

_TRUSTED = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"})
_OF_PROJECT = re.compile(
    r"(?:\./)?(?:(?:\.venv|venv|node_modules/\.bin)(?:/bin)?/)([\w.-]+)|\./(gradlew|mvnw)"
)
_VERSIONED = re.compile(r"(python|pip)[0-9.]+\Z")
_REFUSED = {
    "sudo": "acts as another user", "doas": "acts as another user", "su": "acts as another user",
    "pkexec": "acts as another user", "kubectl": "acts on a cluster", "docker": "acts on containers",
    "shutdown": "stops the machine", "reboot": "stops the machine", "poweroff": "stops the machine",
    "halt": "stops the machine", "wipefs": "erases a disk", "shred": "erases files for good",
    "fdisk": "changes a disk", "parted": "changes a disk",
}  # fmt: skip
_NETWORK = frozenset(
    [
        "curl",
        "wget",
        "nc",
        "ncat",
        "netcat",
        "ssh",
        "scp",
        "sftp",
        "ftp",
        "telnet",
        "rsync",
        "ping",
        "dig",
        "nslookup",
        "host",
        "socat",
        "http",
        "https",
        "aria2c",
    ]
)


class Judge:
    """Judges one line. `line_parts` is all that is known of it afterwards, in the order of the line."""

    def __init__(self, *, elsewhere: bool = False, nested: int = 0) -> None:
        self.parts: list[Part] = []
        self._elsewhere = elsewhere
        self._nested = nested
        self._writes: list[tuple[int, str]] = []

    def line(self, text: str) -> None:
        """Judge a line. Raises `NotProven` where it cannot be read with certainty; `parts` are then those
        that could be made out."""
        script = None
        try:
            if self._nested > MAX_NESTED:
                raise NotProven("it is nested too deeply")
            script = read_script(text)
            check_agreement(script)
        except NotProven:
            self._guess(text, script)
            raise
        self._elsewhere |= may_leave(script)
        for command in script.commands:
            self._command(script, command)
        self._check_order()

    def _guess(self, text: str, script: Script | None) -> None:
        """Of a line that is not read with certainty, judge what the grammar finds, and what was read."""
        if self._nested > MAX_NESTED:
            return
        try:
            source = as_bytes(text)
        except NotProven:
            return
        found = {shown(each) for each in likely_commands(source)}
        if script is not None:
            found.update(script.text(command) for command in script.commands)
        work = 0
        for each in sorted(found, key=len):
            work += len(each)
            if work > MAX_GUESSED:
                return
            try:
                part_of = read_script(each)
            except NotProven:
                continue
            for command in part_of.commands:
                self._command(part_of, command)

    def _command(self, script: Script, command: Command) -> None:
        number = len(self.parts)
        written: Writes = []
        given = [*self._assigned(command.assignments), *self._redirected(command.redirects, written)]
        around = worst([HARMLESS, *given])
        does = self._words(script, command, written) if command.words else HARMLESS
        finding = worst([around, does])
        if finding is READS_GIT and command.redirects:
            finding = READS
        part = _part(script.text(command).strip(), command.words, finding, around)
        self._add(number, part, written)

    def _add(self, number: int, part: Part, written: Writes) -> None:
        if len(self.parts) > number:  # the commands that it starts are behind it
            self._writes = [(at + (at >= number), path) for at, path in self._writes]
        self._writes += ((number, word.text) for word in written)
        self.parts.insert(number, part)

    def _assigned(self, assignments: tuple[Assignment, ...]) -> Iterator[Finding]:
        for assignment in assignments:
            finding = builtins.guarded(assignment.name)
            if assignment.value is not None and may_connect(assignment.value):
                finding = NETWORK
            if finding is not None:
                yield finding

    def _redirected(self, redirects: list[Redirect], written: Writes) -> Iterator[Finding]:
        for redirect in redirects:
            target = redirect.target
            if redirect.operator in ("<<", "<<<") or (
                redirect.operator in (">&", "<&") and (target.text == "-" or target.text.isdigit())
            ):
                continue
            if redirect.operator == "<" and not may_connect(target):
                if is_secret(target.text):
                    yield _SECRET
                continue
            finding = judge_write(target, elsewhere=self._elsewhere)
            if redirect.operator != "<":
                written.append(target)
            yield finding or (HARMLESS if SINKS.fullmatch(target.text) else CHANGES)

    # Programs

    def _words(self, script: Script, command: Command, written: Writes) -> Finding:
        first = command.words[0]
        if UNKNOWN in first.text or first.splits or first.glob:
            return self._named_by_variable(script, command, written)
        sure = script.functions.get(first.text)
        if sure is not None and sure <= command.start and not self._is_program(first.text):
            return HARMLESS._replace(does="calls a function of this line")
        return self.program(command.words, command.redirects, written)

    def _is_program(self, name: str) -> bool:
        known = (
            PROGRAMS, builtins.NAMES, WRAPPERS, WITH_SUBCOMMANDS, _REFUSED, _NETWORK, interpreters.NAMES,
        )  # fmt: skip
        return any(name in each for each in known) or name in ("git", "find", "awk", "eval", "trap")

    def _named_by_variable(self, script: Script, command: Command, written: Writes) -> Finding:
        """A command whose name is in a variable: what it may be by the values that the line sets."""
        asked = Finding("ask", "unknown_words", "runs a program that only the run will tell")
        name = re.fullmatch(
            r"\"?\$\{?(\w+)\}?\"?", script.source[command.words[0].start : command.words[0].end]
        )
        values = script.values.get(name[1], []) if name else []
        possible = [asked]
        for value in values[:10]:
            words = tuple(Word(each, 0, 0) for each in value.split())
            if words:
                possible.append(self.program((*words, *command.words[1:]), command.redirects, written))
        return worst(possible)

    def program(self, words: tuple[Word, ...], redirects: list[Redirect], written: Writes) -> Finding:
        """What a program does with its arguments; the commands that it starts become parts of their own."""
        name, finding = self._resolve(words[0].text)
        rest = words[1:]
        if name in _REFUSED or name.startswith("mkfs"):
            does = _REFUSED.get(name, "formats a disk")
            return Finding("reject", "refused_program", f"runs {name}, which {does}")
        judged = self.named(name, rest, redirects, written)
        if judged.verdict == "ask" and names_metadata(rest):
            return metadata()
        if name not in ("echo", "printf") and any(is_secret(word.text) for word in rest):
            judged = worst([judged, _SECRET])
        return worst([finding, judged])

    def _resolve(self, text: str) -> tuple[str, Finding]:
        """The name that a program is known by, and what there is to say of the place that it is in."""
        if "/" not in text:
            return _plain_name(text), HARMLESS
        directory, name = posixpath.split(text)
        if directory in _TRUSTED:
            return _plain_name(name), HARMLESS
        own = _OF_PROJECT.fullmatch(text)
        if own is not None and not self._elsewhere:
            name = own[1] or {"gradlew": "gradle", "mvnw": "mvn"}[own[2]]
            name = _plain_name(name)
            if (
                name in interpreters.NAMES
                or PROGRAMS.get(name, ("", ""))[0] == "code"
                or name in WITH_SUBCOMMANDS
            ):
                return name, HARMLESS
        return name, Finding("ask", "unknown_program", f"runs the file {shown(text)}, whatever is in it")

    def named(self, name: str, rest: tuple[Word, ...], redirects: list[Redirect], written: Writes) -> Finding:
        if name == "git" or name.startswith("git-"):
            subcommand = name.partition("-")[2]
            words = (Word(subcommand, 0, 0), *rest) if subcommand else rest
            return self._moved(judge_git(words))
        if len(rest) == 1 and self._is_program(name) and asks_for_version(name, rest[0].text):
            return READS
        builtin = builtins.judge_builtin(name, rest)
        if builtin is not None:
            return builtin
        if name in interpreters.NAMES:
            return self._moved(interpreters.judge_interpreter(self, name, rest, redirects, written))
        if name in ("eval", "trap"):
            return self._text_of_shell(name, rest)
        if name == "find":
            return self._find(rest)
        if name in ("awk", "gawk", "mawk"):
            return interpreters.judge_awk(rest)
        if name == "chmod":
            return judge_chmod(rest, elsewhere=self._elsewhere)
        if name == "dd":
            return judge_dd(rest, elsewhere=self._elsewhere)
        if name == "watch":
            return interpreters.judge_watch(self, rest)
        return self._from_tables(name, rest, redirects, written)

    def _from_tables(
        self, name: str, rest: tuple[Word, ...], redirects: list[Redirect], written: Writes
    ) -> Finding:
        if rest and f"{name} {rest[0].text}" in WRAPPERS:
            return self._wrapper(f"{name} {rest[0].text}", rest[1:], redirects)
        if name in WRAPPERS:
            return self._wrapper(name, rest, redirects)
        if name in WITH_SUBCOMMANDS and rest:
            name, rest = f"{name} {rest[0].text}", rest[1:]
        if name == "coverage run":
            return interpreters.judge_interpreter(self, "python3", rest, redirects, written)
        known = judge_known(name, rest, written, elsewhere=self._elsewhere)
        if known is not None:
            return self._moved(known)
        if name in _NETWORK:
            return NETWORK
        return Finding("ask", "unknown_program", f"runs {shown(name)}, which is not known")

    def _moved(self, finding: Finding) -> Finding:
        """What runs the project's code may run another's where the line has left the workspace."""
        if self._elsewhere and finding.reason in ("project_code", "read_only_git", "workspace_change"):
            return Finding("ask", "outside_workspace", "runs after the line may have left the workspace")
        return finding

    def _wrapper(self, name: str, rest: tuple[Word, ...], redirects: list[Redirect]) -> Finding:
        if name == "command" and rest and rest[0].text in ("-v", "-V"):
            return READS
        inner = unwrap(name, rest)
        findings = [inner.problem or WRAPS, *self._assigned(inner.assignments)]
        if inner.words:
            self.start(inner.words, redirects)
            if name in LAUNCHERS and inner.words[0].text not in LAUNCHED:
                findings.append(unclear(f"{name} may fetch a program and run it"))
        elif name in ("env", "xargs", "exec"):
            findings.append(READS)
        return worst(findings)

    def start(self, words: tuple[Word, ...], redirects: list[Redirect]) -> Finding:
        """Judge a command that another one starts, as a part of its own."""
        self._nested += 1
        number, written = len(self.parts), list[Word]()
        if self._nested > MAX_NESTED * 4:
            finding = unclear("it is nested too deeply")
        elif words[0].text in builtins.DECLARATIONS and any(word.splits for word in words):
            finding = unclear(f"{words[0].text} of what only the run will tell")
        elif UNKNOWN in words[0].text or words[0].splits or words[0].glob:
            finding = Finding("ask", "unknown_words", "runs a program that only the run will tell")
        else:
            finding = self.program(words, redirects, written)
        text = " ".join(shown(word.text.replace(UNKNOWN, "...")) for word in words)
        self._add(number, _part(text, words, finding), written)
        self._nested -= 1
        return finding

    def nested_line(self, word: Word, *, same_shell: bool = False) -> Finding:
        """Judge the text of a word as a line of its own; its parts become parts of this line."""
        text = shown(word.text.replace(UNKNOWN, "$unknown"))
        inner = Judge(elsewhere=self._elsewhere, nested=self._nested + 1)
        finding = WRAPS
        if UNKNOWN in word.text or word.splits:
            finding = Finding("ask", "unknown_words", "runs a text that only the run will tell")
        elif word.glob and not word.known and same_shell:
            finding = Finding("ask", "unknown_words", "runs a text in which names of files are put")
        try:
            inner.line(text)
        except NotProven as error:
            finding = Finding("ask", "not_proven", f"runs a text that cannot be read with certainty: {error}")
        if same_shell and inner._elsewhere and not self._elsewhere:
            finding = worst([finding, Finding("ask", "outside_workspace", "may leave the workspace")])
        base = len(self.parts)
        self.parts += inner.parts
        self._writes += ((base + at, path) for at, path in inner._writes)
        return finding

    def _text_of_shell(self, name: str, rest: tuple[Word, ...]) -> Finding:
        if name == "trap":
            rest = rest[1:] if rest and rest[0].text == "--" else rest
            if not rest or rest[0].text in ("-", "-p", "-l", ""):
                return HARMLESS
            return self.nested_line(rest[0], same_shell=True)
        if not rest:
            return HARMLESS
        joined = Word(
            " ".join(word.text for word in rest), 0, 0, all(word.known for word in rest),
            any(word.splits for word in rest), any(word.glob for word in rest),
        )  # fmt: skip
        return self.nested_line(joined, same_shell=True)

    def _find(self, rest: tuple[Word, ...]) -> Finding:
        places = [word for word in rest if not word.text.startswith(("-", "(", "!"))]
        outside = any(leads_outside(word.text) for word in places[:1])
        found = read_find(rest, outside)
        findings = [found.problem or READS]
        for words in found.commands:
            if not words:
                findings.append(unclear("find runs nothing that is known"))
                continue
            self.start(words, [])
        return worst(findings)

    def _check_order(self) -> None:
        """Ask about code that is run in the same line that writes it."""
        writers = {number for number, path in self._writes if may_be_code(path)}
        for number, part in enumerate(self.parts):
            if part.finding.reason == "project_code" and writers - {number}:
                finding = Finding("ask", "runs_code", "runs code that the same line may have written")
                self.parts[number] = replace(part, finding=finding)


_SECRET = Finding("ask", "secrets", "reads a place where credentials are kept")


def _part(text: str, words: tuple[Word, ...], finding: Finding, around: Finding = HARMLESS) -> Part:
    several = (UNKNOWN if word.splits or word.glob else shown(word.text) for word in words)
    return Part(text, tuple(several), all(word.known for word in words), finding, around)


def _plain_name(name: str) -> str:
    """A program's name without its version."""
    name = _VERSIONED.sub(r"\1", name)
    return "python3" if name == "python" else name
