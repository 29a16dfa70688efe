"""The import paths and signatures that the documents promise.

A function may take more than is promised, if what it adds comes after and has a default. `approval` is in no
signature, because models are shown signatures; it is in the type stubs.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLSETS = ROOT / "src" / "ksadk" / "toolsets"

PROMISED = {
    "ksadk.toolsets": """
        get_agentengine_tools(include=None, *, profile="default", mode="direct")
        get_ksadk_builtin_tools(profile="coding")
        describe_agentengine_tools(include=None, *, profile="default", mode="direct")
        tool_dispatcher(action, tool_name=None, arguments=None, include=None, profile="default")
        agentengine_tool_dispatcher(action, tool_name=None, arguments=None, include=None, profile="default")
        tool_search(query, profile="coding", max_results=8, include_disabled=False)
        builtin_tools_for_runtime(*, profile=None, mode=None)
        builtin_tool_descriptors_for_runtime(*, profile=None, mode=None)
        builtin_tools_mode()
        builtin_tools_profile(default="default")
        register_external_tools(tools, *, group="external", boundary="framework_managed_external_tool", \
risk_level="medium", enabled=True)
        clear_external_tools(group=None)
        get_skill_tools()
        get_workspace_tools()
        get_platform_tools()
        get_sandbox_tools()
        get_web_tools()
    """,
    "ksadk.toolsets.platform": "component_status()",
    "ksadk.toolsets.workspace": """
        workspace_status()
        list_workspace_files(path=".", glob=None, recursive=False, include_dirs=True, max_results=500, \
sort_by="name")
        read_workspace_file(path, start_line=None, end_line=None, max_chars=None, include_line_numbers=True)
        write_workspace_file(path, content, overwrite=True, approval=None)
        write_workspace_files(files, overwrite=True, approval=None)
        edit_workspace_file(path, old_text, new_text, expected_replacements=1, replace_all=False, \
approval=None)
        multi_edit_workspace_file(path, edits, replace_all=False, approval=None)
        lint_workspace_file(path, language="auto")
        search_workspace_files(query, path=".", is_regex=False, glob=None, case_sensitive=False, \
context_lines=0, max_results=100)
        delete_workspace_file(path, approval=None)
        workspace_root()
        resolve_workspace_path(rel)
        workspace_relative(path)
    """,
    "ksadk.toolsets.skills": """
        get_skill_tools()
        list_skills()
        search_skills(query, max_results=10)
        load_skill(skill_name)
        execute_skills(workflow_prompt, skill_names=None, approval=None)
    """,
    "ksadk.toolsets.sandbox": """
        sandbox_status()
        run_command(command, cwd=None, timeout=None, env=None, background=False, approval=None)
        run_code(code, language="python", timeout=None, env=None, approval=None)
    """,
    "ksadk.toolsets.web": """
        web_fetch(url, max_chars=None, timeout=30)
        web_search(query, max_results=5, recency_days=None)
    """,
    "ksadk.tools.gateway": """
        ToolPolicy(risk_level="low", side_effects=(), approval_scopes=(), approval_exempt=False, \
requires_approval=None)
        ToolGateway(policies=None)
        default_tool_gateway(policies=None)
        tool_policy_requires_approval(policy, *, approval_mode=None)
        normalize_tool_approval_mode(value=None)
        tool_approval_capability()
        check_command_policy(command)
        build_tool_receipt_idempotency_key(*, session_id, run_id, checkpoint_id=None, tool_call_id=None, \
tool_name, tool_args=None)
        approval_interrupt_info_from_result(result, *, fallback_tool_name="tool", tool_args=None, run_id=None)
    """,
    "ksadk.tools.result_budget": """
        ToolResultBudget(max_chars=50000, preview_chars=8000, persist_threshold_chars=50000, persist_dir=None)
        default_tool_result_budget(*, max_chars=None, preview_chars=None, persist_threshold_chars=None)
        budget_tool_output(*, tool_name, field_name, value, metadata=None, budget=None)
        budget_text_fields(payload, *, tool_name, fields, metadata=None, budget=None)
    """,
    "ksadk.runtime_context": """
        get_current_invocation_context()
        get_current_invocation_context_or_default()
        get_current_account_id(default="")
        get_current_user_id()
        get_current_tool_execution_context_or_default()
        platform_invocation_scope(context)
        tool_execution_scope(session_id, run_id=None, invocation_id=None)
        ToolExecutionContext(session_id="", run_id="", invocation_id="")
    """,
    "ksadk.sandbox": """
        SandboxInputFile(source, target_path)
        SandboxCommandResult(stdout, stderr, exit_code)
        SandboxSpec(template_id, sandbox_type="aio", timeout=900, allow_internet_access=True)
        sandbox_spec_from_env()
        create_sandbox_backend(backend=None, *, sandbox_cls=None)
        E2BSandboxBackend(spec=None, sandbox_cls=None)
        LocalProcessSandboxBackend(workspace_root, backend_name="local_process")
        BubblewrapSandboxBackend(workspace_root)
    """,
    "ksadk.sandbox.registry": """
        SandboxRegistry()
        bind_sandbox_registry(registry)
    """,
    "ksadk.sessions": "resolve_local_session_dir()",
    "ksadk.a2a": """
        A2AConfig(enabled=False, base_url="http://127.0.0.1:8000", agent_name="agent", description="", \
version="1.0.0", skills=(), streaming=True, prefer_stream=True, include_reasoning=False, \
task_store_dsn=None, task_table="ksadk_a2a_tasks", create_table=True)
        add_a2a_protocol_routes(app, runner, config, *, task_adapter, task_store=None, engine=None, \
context_builder=None)
        A2AOwnerContextBuilder(account_headers=("x-ksc-account-id", "x-account-id"), \
runtime_headers=("x-auth-agent-id", "x-ksc-agent-id", "x-runtime-id"), identity_resolver=None, \
allow_unverified_identity=True)
        A2AIngressIdentity(account_id, tenant_id, caller_principal_type, caller_principal_id, \
target_agent_id, target_runtime_id, target_a2a_agent_id, authn_mode, caller_runtime_id=None)
        AgentEngineA2ABootstrap(*, runtime_metadata, task_store, context_store, checkpoint_store, \
resume_state_store, gateway_identity_verifier, gateway_probe_verifier, external_transport, control_plane, \
hosted_http_client, event_outbox, inbound_enabled=True, outbound_enabled=True, \
public_egress_enabled=False, outbox_retry_interval_seconds=1.0)
        build_agent_card(*, name, base_url, description="", version="1.0.0", skills=None, streaming=True, \
provider=None)
    """,
}
SIGNATURES = [
    pytest.param(module, line.strip(), id=f"{module}.{line.strip().partition('(')[0]}")
    for module, lines in PROMISED.items()
    for line in lines.strip().splitlines()
]
REQUIRED = object()


def parameters(signature: str) -> tuple[str, dict[str, tuple[bool, object]]]:
    """A written signature: the function's name, and for each parameter whether it is keyword-only and its
    default."""
    node = ast.parse(f"def {signature}: ...").body[0]
    assert isinstance(node, ast.FunctionDef)
    return node.name, of_arguments(node.args)


def of_arguments(arguments: ast.arguments) -> dict[str, tuple[bool, object]]:
    bare: list[ast.expr | None] = [None] * (len(arguments.args) - len(arguments.defaults))
    found = {
        argument.arg: (False, REQUIRED if default is None else ast.literal_eval(default))
        for argument, default in zip(arguments.args, [*bare, *arguments.defaults], strict=True)
    }
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found[argument.arg] = (True, REQUIRED if default is None else ast.literal_eval(default))
    return found


METHODS = {
    "SandboxRegistry": """
        get_or_create(self, *, key, backend_name, backend, ttl_seconds, isolated, idle_ttl_seconds=None, \
max_sessions=None, input_files=None, now=None)
        latest(self, key=None)
        sweep(self, now=None)
        entries(self)
        kill(self, key)
        clear(self)
        close(self)
        reset_for_tests(self)
    """,
    "SandboxBackend": "create_session(self, *, session_id, env=None, input_files=None)",
    "SandboxSession": """
        write_file(self, path, data)
        read_file(self, path)
        run_command(self, command, *, timeout=None, env=None, cwd=None, on_output=None)
        get_host(self, port)
        kill(self)
    """,
}
"""Of classes of `ksadk.sandbox` and its registry."""


@pytest.mark.parametrize("kind", METHODS)
def test_a_sandbox_has_the_promised_methods(kind: str) -> None:
    home = importlib.import_module("ksadk.sandbox.registry" if kind == "SandboxRegistry" else "ksadk.sandbox")
    for line in METHODS[kind].strip().splitlines():
        name, promised = parameters(line.strip())
        actual = inspect.signature(getattr(getattr(home, kind), name)).parameters
        assert of_signature(actual) == promised


BOOTSTRAP = ("client_for_space(self, space_id)", "start(self)", "stop(self, flush_timeout_seconds=5.0)")


@pytest.mark.parametrize("line", BOOTSTRAP)
def test_a_hosted_runtime_has_the_promised_methods(line: str) -> None:
    name, promised = parameters(line)
    kind = importlib.import_module("ksadk.a2a").AgentEngineA2ABootstrap
    assert of_signature(inspect.signature(getattr(kind, name)).parameters) == promised
    assert callable(kind.mount) and callable(kind.from_platform)


def of_signature(actual: Mapping[str, inspect.Parameter]) -> dict[str, tuple[bool, object]]:
    return {
        name: (found.kind is found.KEYWORD_ONLY, REQUIRED if found.default is found.empty else found.default)
        for name, found in actual.items()
    }


@pytest.mark.parametrize("backend", ["Bubblewrap", "LocalProcess", "E2B"])
def test_every_backend_starts_sandboxes_in_the_same_way(backend: str) -> None:
    kind = getattr(importlib.import_module("ksadk.sandbox"), f"{backend}SandboxBackend")
    _, promised = parameters(METHODS["SandboxBackend"])
    assert of_signature(inspect.signature(kind.create_session).parameters) == promised


@pytest.mark.parametrize(("module", "signature"), SIGNATURES)
def test_a_promised_name_is_there_with_its_signature(module: str, signature: str) -> None:
    name, promised = parameters(signature)
    promised.pop("approval", None)
    actual = inspect.signature(getattr(importlib.import_module(module), name)).parameters
    assert "approval" not in actual
    assert list(actual)[: len(promised)] == list(promised)
    for parameter, (keyword_only, default) in promised.items():
        found = actual[parameter]
        assert (found.kind is found.KEYWORD_ONLY) == keyword_only, parameter
        assert (REQUIRED if found.default is found.empty else found.default) == default, parameter
    for extra in list(actual.values())[len(promised) :]:
        assert extra.default is not extra.empty, extra.name


STUBBED = [
    item
    for item in SIGNATURES
    if item.values[0] in {f"ksadk.toolsets.{name}" for name in ("workspace", "skills", "sandbox")}
]


@pytest.mark.parametrize(("module", "signature"), STUBBED)
def test_a_stub_shows_what_a_call_takes(module: str, signature: str) -> None:
    name, promised = parameters(signature)
    tree = ast.parse((TOOLSETS / f"{module.split('.')[-1]}.pyi").read_text(encoding="utf-8"))
    written = {node.name: of_arguments(node.args) for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert ("approval" in written[name]) == ("approval" in promised)
    ours = [item for item in written[name] if item in promised]
    assert ours == list(promised), "the same parameters in the same order, perhaps with more of ours"
    if "approval" in promised:
        assert list(written[name])[-1] == "approval"


def test_the_stubs_are_current() -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "stubs.py"), "--check"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr + "run: python scripts/stubs.py"


def test_invoke_takes_what_is_promised() -> None:
    from ksadk.tools.gateway import ToolGateway

    taken = inspect.signature(ToolGateway.invoke).parameters
    assert list(taken) == ["self", "tool_name", "func", "args", "approval", "kwargs"]
    assert taken["approval"].default is None


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("ksadk.runtime_context", "PlatformInvocationContext"),
        ("ksadk.toolsets.sandbox", "get_sandbox_tools"),
        ("ksadk.sandbox", "SandboxError"),
        ("ksadk.sandbox", "SandboxType"),
        ("ksadk.sandbox.registry", "SandboxEntry"),
        ("ksadk.toolsets.web", "get_web_tools"),
        ("ksadk.toolsets.platform", "get_platform_tools"),
        ("ksadk.toolsets.workspace", "get_workspace_tools"),
        *(
            ("ksadk.a2a", name)
            for name in (
                "RuntimeA2AMetadata",
                "GatewayIdentityVerifier",
                "GatewayProbeVerifier",
                "RuntimeAdapter",
                "RuntimeEvent",
                "StartRequest",
                "ResumePayload",
                "CancelResult",
                "RunHandle",
                "ResumeTarget",
            )
        ),
    ],
)
def test_a_promised_name_is_there(module: str, name: str) -> None:
    assert callable(getattr(importlib.import_module(module), name))


EVERYTHING = """
import importlib, pkgutil
import agentengine_cli, ksadk
for package in (agentengine_cli, ksadk):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if error.name is None or "." in error.name:  # else an extra that is not installed
                raise
"""


def test_every_module_that_is_shipped_can_be_imported() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", EVERYTHING], capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
