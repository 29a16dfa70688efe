"""Every error raised on purpose: one tree, and one table of the stable codes that it carries.

A code is public API: it is the `error_type` of a tool's result, the `error.code` of the command line's
JSON, and (through its kind) decides the exit status.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

Kind = Literal[
    "failed", "usage", "unreachable", "authentication", "timeout", "approval", "denied", "unavailable"
]


class Code(NamedTuple):
    """What a code means, and the family that decides its exit status."""

    kind: Kind
    meaning: str


CODES: dict[str, Code] = {
    # Everything
    "failed": Code("failed", "The operation did not succeed."),
    "usage": Code("usage", "The command line is not one that this program takes."),
    "invalid_setting": Code("usage", "An environment variable or configuration value cannot be used."),
    "invalid_arguments": Code("usage", "The arguments do not fit the tool's schema."),
    "invalid_tool": Code("usage", "A function cannot be made into a tool."),
    "no_current_directory": Code("failed", "The current directory was deleted."),
    "unknown_tool": Code("usage", "No tool, group or profile has that name."),
    # Approval
    "approval_required": Code("approval", "The call needs approval, and nobody is there to give it."),
    "approval_rejected": Code("denied", "A person did not approve the call."),
    "denied_by_rule": Code("denied", "A rule denies the call; no approval lifts it."),
    "approval_expired": Code("timeout", "Nobody answered, or nobody used the answer, in time."),
    "approval_stale": Code("denied", "What the call would act on has changed since it was approved."),
    "approval_used": Code("denied", "The approval was used already."),
    "approval_mismatch": Code("denied", "The approval is for another call."),
    "approval_not_found": Code("denied", "No approval request of that id is kept."),
    "approval_unanswered": Code("approval", "The approval request was shown, and still waits."),
    "approval_decided": Code("failed", "The approval request was answered already."),
    "invalid_approval": Code("denied", "The approval is not one: only the boolean True approves."),
    "approval_in_arguments": Code("denied", "A model's arguments carried an approval."),
    "approval_inside_tool": Code("denied", "What a tool started tried to approve something."),
    "no_terminal": Code("approval", "The answer must be given at a terminal, and there is none."),
    "unsupported_rule": Code("usage", "A rule that this release cannot judge."),
    "invalid_rules": Code("usage", "A file of rules is broken; the message names file and line."),
    "trust_unavailable": Code("unavailable", "What the user trusts cannot be read or written."),
    "trust_refused": Code("denied", "The person at the terminal did not trust the project."),
    "unknown_trust": Code("failed", "The project was not trusted."),
    "unknown_rule": Code("failed", "No rule is at that place or has that number."),
    "log_unavailable": Code("unavailable", "The decision cannot be written down, so the call did not start."),
    # Agent Cards and projects
    "invalid_card": Code("usage", "A value that no valid Agent Card can hold."),
    "invalid_url": Code("usage", "A URL that cannot be used where it was given."),
    "project_not_found": Code("failed", "A directory holds nothing that tells of an agent."),
    "invalid_project_file": Code("failed", "A project's file is broken; the message names file and line."),
    "file_exists": Code("failed", "A file that would be written is already there."),
    # Serving and calling agents
    "agent_not_loadable": Code("failed", "The agent cannot be loaded or run as it is."),
    "not_cancelable": Code("failed", "The agent was asked to stop, and goes on."),
    "task_store_unavailable": Code("unavailable", "Tasks cannot be kept, or read from where they are kept."),
    "task_store_in_use": Code("unavailable", "Another server keeps its tasks in the same file."),
    "invalid_dsn": Code("usage", "The name of a database is not one."),
    "invalid_bearer_file": Code("usage", "A file of bearer tokens cannot be read, or is not one."),
    "address_unavailable": Code("unavailable", "The address cannot be listened on."),
    "extra_not_installed": Code("unavailable", "A package that one of the extras installs is not there."),
    # Calling agents: what A2A has a name for, by that name
    "TaskNotFoundError": Code("failed", "The agent knows no task of that id."),
    "TaskNotCancelableError": Code("failed", "The task has ended, or cannot be canceled."),
    "PushNotificationNotSupportedError": Code("failed", "The agent sends no push notifications."),
    "UnsupportedOperationError": Code("failed", "The agent does not do that."),
    "ContentTypeNotSupportedError": Code("failed", "The agent does not take what the message holds."),
    "InvalidAgentResponseError": Code("failed", "What the agent answered is not A2A."),
    "ExtendedAgentCardNotConfiguredError": Code("failed", "The agent has no extended card."),
    "ExtensionSupportRequiredError": Code(
        "failed", "The agent requires an extension that is not spoken here."
    ),
    "VersionNotSupportedError": Code("failed", "No version of A2A is common to both."),
    "JSONParseError": Code("failed", "The agent could not read the request as JSON."),
    "InvalidRequestError": Code("failed", "The agent took the request for none."),
    "MethodNotFoundError": Code("failed", "The agent does not know the operation."),
    "InvalidParamsError": Code("failed", "The agent refused the parameters of the request."),
    "InternalError": Code("failed", "The agent failed within."),
    # Calling agents: what happens before or beside a request, by the names that A2A's clients share
    "A2ACLI_ERR_USAGE": Code("usage", "What was asked of an agent cannot be asked."),
    "A2ACLI_ERR_CARD_NOT_FOUND": Code("unreachable", "No Agent Card is there."),
    "A2ACLI_ERR_CARD_INVALID": Code("failed", "The Agent Card cannot be used."),
    "A2ACLI_ERR_UNREACHABLE": Code("unreachable", "The agent cannot be reached."),
    "A2ACLI_ERR_CREDENTIALS_MISSING": Code(
        "authentication", "The agent wants credentials, and none were given."
    ),
    "A2ACLI_ERR_AUTH_FAILED": Code("authentication", "The agent refused the credentials."),
    "A2ACLI_ERR_TIMEOUT": Code("timeout", "The time was over before the task ended."),
    "A2ACLI_ERR_INTERNAL": Code("failed", "A call of an agent failed in a way that has no better name."),
    # Calling agents: how a task ended
    "a2a_task_failed": Code("failed", "The agent's task failed."),
    "a2a_task_rejected": Code("failed", "The agent rejected the task."),
    "a2a_task_canceled": Code("failed", "The agent's task was canceled."),
    "a2a_input_required": Code("failed", "The agent's task waits for an answer, or for a sign-in."),
    "a2a_stream_cut": Code(
        "failed", "The agent's stream ended before its task, and the task cannot be asked for."
    ),
    "space_not_configured": Code("unavailable", "No Space is configured in which the agent could be found."),
    # Spaces
    "space_id_required": Code("usage", "Several Spaces are configured, and none was named."),
    "A2A_INVALID_ID": Code("usage", "An id that no Space, agent or task has."),
    "A2A_INVALID_MESSAGE": Code("usage", "A message that is not sent to an agent of a Space."),
    "A2A_AGENT_NOT_FOUND": Code("failed", "The Space has no agent of that id."),
    "A2A_SPACE_NOT_FOUND": Code("failed", "There is no Space of that id, or it is somebody else's."),
    "A2A_TASK_NOT_FOUND": Code("failed", "There is no task of that id, or it is somebody else's."),
    "A2A_IDEMPOTENCY_CONFLICT": Code("failed", "An idempotency token was used for another request."),
    "A2A_AGENT_BLOCKED": Code("denied", "The Space lets nobody call the agent now."),
    "A2A_AGENT_NOT_CALLABLE": Code("denied", "The Space lists the agent, and lets nobody call it."),
    "A2A_TARGET_VERSION_CHANGED": Code("failed", "The agent has another version than the one discovered."),
    "A2A_REMOTE_TASK_NOT_BOUND": Code("failed", "The platform knows no remote task for its task."),
    "A2A_REMOTE_BINDING_CONFLICT": Code("failed", "The agent answered of another task or context."),
    "A2A_CONTEXT_MAPPING_NOT_FOUND": Code("failed", "No remote context is known to continue a task in."),
    "A2A_GATEWAY_ORIGIN_REFUSED": Code(
        "denied", "A hosted agent's address is neither the control plane's nor a configured gateway's."
    ),
    "A2A_INVALID_IDENTITY": Code(
        "authentication", "An identity that no gateway has verified, or that is none."
    ),
    "A2A_INVALID_RUNTIME_METADATA": Code("usage", "Metadata that no hosted runtime can have."),
    "A2A_BOOTSTRAP_INVALID": Code("usage", "A hosted runtime is put together, or used, as it cannot be."),
    "A2A_INBOUND_DISABLED": Code("denied", "The hosted runtime takes no calls."),
    "A2A_OUTBOUND_DISABLED": Code("denied", "The hosted runtime calls no other agents."),
    "A2A_WORKLOAD_TOKEN_UNUSABLE": Code("authentication", "A workload token is missing, unsafe or expired."),
    "A2A_EVENT_OUTBOX_REQUIRED": Code(
        "unavailable", "Events are kept only with an outbox, and none is there."
    ),
    "A2A_CONTROL_PLANE_UNAVAILABLE": Code("unreachable", "The Space control plane cannot be reached."),
    "A2A_CONTROL_PLANE_INVALID_RESPONSE": Code(
        "failed", "What the Space control plane answered cannot be used."
    ),
    "A2A_CONTROL_PLANE_DENIED": Code("authentication", "The Space control plane refused the credentials."),
    "A2A_CONTROL_PLANE_ERROR": Code("failed", "The Space control plane answered with an error."),
    "A2A_CONTROL_PLANE_ADDRESS": Code("usage", "The Space control plane cannot be asked at that address."),
    "a2a_center_files_unusable": Code(
        "unavailable", "A file of the center cannot be used, or is not this user's alone."
    ),
    "A2A_PUBLIC_EGRESS_DISABLED": Code("denied", "Public external agents may not be called from here."),
    "A2A_EGRESS_TRANSPORT_REQUIRED": Code(
        "unavailable", "No transport is there that external agents may be called through."
    ),
    "A2A_VPC_EGRESS_DIALER_REQUIRED": Code(
        "unavailable", "No dialer is there for an agent inside of a private network."
    ),
    "A2A_CREDENTIAL_INJECTION_CONFLICT": Code(
        "failed", "A credential would take the place of something that the request holds already."
    ),
    "A2A_EGRESS_REFUSED": Code("denied", "An external agent's address, or a request to it, is not safe."),
    "A2A_EGRESS_ADDRESS_REFUSED": Code("denied", "An external agent's host is not on the public internet."),
    "A2A_EGRESS_REDIRECT_REFUSED": Code("failed", "An external agent sends elsewhere, where nobody follows."),
    "A2A_EGRESS_TIMEOUT": Code("timeout", "The time of an operation with an external agent was over."),
    "A2A_PLATFORM_TOKEN_REFUSED": Code(
        "denied", "A request to an external agent carried a credential of the platform; it was not sent."
    ),
    "A2A_EGRESS_LIMIT_EXCEEDED": Code("failed", "An external agent's answer is over a limit."),
    "event_outbox_unavailable": Code("unavailable", "Task events cannot be kept, or read from their file."),
    "event_outbox_full": Code("unavailable", "Too many task events wait for the control plane to take them."),
    "invalid_event_batch": Code("usage", "Task events that cannot be kept: none, too many, or no JSON."),
    "signing_unavailable": Code("unavailable", "What signs cards and verifies signatures is not installed."),
    "invalid_key": Code("usage", "A key that no card can be signed or verified with."),
    # Tools: the dispatcher, search, and groups whose engine is not there
    "missing_tool_name": Code("usage", "The dispatcher was not told which tool."),
    "dispatcher_self_call": Code("usage", "The dispatcher does not call itself."),
    "unknown_action": Code("usage", "The dispatcher knows list, describe and call."),
    "invalid_arguments_json": Code("usage", "The arguments are text that is not JSON."),
    "invalid_arguments_type": Code("usage", "The arguments are not an object."),
    "tool_disabled": Code("unavailable", "The tool cannot work as this machine is set up."),
    "query_required": Code("usage", "There is nothing to search for."),
    "invalid_skill": Code("failed", "A skill, or what is said of one, cannot be used."),
    "invalid_skill_package": Code("failed", "A skill's package is not what it must be; nothing was written."),
    "invalid_content_hash": Code("failed", "What is given as a skill's hash is no SHA-256."),
    "skill_package_too_large": Code("failed", "A skill's package is over a limit, or expands beyond one."),
    "unsafe_skill_package": Code(
        "denied", "A skill's package has a path, a link or a device that none may have."
    ),
    "content_hash_missing": Code("denied", "A skill's listing has no hash to verify its package by."),
    "content_hash_mismatch": Code("denied", "A skill's package is not the one that its listing names."),
    "skill_cache_tampered": Code("denied", "A kept skill was changed after it was verified."),
    "skill_cache_unsafe": Code("unavailable", "Somebody else could change what the skill cache keeps."),
    "skill_cache_busy": Code("timeout", "Another process holds the skill cache."),
    "skill_changing": Code("failed", "A skill's files change while they are read or copied."),
    "skill_lock_mismatch": Code("denied", "A skill is not the one that the project's lock file names."),
    "invalid_lock_file": Code("usage", "The project's lock file of skills cannot be read, or is none."),
    "skill_not_found": Code("failed", "No skill of that name is there."),
    "invalid_space_id": Code("usage", "What is given as the id of a space of skills is none."),
    "skill_name_required": Code("usage", "No skill was named."),
    "skill_service_not_configured": Code("unavailable", "No skills are configured, local or remote."),
    "skill_service_unavailable": Code("unavailable", "Skills are configured, but cannot be read here."),
    "skill_service_unreachable": Code("unreachable", "The Skill Service cannot be reached."),
    "skill_service_timeout": Code("timeout", "The Skill Service did not answer in time."),
    "skill_service_unauthenticated": Code(
        "authentication", "The Skill Service refused the credentials, or they are missing."
    ),
    "skill_service_refused": Code("failed", "The Skill Service answered with an error."),
    "invalid_skill_service_answer": Code("failed", "What the Skill Service answered cannot be used."),
    "invalid_skill_service_address": Code("usage", "The Skill Service cannot be asked at that address."),
    "workflow_prompt_required": Code("usage", "A workflow has no prompt."),
    "skill_runtime_disabled": Code("unavailable", "No runtime is there to run skills in."),
    "no_skills": Code("failed", "No skill fits the workflow, so nothing was run."),
    "skill_has_no_entry_point": Code("failed", "No skill has a script to run, and no model is configured."),
    "skill_input_unusable": Code("failed", "An input file of a workflow cannot be used."),
    "skill_workdir_unusable": Code("unavailable", "The directory for workflows is not this user's alone."),
    "skill_transfer_failed": Code("failed", "A skill's files cannot be put into the remote sandbox."),
    "invalid_skill_runtime_result": Code("failed", "What ran the workflow did not say what came of it."),
    "not_allowed_by_skill": Code("denied", "The skill's allowed-tools takes that away."),
    "model_failed": Code("failed", "The model's service cannot be asked, or refused."),
    "model_limit_exceeded": Code("failed", "A model was stopped after too many turns or tokens."),
    "TimeoutExpired": Code("timeout", "The workflow's time was over, and all of it was ended."),
    "command_required": Code("usage", "There is no command to run."),
    "invalid_command": Code("usage", "The command is no line of shell: a quote is not closed."),
    "command_rejected": Code("denied", "The command policy refuses the command; no approval lifts that."),
    "not_proven": Code("approval", "The command policy cannot vouch for the command, so it is asked about."),
    "code_required": Code("usage", "There is no code to run."),
    "background_not_supported": Code("usage", "A command is run to its end, never in the background."),
    "unsupported_language": Code("usage", "Code of that language is not run."),
    "SandboxError": Code("unavailable", "No sandbox is there to run in, or it failed."),
    "isolated_sandbox_required": Code(
        "unavailable", "The configured sandbox isolates nothing, and this runs only in one that does."
    ),
    "no_sandbox_changes": Code("failed", "No sandbox of the session works on a copy of the workspace."),
    "no_such_sandbox": Code("failed", "No sandbox of that id is written down."),
    "sandbox_leaks": Code("failed", "The local sandbox does not hold what it promises."),
    "protected_path_changed": Code(
        "failed", "A command changed a protected place, and it could not be put back."
    ),
    "sandbox_ended": Code("unavailable", "The sandbox does not run any more."),
    "sandbox_unauthenticated": Code("authentication", "E2B refused the key, or there is none."),
    "sandbox_busy": Code("unavailable", "E2B takes no more requests at the moment."),
    "sandbox_unreachable": Code("unreachable", "E2B, or the sandbox that runs there, does not answer."),
    "environment_refused": Code(
        "denied",
        "A variable that decides what programs load, or holds a key of ours, is never passed on.",
    ),
    "url_required": Code("usage", "There is no URL to fetch."),
    "unsupported_scheme": Code("usage", "Only http and https URLs are fetched."),
    "provider_not_configured": Code("unavailable", "Nothing is configured that could answer."),
    # Workspace
    "workspace_error": Code("failed", "The workspace operation cannot be done."),
    "workspace_root_missing": Code("usage", "The workspace root is not a directory."),
    "workspace_root": Code("failed", "The workspace root itself cannot be deleted."),
    "workspace_outside_project": Code("denied", "A link puts a session's files outside of the project."),
    "workspace_busy": Code("timeout", "Another program holds the workspace's lock."),
    "invalid_path": Code("usage", "The path is not one."),
    "path_too_long": Code("usage", "The path, or a name in it, is longer than file systems take."),
    "path_outside_workspace": Code("denied", "The path leads out of the workspace."),
    "protected_path": Code("denied", "No tool may change, or for some not even read, that place."),
    "not_found": Code("failed", "There is no such file or directory."),
    "not_a_directory": Code("failed", "A file stands where a directory is needed."),
    "is_a_directory": Code("failed", "A directory stands where a file is needed."),
    "not_a_regular_file": Code("failed", "A FIFO, socket or device is not read or written."),
    "directory_not_empty": Code("failed", "A directory that would be deleted holds something."),
    "already_exists": Code("failed", "The file exists, and overwriting was not asked for."),
    "read_only_file": Code("failed", "The file's mode says that nobody writes it."),
    "hard_linked_file": Code("failed", "The file has several names, and is replaced only in place."),
    "permission_denied": Code("failed", "The system does not permit it."),
    "link_loop": Code("failed", "Symbolic links go round in a loop."),
    "no_space": Code("failed", "No space is left on the device."),
    "io_error": Code("failed", "The system failed to read or write."),
    "file_too_large": Code("failed", "The file is over the size limit."),
    "too_many_files": Code("usage", "More files than one call may write."),
    "duplicate_path": Code("usage", "One call names a file twice."),
    "not_utf8": Code("failed", "The file is not UTF-8 text."),
    "wrong_encoding": Code(
        "failed", "The file is not text in the encoding that was named, or that it names."
    ),
    "lossy_encoding": Code("failed", "The file's bytes would not come back the same from that encoding."),
    "unsupported_encoding": Code("usage", "The encoding is not known, or not one to edit in."),
    "invalid_text": Code("usage", "The text holds a character that the file's encoding has not."),
    "invalid_range": Code("usage", "The lines asked for are not lines of the file."),
    "invalid_files": Code("usage", "The files to write are not a list of {path, content}."),
    "invalid_edits": Code("usage", "The edits are not a list with at least one edit."),
    "invalid_edit": Code("usage", "An edit is not {old_text, new_text, ...}."),
    "missing_old_text": Code("usage", "There is no text to look for."),
    "missing_new_text": Code("usage", "There is no text to put in its place."),
    "unchanged_edit": Code("usage", "The edit would change nothing."),
    "file_not_read": Code("failed", "The file was not read in this session."),
    "file_modified_since_read": Code("failed", "The file's bytes are not those that were read."),
    "snippet_not_found": Code("failed", "The text to replace is not in the file."),
    "ambiguous_edit": Code("failed", "The text to replace is there another number of times than expected."),
    "lint_errors": Code("failed", "The check found errors in the file."),
    "invalid_glob": Code("usage", "The glob pattern cannot be used."),
    "invalid_sort_by": Code("usage", "Entries are sorted by name, mtime or size."),
    "invalid_query": Code("usage", "The text to search for cannot be in a line."),
    "invalid_regex": Code("usage", "The regular expression is not one."),
    "unsupported_regex": Code("usage", "The regular expression is outside of what search takes."),
    "search_timeout": Code("timeout", "The search was stopped before it found anything."),
    "search_failed": Code("failed", "The search program broke."),
    # The command line
    "invalid_env_file": Code("usage", "The file of --env-file cannot be read, or is not KEY=VALUE lines."),
}

watcher: ContextVar[Callable[[KsadkError], None] | None] = ContextVar("watcher", default=None)
"""Is told of each error that becomes a result, which its causes are not in."""


class KsadkError(Exception):
    """An error with words for a person and a stable code for a program.

    `details` become further fields of a tool's result, beside `error_type` and `error_message`.
    """

    code: str = "failed"

    def __init__(
        self, message: str, *, code: str | None = None, hint: str | None = None, **details: Any
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.hint = hint
        self.details = details

    @property
    def error_type(self) -> str:
        """The code as results and the command line tell it: a row of `CODES`."""
        return self.code

    @property
    def kind(self) -> Kind:
        """The family of the code."""
        return CODES[self.error_type].kind

    def to_result(self) -> dict[str, Any]:
        """The error as a tool's result: `ok`, `error_type`, `error_message`, `hint` and the details."""
        watch = watcher.get()
        if watch is not None:
            watch(self)
        result: dict[str, Any] = {"ok": False, "error_type": self.error_type, "error_message": self.message}
        if self.hint is not None:
            result["hint"] = self.hint
        return result | self.result_fields()

    def result_fields(self) -> dict[str, Any]:
        """What a result holds beside those."""
        return self.details


class SettingsError(KsadkError, ValueError):
    """A variable holds a value that cannot be used. The message names the variable."""

    code = "invalid_setting"


class InvalidArguments(KsadkError, ValueError):
    """Arguments that do not fit a tool's schema."""

    code = "invalid_arguments"


class ToolDefinitionError(KsadkError, TypeError):
    """A function whose signature cannot be offered to a model."""

    code = "invalid_tool"
