"""Every environment variable: its name, type, default and meaning. Nothing else reads the environment.

A `Settings` reads a variable when its field is read, so that a bad value fails only the calls that use it.
Entry points make one with `Settings.from_env()`; tests write `Settings(tool_approval_mode="strict")`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar, overload

from ksadk.errors import SettingsError

T = TypeVar("T")


class Variable(Generic[T]):
    """One setting: its variable (then the variable's older names), how to read it, and its default."""

    field: str = ""

    def __init__(
        self, *names: str, read: Callable[[str], T], default: T, help: str, secret: bool = False
    ) -> None:
        self.names = names
        self.read = read
        self.default = default
        self.help = help
        self.secret = secret

    def __set_name__(self, owner: type, name: str) -> None:
        self.field = name

    @overload
    def __get__(self, settings: None, owner: type) -> Self: ...
    @overload
    def __get__(self, settings: Settings, owner: type) -> T: ...
    def __get__(self, settings: Settings | None, owner: type) -> Self | T:
        if settings is None:
            return self
        if self.field in settings._values:
            value: T = settings._values[self.field]
            return value
        found = self.source(settings._environ)
        return self.default if found is None else self.parse(found, settings._environ[found])

    def source(self, environ: Mapping[str, str]) -> str | None:
        """The name of the variable that is set (and not blank), or None where the default holds."""
        for name in self.names:
            if environ.get(name, "").strip():
                return name
        return None

    def parse(self, name: str, text: str) -> T:
        """Read the text of a variable; a `SettingsError` names the variable and what it expects."""
        try:
            return self.read(text.strip())
        except ValueError as error:
            shown = "" if self.secret else f" is {text!r}, which"
            raise SettingsError(f"{name}{shown} cannot be used: {error}", hint=self.help) from error


def text(value: str) -> str:
    return value


def path(value: str) -> Path:
    try:
        return Path(value).expanduser()
    except RuntimeError as error:
        raise ValueError(str(error)) from error


def absolute_path(value: str) -> Path:
    """What would be looked for in the current directory, which may be a stranger's, is refused."""
    found = path(value)
    if not found.is_absolute():
        raise ValueError("an absolute path is expected")
    return found


def words(value: str) -> tuple[str, ...]:
    return tuple(word for word in (part.strip() for part in value.split(",")) if word)


def whole(at_least: int = 0, at_most: int | None = None) -> Callable[[str], int]:
    """A whole number inside the bounds."""

    def read(value: str) -> int:
        number = _whole(value)
        if number < at_least or (at_most is not None and number > at_most):
            bounds = f"at least {at_least}" + ("" if at_most is None else f" and at most {at_most}")
            raise ValueError(f"a whole number of {bounds} is expected")
        return number

    return read


def budget(value: str) -> int:
    """A number of characters; below 0 is 0."""
    return max(_whole(value), 0)


def _whole(value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ValueError("a whole number is expected") from None


def seconds(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        raise ValueError("a number of seconds is expected") from None
    if not 0 <= number < float("inf"):
        raise ValueError("a number of seconds, 0 or more, is expected")
    return number


def flag(value: str) -> bool:
    word = value.lower()
    if word in {"1", "true", "yes", "on"}:
        return True
    if word in {"0", "false", "no", "off"}:
        return False
    raise ValueError("1, true, yes, on, 0, false, no or off is expected")


def choice(*words: str, **aliases: str) -> Callable[[str], str]:
    """One of `words` in any case; an alias stands for the word that it names."""

    def read(value: str) -> str:
        word = value.lower().replace("-", "_")
        word = aliases.get(word, word)
        if word not in words:
            raise ValueError("one of " + ", ".join([*words, *aliases]) + " is expected")
        return word

    return read


APPROVAL_MODES = ("off", "strict", "ask")
APPROVAL_MODE_ALIASES = {"full": "off", "permissive": "off", "risk": "strict"}
read_approval_mode = choice(*APPROVAL_MODES, **APPROVAL_MODE_ALIASES)
read_tools_mode = choice(
    "direct", "focused", "dispatcher", "deferred", "off",
    none="off", disabled="off", dispatch="dispatcher", search="deferred",
)  # fmt: skip
read_sandbox_type = choice("aio", "code", "browser", "private", thread="aio")
read_skills_mode = choice("auto", "local", "sandbox", "off", none="off", disabled="off")


def read_backend(value: str) -> str:
    """A backend's name; an unknown word is kept, and reported by status as a backend that is not there."""
    word = value.lower()
    aliases = {
        "local": "local_process", "pod": "pod_process", "bwrap": "bubblewrap",
        "off": "none", "disabled": "none",
    }  # fmt: skip
    return aliases.get(word, word)


class Settings:
    """What the environment says. Fields are the class's `Variable`s; keyword arguments override them."""

    # Approval
    tool_approval_mode = Variable(
        "KSADK_TOOL_APPROVAL_MODE", read=read_approval_mode, default="off",
        help="off (never ask), strict (ask for medium, high and critical risk) or ask (strict, and "
             "everything with an approval scope). full and permissive mean off, risk means strict. The "
             "command line uses strict where this is not set.",
    )  # fmt: skip
    tool_approval_ttl_seconds = Variable(
        "KSADK_TOOL_APPROVAL_TTL_SECONDS", read=whole(1, 31_536_000), default=900,
        help="How long an approval request can be answered and used, in seconds.",
    )  # fmt: skip
    tool_approval_binding = Variable(
        "KSADK_TOOL_APPROVAL_BINDING", read=choice("optional", "required"), default="optional",
        help="required: an approval counts only with the id of a stored request (hosted runtimes).",
    )  # fmt: skip
    tool_audit_args = Variable(
        "KSADK_TOOL_AUDIT_ARGS", read=flag, default=False,
        help="Whether the decision log holds the arguments of calls, not only their digest; the values of "
             "secret variables are left out.",
    )  # fmt: skip
    tool_log_all = Variable(
        "KSADK_TOOL_LOG_ALL", read=flag, default=False,
        help="Whether the decision log also holds low-risk calls that no rule is about.",
    )  # fmt: skip
    tool_log_max_bytes = Variable(
        "KSADK_TOOL_LOG_MAX_BYTES", read=whole(4096), default=16 * 1024 * 1024,
        help="The size from which on a file of the decision log is put aside and a new one begun.",
    )  # fmt: skip

    # Which tools a runtime is given
    builtin_tools_mode = Variable(
        "KSADK_BUILTIN_TOOLS_MODE", read=read_tools_mode, default="direct",
        help="direct (the profile's tools), focused (the focused nine and tool_search), dispatcher or "
             "deferred (tool_search and tool_dispatcher), off (none).",
    )  # fmt: skip
    builtin_tools_profile = Variable(
        "KSADK_BUILTIN_TOOLS_PROFILE", read=choice("default", "coding", "focused", core="focused"),
        default="default",
        help="The profile of built-in tools: default (all), coding, or focused.",
    )  # fmt: skip

    # Large results
    tool_result_dir = Variable[Path | None](
        "KSADK_TOOL_RESULT_DIR", read=path, default=None,
        help="Where the full text of a trimmed result is kept; in the session's directory if unset.",
    )  # fmt: skip
    tool_result_max_chars = Variable[int | None](
        "KSADK_TOOL_RESULT_MAX_CHARS", read=budget, default=None,
        help="Characters of a result's field above which it is trimmed (50000).",
    )  # fmt: skip
    tool_result_preview_chars = Variable[int | None](
        "KSADK_TOOL_RESULT_PREVIEW_CHARS", read=budget, default=None,
        help="Characters that a trimmed field keeps (8000).",
    )  # fmt: skip
    tool_result_persist_threshold_chars = Variable[int | None](
        "KSADK_TOOL_RESULT_PERSIST_THRESHOLD_CHARS", read=budget, default=None,
        help="Characters above which the full text is kept in a file (50000).",
    )  # fmt: skip

    # Where things are
    project_dir = Variable[Path | None](
        "KSADK_PROJECT_DIR", read=path, default=None,
        help="The project's directory; the current directory if unset.",
    )  # fmt: skip
    ui_dir = Variable[Path | None](
        "AGENTENGINE_UI_DIR", read=path, default=None,
        help="Where a session keeps its files; .agentengine/ui in the project if unset.",
    )  # fmt: skip
    state_home = Variable[Path | None](
        "XDG_STATE_HOME", read=absolute_path, default=None,
        help="The base of the user's state: approval requests and decisions (~/.local/state if unset).",
    )  # fmt: skip
    config_home = Variable[Path | None](
        "XDG_CONFIG_HOME", read=absolute_path, default=None,
        help="The base of the user's configuration (~/.config if unset).",
    )  # fmt: skip

    # Model, knowledge base, memory
    model_name = Variable(
        "OPENAI_MODEL_NAME", "MODEL_NAME", read=text, default="",
        help="The model that an agent uses.",
    )  # fmt: skip
    openai_base_url = Variable(
        "OPENAI_BASE_URL", read=text, default="", help="The base URL of the model's service."
    )  # fmt: skip
    openai_api_key = Variable(
        "OPENAI_API_KEY", read=text, default="", secret=True, help="The key of the model's service."
    )  # fmt: skip
    kb_dataset_id = Variable(
        "KSADK_KB_DATASET_ID", read=text, default="", help="The knowledge base that is bound."
    )  # fmt: skip
    ltm_namespace = Variable(
        "KSADK_LTM_NAMESPACE", read=text, default="", help="The long-term memory that is bound."
    )  # fmt: skip

    # Sandbox
    sandbox_backend = Variable(
        "KSADK_SANDBOX_BACKEND", read=read_backend, default="",
        help="none, local_process, pod_process, bubblewrap or e2b; chosen automatically if unset.",
    )  # fmt: skip
    sandbox_template_id = Variable(
        "KSADK_SANDBOX_TEMPLATE_ID", read=text, default="", help="The E2B template; its presence chooses e2b."
    )  # fmt: skip
    sandbox_type = Variable(
        "KSADK_SANDBOX_TYPE", read=read_sandbox_type, default="aio",
        help="aio, code, browser or private (thread means aio).",
    )  # fmt: skip
    sandbox_timeout = Variable[int | None](
        "KSADK_SANDBOX_TIMEOUT", read=whole(1), default=None,
        help="Seconds that one command may run (600), and that an E2B sandbox lives (900).",
    )  # fmt: skip
    sandbox_ttl_seconds = Variable(
        "KSADK_SANDBOX_TTL_SECONDS", read=whole(), default=600, help="Seconds that a sandbox is kept."
    )  # fmt: skip
    sandbox_idle_ttl_seconds = Variable(
        "KSADK_SANDBOX_IDLE_TTL_SECONDS", read=whole(), default=300,
        help="Seconds that an unused sandbox is kept.",
    )  # fmt: skip
    sandbox_max_sessions = Variable(
        "KSADK_SANDBOX_MAX_SESSIONS", read=whole(), default=0, help="Sandboxes at once; 0 is no limit."
    )  # fmt: skip
    sandbox_session_id = Variable(
        "KSADK_SANDBOX_SESSION_ID", read=text, default="", help="The key under which a sandbox is shared."
    )  # fmt: skip
    sandbox_allow_internet_access = Variable(
        "KSADK_SANDBOX_ALLOW_INTERNET_ACCESS", read=flag, default=True,
        help="Whether an E2B sandbox reaches the internet.",
    )  # fmt: skip
    sandbox_startup_retry_attempts = Variable(
        "KSADK_SANDBOX_STARTUP_RETRY_ATTEMPTS", read=whole(1), default=6,
        help="Tries until a new sandbox is ready.",
    )  # fmt: skip
    sandbox_startup_retry_delay = Variable(
        "KSADK_SANDBOX_STARTUP_RETRY_DELAY", read=seconds, default=0.2,
        help="Seconds before the second try; doubled each time, 1 at most.",
    )  # fmt: skip
    sandbox_sync_max_files = Variable(
        "KSADK_SANDBOX_SYNC_MAX_FILES", read=whole(), default=2000,
        help="Workspace files that are copied into an isolated sandbox.",
    )  # fmt: skip
    sandbox_sync_max_file_bytes = Variable(
        "KSADK_SANDBOX_SYNC_MAX_FILE_BYTES", read=whole(), default=2 * 1024 * 1024,
        help="Bytes of one file that is copied.",
    )  # fmt: skip
    sandbox_sync_max_total_bytes = Variable(
        "KSADK_SANDBOX_SYNC_MAX_TOTAL_BYTES", read=whole(), default=25 * 1024 * 1024,
        help="Bytes that are copied in all.",
    )  # fmt: skip
    sandbox_sweep_interval_seconds = Variable(
        "KSADK_SANDBOX_SWEEP_INTERVAL_SECONDS", read=whole(), default=60,
        help="Seconds between sweeps of expired sandboxes; 0 turns sweeping off.",
    )  # fmt: skip
    allow_pod_process_tools = Variable(
        "KSADK_ALLOW_POD_PROCESS_TOOLS", read=flag, default=False,
        help="Allows the pod_process backend, which shares the pod's files and network.",
    )  # fmt: skip
    e2b_api_key = Variable("E2B_API_KEY", read=text, default="", secret=True, help="The key of E2B.")

    # Skills
    skills_mode = Variable(
        "KSADK_SKILLS_MODE", read=read_skills_mode, default="auto", help="auto, local, sandbox or off."
    )  # fmt: skip
    skill_runtime_backend = Variable(
        "KSADK_SKILL_RUNTIME_BACKEND", read=read_backend, default="",
        help="Where skills run; the sandbox's backend if unset.",
    )  # fmt: skip
    skill_runtime_template_id = Variable(
        "KSADK_SKILL_RUNTIME_TEMPLATE_ID", read=text, default="", help="The E2B template for skills."
    )  # fmt: skip
    skill_runtime_timeout = Variable(
        "KSADK_SKILL_RUNTIME_TIMEOUT", read=whole(1), default=900, help="Seconds that a workflow may run."
    )  # fmt: skip
    skill_space_ids = Variable[tuple[str, ...]](
        "KSADK_SKILL_SPACE_IDS", "SKILL_SPACE_ID", read=words, default=(),
        help="The user's skill spaces, separated by commas.",
    )  # fmt: skip
    public_skill_space_ids = Variable[tuple[str, ...]](
        "KSADK_PUBLIC_SKILL_SPACE_IDS", read=words, default=(),
        help="Public skill spaces, separated by commas; public is the one of the service itself.",
    )  # fmt: skip
    public_skill_allowlist = Variable[tuple[str, ...]](
        "KSADK_PUBLIC_SKILL_ALLOWLIST", read=words, default=(),
        help="The names of the public skills that are offered; all if unset.",
    )  # fmt: skip
    selected_skill_names = Variable[tuple[str, ...]](
        "KSADK_SELECTED_SKILL_NAMES", read=words, default=(), help="The skills that a workflow is bound to."
    )  # fmt: skip
    local_skills_dir = Variable[Path | None](
        "KSADK_LOCAL_SKILLS_DIR", read=path, default=None, help="A directory of local skills."
    )  # fmt: skip
    skill_cache_dir = Variable[Path | None](
        "KSADK_SKILL_CACHE_DIR", read=path, default=None,
        help="Where verified skills are kept, in a directory that only this user can write to; "
             "ksadk-skill-cache in the directory for temporary files if unset.",
    )  # fmt: skip
    skill_workdir = Variable[Path | None](
        "KSADK_SKILL_WORKDIR", read=path, default=None, help="Where a local workflow runs."
    )  # fmt: skip
    skill_env_allowlist = Variable[tuple[str, ...]](
        "KSADK_SKILL_ENV_ALLOWLIST", read=words, default=(),
        help="Names of further variables that skills' scripts are given; never those of our keys and tokens.",
    )  # fmt: skip
    skill_allow_hash_mismatch = Variable(
        "KSADK_SKILL_ALLOW_HASH_MISMATCH", read=flag, default=False,
        help="Takes a skill whose package has another hash than its listing, or whose listing has none; it "
             "is kept apart and warned about.",
    )  # fmt: skip
    skill_manifest_limit = Variable(
        "KSADK_SKILL_MANIFEST_LIMIT", read=whole(), default=30,
        help="How many skills the manifest for a model has at most.",
    )  # fmt: skip
    skill_manifest_timeout = Variable(
        "KSADK_SKILL_MANIFEST_TIMEOUT", read=seconds, default=10.0, help="Seconds to ask all spaces in."
    )  # fmt: skip
    skill_service_url = Variable(
        "KSADK_SKILL_SERVICE_URL", read=text, default="", help="The Skill Service's base URL."
    )  # fmt: skip
    skill_service_token = Variable(
        "KSADK_SKILL_SERVICE_TOKEN", read=text, default="", secret=True,
        help="The Skill Service's token: for requests, and what `skills serve` wants of its callers.",
    )  # fmt: skip
    skill_service_endpoint = Variable(
        "KSADK_SKILL_SERVICE_ENDPOINT", read=text, default="",
        help="The Skill Service's host, where its URL is not set; the public gateway if unset.",
    )  # fmt: skip
    skill_service_scheme = Variable(
        "KSADK_SKILL_SERVICE_SCHEME", read=choice("https", "http"), default="https",
        help="https, or http, where the host is set by KSADK_SKILL_SERVICE_ENDPOINT.",
    )  # fmt: skip
    skill_service_signed_hosts = Variable[tuple[str, ...]](
        "KSADK_SKILL_SERVICE_SIGNED_HOSTS", read=words, default=(),
        help="HOST or HOST:PORT of private gateways, whose requests are signed.",
    )  # fmt: skip
    skill_service_access_key = Variable(
        "KSADK_SKILL_SERVICE_ACCESS_KEY", "KSYUN_ACCESS_KEY", "KS3_ACCESS_KEY",
        read=text, default="", secret=True, help="The access key for signed requests.",
    )  # fmt: skip
    skill_service_secret_key = Variable(
        "KSADK_SKILL_SERVICE_SECRET_KEY", "KSYUN_SECRET_KEY", "KS3_SECRET_KEY",
        read=text, default="", secret=True, help="The secret key for signed requests.",
    )  # fmt: skip
    skill_service_account_id = Variable(
        "KSADK_SKILL_SERVICE_ACCOUNT_ID", "KSYUN_ACCOUNT_ID", read=text, default="",
        help="The account that requests are made for.",
    )  # fmt: skip
    skill_service_region = Variable(
        "KSADK_SKILL_SERVICE_REGION", "KSYUN_REGION", read=text, default="cn-beijing-6",
        help="The region that requests are signed for.",
    )  # fmt: skip
    pre_control_region = Variable(
        "AGENTENGINE_PRE_CONTROL_REGION", read=text, default="cn-beijing-6",
        help="The region that pre-online stands for.",
    )  # fmt: skip
    skill_service_api_version = Variable(
        "KSADK_SKILL_SERVICE_API_VERSION", read=text, default="2024-06-12", help="The API's version."
    )  # fmt: skip
    skill_service_sign_service = Variable(
        "KSADK_SKILL_SERVICE_SIGN_SERVICE", read=text, default="aicp", help="The service name in signatures."
    )  # fmt: skip

    # MCP
    mcp_servers = Variable(
        "KSADK_MCP_SERVERS", read=text, default="", secret=True,
        help="A JSON list of servers: name, url, api_key, tool_filter, tool_name_prefix.",
    )  # fmt: skip
    enable_mcp_tools = Variable(
        "KSADK_ENABLE_MCP_TOOLS", read=flag, default=True, help="Whether MCP tools are offered."
    )  # fmt: skip

    # Web
    web_search_provider = Variable(
        "KSADK_WEB_SEARCH_PROVIDER", "OPENCLAW_WEB_SEARCH_PROVIDER",
        read=choice("fake", "http", "ksyun"), default="", help="fake, http or ksyun.",
    )  # fmt: skip
    web_search_api_key = Variable(
        "KSADK_WEB_SEARCH_API_KEY", "OPENCLAW_WEB_SEARCH_API_KEY",
        read=text, default="", secret=True, help="The search provider's key.",
    )  # fmt: skip
    web_search_ksyun_key = Variable(
        "KSADK_MCP_KEY", "KSC_AIPRO_API_KEY", "KSC_AIPRO_APIKEY", "AIPRO_API_KEY",
        read=text, default="", secret=True, help="The ksyun provider's key where no general one is set.",
    )  # fmt: skip
    web_search_base_url = Variable(
        "KSADK_WEB_SEARCH_BASE_URL", "OPENCLAW_WEB_SEARCH_BASE_URL",
        read=text, default="", help="The http provider's URL.",
    )  # fmt: skip
    web_search_scope = Variable(
        "KSADK_WEB_SEARCH_SCOPE", read=choice("webpage", "document", "scholar", "podcast", "video"),
        default="webpage", help="webpage, document, scholar, podcast or video (ksyun).",
    )  # fmt: skip
    web_ssrf_policy = Variable(
        "KSADK_WEB_SSRF_POLICY_JSON", "OPENCLAW_BROWSER_SSRF_POLICY_JSON", read=text, default="",
        help='{"allow_private": true} lifts the private-address check, {"allow_ports": [...]} adds ports.',
    )  # fmt: skip

    # A2A
    a2a_space_ids = Variable[tuple[str, ...]](
        "KSADK_A2A_SPACE_IDS", "KSADK_A2A_SPACE_ID", read=words, default=(),
        help="The Spaces that this runtime may use.",
    )  # fmt: skip
    a2a_control_plane_url = Variable(
        "KSADK_A2A_CONTROL_PLANE_URL", read=text, default="", help="The Space control plane."
    )  # fmt: skip
    a2a_token_dir = Variable(
        "KSADK_A2A_TOKEN_DIR", read=path, default=Path("/var/run/secrets/agentengine/a2a"),
        help="Where workload tokens are.",
    )  # fmt: skip
    a2a_enable_public_egress = Variable(
        "KSADK_A2A_ENABLE_PUBLIC_EGRESS", read=flag, default=False,
        help="Whether public external agents may be called.",
    )  # fmt: skip
    a2a_gateway_origins = Variable[tuple[str, ...]](
        "KSADK_A2A_GATEWAY_ORIGINS", read=words, default=(),
        help="Further origins that may see the gateway token.",
    )  # fmt: skip
    a2a_event_outbox_path = Variable[Path | None](
        "KSADK_A2A_EVENT_OUTBOX_PATH", read=path, default=None,
        help="Where task events wait; .agentengine/a2a_event_outbox.sqlite3 in the project if unset.",
    )  # fmt: skip
    a2a_bearer = Variable(
        "KSADK_A2A_BEARER", "A2ACLI_BEARER", read=text, default="", secret=True,
        help="The bearer token that `a2a call` and its neighbours send; --bearer wins.",
    )  # fmt: skip
    a2a_api_key = Variable(
        "KSADK_A2A_API_KEY", "A2ACLI_API_KEY", read=text, default="", secret=True,
        help="The API key that they send where the agent's card asks for one; --api-key wins.",
    )  # fmt: skip
    a2a_task_store_dsn = Variable(
        "KSADK_A2A_TASK_STORE_DSN", read=text, default="", secret=True,
        help="Where `a2a serve` keeps tasks; .agentengine/a2a_tasks.db in the project if unset.",
    )  # fmt: skip
    a2a_service_url = Variable(
        "KSADK_A2A_SERVICE_URL", read=text, default="", help="The public Space service's URL."
    )  # fmt: skip
    a2a_service_endpoint = Variable(
        "KSADK_A2A_SERVICE_ENDPOINT", read=text, default="", help="The public Space service's host."
    )  # fmt: skip
    a2a_service_scheme = Variable(
        "KSADK_A2A_SERVICE_SCHEME", read=choice("https", "http"), default="https", help="https or http."
    )  # fmt: skip
    a2a_service_region = Variable(
        "KSADK_A2A_SERVICE_REGION", read=text, default="", help="The public Space service's region."
    )  # fmt: skip
    a2a_service_token = Variable(
        "KSADK_A2A_SERVICE_TOKEN", read=text, default="", secret=True,
        help="The public Space service's token.",
    )  # fmt: skip
    a2a_access_key = Variable(
        "KSADK_A2A_ACCESS_KEY", read=text, default="", secret=True, help="Its access key."
    )  # fmt: skip
    a2a_secret_key = Variable(
        "KSADK_A2A_SECRET_KEY", read=text, default="", secret=True, help="Its secret key."
    )  # fmt: skip
    a2a_account_id = Variable(
        "KSADK_A2A_ACCOUNT_ID", read=text, default="", help="The account that requests are made for."
    )  # fmt: skip

    # The terminal
    no_color = Variable("NO_COLOR", read=lambda _: True, default=False, help="Set: no colour.")
    force_color = Variable(
        "FORCE_COLOR", read=lambda value: value != "0", default=False, help="Set: colour in pipes too."
    )
    editor = Variable("VISUAL", "EDITOR", read=text, default="vi", help="The editor for `e` at a prompt.")
    inside_tool = Variable(
        "KSADK_INSIDE_TOOL", read=lambda _: True, default=False,
        help="Set by this program in what its tools start: nothing is approved from in there.",
    )  # fmt: skip

    def __init__(self, environ: Mapping[str, str] | None = None, /, **values: Any) -> None:
        unknown = [name for name in values if not isinstance(getattr(type(self), name, None), Variable)]
        if unknown:
            raise TypeError(f"no such setting: {', '.join(unknown)}")
        self._environ: Mapping[str, str] = {} if environ is None else environ
        self._values = values

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, /, **values: Any) -> Self:
        """The settings of a mapping, the process's environment by default; `values` override it."""
        return cls(os.environ if environ is None else environ, **values)

    @classmethod
    def variables(cls) -> Iterator[Variable[Any]]:
        """Every variable, in the order of declaration."""
        return (value for value in vars(cls).values() if isinstance(value, Variable))

    def is_set(self, field: str) -> bool:
        """Whether a field comes from the environment or an override, not from its default."""
        variable: Variable[Any] = getattr(type(self), field)
        return field in self._values or variable.source(self._environ) is not None

    def origin(self, field: str) -> tuple[str, str]:
        """Where a field's value comes from: the name of the variable, empty where the default holds, and the
        file of `--env-file` that set it, empty where the process's environment did."""
        variable: Variable[Any] = getattr(type(self), field)
        name = variable.source(self._environ) or ""
        return name, _from_file.get().get(name, "")

    def given(self) -> Mapping[str, str]:
        """Every variable of the environment as it was given, of this program or not."""
        return self._environ

    def state_dir(self) -> Path:
        """The user's state of this program, outside every workspace (XDG)."""
        return (self.state_home or _home("XDG_STATE_HOME") / ".local" / "state") / "agentengine"

    def config_dir(self) -> Path:
        """The user's configuration of this program (XDG)."""
        return (self.config_home or _home("XDG_CONFIG_HOME") / ".config") / "agentengine"

    def config_dir_text(self) -> str:
        """The same as text, for what every call looks at: making a `Path` each time would cost too much."""
        if "config_home" in self._values:
            return str(self.config_dir())
        said = self._environ.get("XDG_CONFIG_HOME"), self._environ.get("HOME")
        if said not in _config_dirs:
            _config_dirs.clear()
            _config_dirs[said] = str(self.config_dir())
        return _config_dirs[said]


_config_dirs: dict[tuple[str | None, str | None], str] = {}


def _home(instead: str) -> Path:
    try:
        home = Path.home()
    except RuntimeError as error:
        raise SettingsError(f"there is no home directory: {error}", hint=f"Set HOME or {instead}.") from error
    if not home.is_absolute():
        raise SettingsError(f"HOME is {str(home)!r}, not an absolute path", hint=f"Set HOME or {instead}.")
    return home


UNREAD = frozenset({
    "mcp_servers", "enable_mcp_tools", "web_search_api_key",
    "web_search_ksyun_key", "web_search_base_url", "web_search_scope", "web_ssrf_policy",
})  # fmt: skip
"""The fields that are declared, and that nothing in this release reads yet."""

_from_file: ContextVar[Mapping[str, str]] = ContextVar("from_file", default=MappingProxyType({}))


@contextmanager
def environment_below(values: Mapping[str, str], file: str) -> Iterator[None]:
    """Put the variables of a file under the process's environment, for libraries and child processes too.

    What the process has, wins, also when it is blank, and also under another name of the same setting.
    """
    taken = set(os.environ)
    for variable in Settings.variables():
        if variable.source(os.environ):
            taken.update(variable.names)
    added = {name: value for name, value in values.items() if name not in taken}
    os.environ.update(added)
    token = _from_file.set(dict.fromkeys(added, file))
    try:
        yield
    finally:
        _from_file.reset(token)
        for name in added:
            os.environ.pop(name, None)
