"""What the commands that reach an agent share: the target, the options about the connection, and the call."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperOption

from agentengine_cli import output
from agentengine_cli.base import HELP_NAMES
from agentengine_cli.calls import ReadCommand, builtin_tool, call_scope, options, read_text
from ksadk.errors import KsadkError
from ksadk.settings import Settings

if TYPE_CHECKING:
    from ksadk.a2a.remote_card import RemoteCard
    from ksadk.a2a.wire import Extras

T = TypeVar("T")

_TRANSPORTS = {"jsonrpc": "JSONRPC", "http+json": "HTTP+JSON", "rest": "HTTP+JSON"}
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

_admit: ContextVar[Callable[[str], None]] = ContextVar("admit", default=lambda _: None)
"""Told of the URLs that the call which runs leads to: rules decide about these, too."""

AgentOption = Annotated[
    str,
    typer.Option(
        "-a", "--agent-card", metavar="TARGET",
        help="The agent: http://HOST:PORT, HOST:PORT, the URL of a card, or a card's .json file.",
    ),
]  # fmt: skip
SpaceOption = Annotated[
    str | None,
    typer.Option(
        "--space-id", metavar="SPACE",
        help="The Space to call in; where one is configured, an agent's or a task's id alone means it.",
    ),
]  # fmt: skip
BearerOption = Annotated[
    str,
    typer.Option(
        "--bearer", metavar="TOKEN|@FILE",
        help="The token to send. Others can see it here; @FILE and KSADK_A2A_BEARER hide it.",
    ),
]  # fmt: skip
KeyOption = Annotated[
    str,
    typer.Option(
        "--api-key", metavar="KEY|@FILE",
        help="The API key, sent where the card says. @FILE and KSADK_A2A_API_KEY hide it.",
    ),
]  # fmt: skip
TransportOption = Annotated[
    list[str] | None,
    typer.Option(
        "--transport", metavar="BINDING",
        help="JSONRPC or HTTP+JSON, the most wanted first; else as the card orders them.",
    ),
]  # fmt: skip
ParamOption = Annotated[
    list[str] | None,
    typer.Option("--svc-param", metavar="NAME:VALUE", help="A service parameter: a header of each request."),
]
TimeoutOption = Annotated[
    str, typer.Option("--timeout", metavar="TIME", help="How long to wait (90s, 10m).", show_default=True)
]


class AgentCommand(ReadCommand):
    """A command that reaches an agent: it also takes `-o jsonl`, and tells errors as A2A's clients do."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        output.a2a_errors.set(True)
        return super().parse_args(ctx, args)

    def shared_options(self) -> list[TyperOption]:
        *others, form = super().shared_options()
        form.metavar = "[text|json|jsonl]"
        form.callback = _want_form
        return [*others, form]


def agent_app(function: Callable[..., None], cls: type[AgentCommand] = AgentCommand) -> typer.Typer:
    """A command that reaches an agent, as `LazyGroup` takes it."""
    app = typer.Typer(rich_markup_mode=None, add_completion=False, context_settings=HELP_NAMES)
    app.command(cls=cls)(function)
    return app


def _want_form(ctx: Any, param: Any, value: str | None) -> None:
    if value is None:
        return
    if value not in ("text", "json", "jsonl"):
        raise typer.BadParameter(f"{value!r} is not text, json or jsonl", ctx=ctx, param=param)
    output.json_wanted.set(value != "text")
    output.json_lines.set(value == "jsonl")


@dataclass(frozen=True)
class Connection:
    """The options about how an agent is reached. Credentials are in no `repr`."""

    target: str
    _bearer: str = ""
    _api_key: str = ""
    transports: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"Connection({self.target!r})"

    @classmethod
    def of(
        cls, target: str, bearer: str, api_key: str, transports: list[str] | None, params: list[str] | None
    ) -> Connection:
        """The connection that the options ask for."""
        settings = Settings.from_env()
        return cls(
            target,
            _secret(bearer, "--bearer") or settings.a2a_bearer,
            _secret(api_key, "--api-key") or settings.a2a_api_key,
            tuple(_transport(name) for name in transports or ()),
            tuple(_param(text) for text in params or ()),
        )

    def connect(self, timeout: float | None) -> Any:
        """The agent, as `ksadk.a2a.client.connect` gives it."""
        from ksadk.a2a.client import connect

        return connect(
            self.target, timeout=timeout, transports=self.transports, bearer=self._bearer,
            extras=self._extras, admit=_admit.get(),
        )  # fmt: skip

    async def look(self, timeout: float | None) -> RemoteCard:
        """The agent's card."""
        from ksadk.a2a.client import look_at

        return await look_at(self.target, timeout=timeout, bearer=self._bearer, admit=_admit.get())

    def _extras(self, remote: RemoteCard) -> Extras:
        from ksadk.a2a.wire import Extras

        headers = dict(self.params)
        query: dict[str, str] = {}
        if self._bearer:
            headers["Authorization"] = f"Bearer {self._bearer}"
        if self._api_key:
            location, name = _place_of_key(remote)
            if location == "query":
                query[name] = self._api_key
            elif location == "cookie":
                headers["Cookie"] = f"{name}={self._api_key}"
            else:
                headers[name] = self._api_key
        return Extras(headers, query, tuple(filter(None, (self._bearer, self._api_key))))


def _place_of_key(remote: RemoteCard) -> tuple[str, str]:
    for scheme in remote.card.security_schemes.values():
        if scheme.HasField("api_key_security_scheme"):
            key = scheme.api_key_security_scheme
            if key.name and _HEADER.fullmatch(key.name):
                return key.location.lower(), key.name
    raise KsadkError(
        "the agent's card asks for no API key, so there is no place to send one",
        code="A2ACLI_ERR_USAGE",
        hint="--svc-param NAME:VALUE sends a header of your own.",
    )


def _secret(value: str, option: str) -> str:
    text = read_text(value).strip() if value else ""
    if value and (not text or not text.isascii() or not text.isprintable()):
        raise typer.BadParameter("it is empty, or holds what no header can", param_hint=option)
    return text


def _transport(name: str) -> str:
    if name.lower() not in _TRANSPORTS:
        raise typer.BadParameter(f"{name!r} is not JSONRPC or HTTP+JSON", param_hint="--transport")
    return _TRANSPORTS[name.lower()]


def _param(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    value = value.strip()
    if not colon or not _HEADER.fullmatch(name) or not (value.isascii() and value.isprintable()):
        raise typer.BadParameter(f"{name!r} is not of the form NAME:VALUE", param_hint="--svc-param")
    return name, value


def space_of(space_id: str | None, agent: str, **of_addresses: Any) -> str:
    """The Space that a command is about; empty where it names the address of an agent.

    of_addresses: the values of options that only an agent at an address has.
    """
    if space_id == "":  # a variable of a script that is not set; an id must not be taken for a host
        raise typer.BadParameter("it is empty", param_hint="--space-id")
    if not (space_id or agent or Settings.from_env().a2a_space_ids):
        raise typer.BadParameter(
            "no agent is named, and KSADK_A2A_SPACE_IDS names no Space",
            param_hint="--agent-card" if "agent_card" in of_addresses else "TARGET",
        )
    from ksadk.toolsets.a2a_space import space_meant

    space = space_meant(space_id or "", agent)
    given = [name for name, value in of_addresses.items() if value]
    if space and given:
        raise typer.BadParameter(
            f"it is about an agent at an address, not in the Space {space}",
            param_hint=f"--{given[0].replace('_', '-')}",
        )
    return space


def is_id_or_words(text: str) -> bool:
    """Whether a word of a command line is no place of an agent's, be it there or not."""
    from ksadk.a2a.client_errors import AgentError
    from ksadk.a2a.targets import read_target

    try:
        return read_target(text).kind == "agent"
    except AgentError as error:
        return error.code == "A2ACLI_ERR_USAGE"


def run(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """The result of a coroutine that is given so many seconds in all."""
    import asyncio

    from ksadk.a2a.client import within

    return asyncio.run(within(seconds, work))


def through_gateway(name: str, conduct: Callable[..., Mapping[str, Any]], arguments: dict[str, Any]) -> Any:
    """Do what a person typed as a call of the tool `name`, at low risk: rules, log and invocation apply.

    Raises the error that the call ended with; prints the envelope of one that needs approval.
    """
    from ksadk.toolsets.a2a import admits, targets

    _admit.set(admits(name, arguments))
    declared = builtin_tool(name)
    tool = replace(
        declared, func=conduct, policy=replace(declared.policy, risk_level="low"),
        targets=partial(targets, reads_files=True),
    )  # fmt: skip
    approval = options().approval
    with call_scope(name) as gateway:
        if approval:
            from ksadk.tools.approvals import StoredApproval

            result = gateway.call(tool, (), arguments, StoredApproval(approval))
        else:
            result = gateway.call(tool, (), arguments)
    if result.get("ok") is not False:
        return result
    if result.get("approval_required") is True:
        output.show_result(result, str)
    known = {"ok", "error_type", "error_message", "hint"}
    details = {key: value for key, value in result.items() if key not in known and key != "code"}
    message, hint = output.words_of(result)
    raise KsadkError(message, code=result["error_type"], hint=hint, **details)
