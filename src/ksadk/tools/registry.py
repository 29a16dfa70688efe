"""What a tool is, and the one place where built-in tools are declared."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar

from ksadk.errors import KsadkError, ToolDefinitionError
from ksadk.tools import schema

P = ParamSpec("P")
R = TypeVar("R")
RiskLevel = Literal["low", "medium", "high", "critical"]


@dataclass(frozen=True)
class ToolPolicy:
    """How risky a tool is, and whether it needs approval.

    `requires_approval` True or False decides for itself in strict mode; None leaves it to the risk.
    `approval_exempt` lifts the question that the risk alone would ask. `approval_scopes` name what the
    tool reaches (`public_network`); the mode `ask` asks about every tool that has one.
    """

    risk_level: RiskLevel = "low"
    side_effects: tuple[str, ...] = ()
    approval_scopes: tuple[str, ...] = ()
    approval_exempt: bool = False
    requires_approval: bool | None = None


@dataclass(frozen=True)
class Plan:
    """What a call would do, found out without doing it: what the person at the prompt is shown.

    `content_digest` is the SHA-256 of all that the preview was made from (the bytes of the files, a script,
    and the place where the call acts); a call whose content has changed since is not the one approved.
    """

    summary: str
    where: str
    content_digest: str
    diff: str = ""
    details: tuple[tuple[str, str], ...] = ()


class Target(NamedTuple):
    """What a call acts on, for the rules that are about it.

    Each item is one file, URL or value, by every name that it has; without an item, there is nothing of that
    kind. Files: as named, cleaned, and where that really leads, both relative to `root`, which is empty where
    the root is not known.
    """

    kind: Literal["path", "url", "value"]
    items: tuple[tuple[str, ...], ...]
    root: str = ""


@dataclass(frozen=True, eq=False)
class Tool:
    """One tool: what a model is told of it, how it is judged, and the function that does the work."""

    name: str
    func: Callable[..., Any]
    group: str
    boundary: str
    policy: ToolPolicy = ToolPolicy()
    plan: Callable[..., Plan] | None = None
    targets: Callable[[Mapping[str, Any]], Mapping[str, Target]] | None = None
    """What a call with those arguments acts on, by the name that conditions of rules have for it. Without
    effect; raises what makes it impossible. What has to be asked for may be left out of its iteration."""
    target_names: tuple[str, ...] = ("path",)
    """The names that `targets` may give."""
    enabled: Callable[[], bool] = field(default=lambda: True)
    large_fields: tuple[str, ...] = ()
    line: Callable[[Mapping[str, Any]], str | None] | None = None
    """The line of shell that a call with those arguments would run, or None where that runs none: the command
    policy judges it, in every approval mode."""
    isolated: Callable[[], bool] = field(default=lambda: False)
    """Whether what a call runs is kept from this machine."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of its description: backend, actions, compat_alias_for."""

    @functools.cached_property
    def description(self) -> str:
        """The function's docstring: what a model reads."""
        return inspect.cleandoc(self.func.__doc__ or "")

    @property
    def summary(self) -> str:
        """The first line of the description."""
        return self.description.partition("\n")[0]

    @functools.cached_property
    def parameters(self) -> schema.Parameters:
        """The checked shape of its arguments."""
        return schema.Parameters(self.name, self.func)


class UnknownToolError(KsadkError, ValueError):
    """A name that is no tool, group or profile."""

    code = "unknown_tool"


_builtin: dict[str, Tool] = {}
_public: dict[str, Callable[..., Any]] = {}


def builtin(
    *,
    group: str,
    boundary: str,
    risk: RiskLevel = "low",
    side_effects: tuple[str, ...] = (),
    scopes: tuple[str, ...] = (),
    approval_exempt: bool = False,
    plan: Callable[..., Plan] | None = None,
    targets: Callable[[Mapping[str, Any]], Mapping[str, Target]] | None = None,
    target_names: tuple[str, ...] = ("path",),
    enabled: Callable[[], bool] = lambda: True,
    large_fields: tuple[str, ...] = (),
    line: Callable[[Mapping[str, Any]], str | None] | None = None,
    isolated: Callable[[], bool] = lambda: False,
    **facts: Any,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a function as a built-in tool. The name it is bound to goes through the gateway.

    The result also takes `approval` (from trusted callers), as a keyword or after the last argument. It is in
    neither its signature, its annotations nor its schema, because those are what a model is shown.
    """

    def declare(func: Callable[P, R]) -> Callable[P, R]:
        tool = Tool(
            name=func.__name__, func=func, group=group, boundary=boundary,
            policy=ToolPolicy(risk, side_effects, scopes, approval_exempt),
            plan=plan, targets=targets, target_names=target_names, enabled=enabled,
            large_fields=large_fields, line=line, isolated=isolated, facts=facts,
        )  # fmt: skip
        tool.parameters  # noqa: B018  # a signature that cannot be offered is refused here
        return publish(tool)

    return declare


def publish(tool: Tool) -> Callable[..., Any]:
    """Register a tool; returns its public function, which calls it through the current gateway."""
    if tool.name in _builtin:
        raise ToolDefinitionError(f"two built-in tools are called {tool.name}")
    func = tool.func

    @functools.wraps(func)
    def call(*args: Any, approval: Any = None, **kwargs: Any) -> Any:
        from ksadk.tools.gateway import current_gateway

        if approval is None and len(args) == len(tool.parameters.names) + 1:
            *args, approval = args  # type: ignore[assignment]
        return current_gateway().call(tool, tuple(args), kwargs, approval)

    call.__signature__ = tool.parameters.signature  # type: ignore[attr-defined]
    func.__ksadk_tool__ = tool  # type: ignore[attr-defined]
    call.__ksadk_tool__ = tool  # type: ignore[attr-defined]
    _builtin[tool.name] = tool
    _public[tool.name] = call
    return call


def tool_of(func: Callable[..., Any]) -> Tool | None:
    """The tool that a function, raw or public, was declared as."""
    tool = getattr(func, "__ksadk_tool__", None)
    return tool if isinstance(tool, Tool) else None


def registered(name: str) -> Tool | None:
    """The built-in tool of that name, if one was declared."""
    return _builtin.get(name)


def find(name: str) -> Tool:
    """The built-in tool of that name."""
    try:
        return _builtin[name]
    except KeyError:
        near = difflib.get_close_matches(name, _builtin, n=1)
        raise UnknownToolError(
            f"Unknown AgentEngine toolset or tool: {name}",
            hint=f"Did you mean {near[0]!r}?" if near else "agentengine tools list shows them all.",
        ) from None


def public_function(name: str) -> Callable[..., Any]:
    """The function that calls a built-in tool through the gateway: what its module exports."""
    return _public[find(name).name]


def builtin_tools() -> Iterator[Tool]:
    """Every built-in tool, in the order of declaration."""
    return iter(_builtin.values())
