"""The Skill Service's Actions over HTTP. Each answer is an envelope `{Code, Message, RequestId, Data}`."""

from __future__ import annotations

import hashlib
import hmac
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ksadk.skills.models import PUBLIC_SPACE
from ksadk.skills.pages import PAGE_SIZE
from ksadk.skills.serving.directory import ServedDirectory, ServedSkill, Spaces
from ksadk.skills.serving.tickets import Tickets

T = TypeVar("T")

_HOST = re.compile(r"[A-Za-z0-9._-]+(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?")
_STATUS_CODES = {404: "NotFound", 405: "MethodNotAllowed"}


@dataclass(frozen=True)
class Call:
    """What an action is called with, and where the service was reached."""

    query: Mapping[str, str]
    base: str

    def needed(self, name: str) -> str:
        """A parameter that must be there."""
        value = self.query.get(name, "")
        if not value:
            raise Refusal(400, "MissingParameter", f"{name} is missing")
        return value

    def page(self, items: Sequence[T]) -> list[T]:
        """The page of a list that is asked for."""
        number, size = self._number("PageNumber", 1), self._number("PageSize", PAGE_SIZE)
        if size > PAGE_SIZE:
            raise Refusal(400, "InvalidParameter", f"PageSize is {PAGE_SIZE} at most")
        return list(items[(number - 1) * size : number * size])

    def _number(self, name: str, default: int) -> int:
        text = self.query.get(name, "") or str(default)
        if not re.fullmatch(r"0*[1-9][0-9]{0,5}", text):
            raise Refusal(400, "InvalidParameter", f"{name} is not a whole number from 1 on")
        return int(text)


class Refusal(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class SkillService:
    """The service of one directory of skills.

    token: what callers must have.
    url: where they reach it, for the addresses of downloads; if None, that is the host that a request names.
    """

    def __init__(
        self,
        directory: ServedDirectory,
        *,
        token: str,
        url: str | None = None,
        tickets: Tickets | None = None,
    ) -> None:
        self._directory = directory
        self._token = _digest(token)
        self._url = url.rstrip("/") if url else None
        self._tickets = tickets or Tickets()
        self._actions: dict[str, Callable[[Call], dict[str, Any]]] = {
            "ListSkillSpaces": self._list_spaces,
            "ListSkillsBySpaceId": self._list_skills,
            "ListAvailablePremadeSkills": self._list_premade,
            "GetSkillDownloadUrl": self._download_url,
            "GetPremadeSkillDownloadUrl": self._premade_download_url,
        }
        self.app = Starlette(
            routes=[Route("/package", self._package), Route("/{action:path}", self._action)],
            exception_handlers={Refusal: _refused, HTTPException: _http_refused, Exception: _broken},
        )

    async def _action(self, request: Request) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        known = hmac.compare_digest(_digest(token.strip()), self._token)
        if not known or scheme.lower() != "bearer":
            raise Refusal(401, "Unauthorized", "This service wants Authorization: Bearer and its token")
        name = request.path_params["action"]
        action = self._actions.get(name)
        if action is None:
            raise Refusal(404, "InvalidAction", f"There is no action {name[:100]!r}")
        data = await run_in_threadpool(action, Call(request.query_params, self._base(request)))
        return _envelope(200, 0, "success", data)

    async def _package(self, request: Request) -> Response:
        query = request.query_params
        if not self._tickets.counts(query):
            raise Refusal(403, "AccessDenied", "The address was not signed here, or has expired")
        return await run_in_threadpool(self._packed, query)

    def _packed(self, query: Mapping[str, str]) -> Response:
        served = self._version(self._directory.spaces(), query["SkillId"], query["VersionId"])
        data = self._directory.archive(served)
        if data is None:
            raise _no_version(served.skill_id)
        name = f"{served.version_id}.zip"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        return Response(data, media_type="application/zip", headers=headers)

    def _base(self, request: Request) -> str:
        host = request.headers.get("host", "")
        if not _HOST.fullmatch(host):
            raise Refusal(400, "InvalidParameter", "The Host header is none")
        return self._url or f"http://{host}"

    def _list_spaces(self, call: Call) -> dict[str, Any]:
        spaces = [space for space in self._directory.spaces().by_id if space != PUBLIC_SPACE]
        named = [
            {"SkillSpaceId": space, "SkillSpaceName": space, "Description": ""} for space in sorted(spaces)
        ]
        return {"SkillSpaces": call.page(named), "TotalCount": len(named)}

    def _list_skills(self, call: Call) -> dict[str, Any]:
        space_id = call.needed("SpaceId")
        skills = self._directory.spaces().by_id.get(space_id)
        if skills is None:
            raise Refusal(404, "SkillSpaceNotFound", f"There is no space {space_id[:100]!r}")
        return _listing(space_id, space_id, skills, call)

    def _list_premade(self, call: Call) -> dict[str, Any]:
        skills = self._directory.spaces().by_id.get(PUBLIC_SPACE, ())
        return _listing(PUBLIC_SPACE, "Public Skills", skills, call)

    def _download_url(self, call: Call) -> dict[str, Any]:
        skill_id, version_id = call.needed("SkillId"), call.needed("VersionId")
        served = self._version(self._directory.spaces(), skill_id, version_id)
        return self._signed(served, call)

    def _premade_download_url(self, call: Call) -> dict[str, Any]:
        served = self._version(
            self._directory.spaces(), call.needed("SkillId"), call.query.get("VersionId", ""), PUBLIC_SPACE
        )
        return self._signed(served, call)

    def _signed(self, served: ServedSkill, call: Call) -> dict[str, Any]:
        return {
            "DownloadUrl": f"{call.base}/package?{self._tickets.query(served.skill_id, served.version_id)}"
        }

    def _version(self, spaces: Spaces, skill_id: str, version_id: str, space_id: str = "") -> ServedSkill:
        """The skill of an id, where that version, or none, is asked for; of a space, where one is given."""
        served = spaces.skill(skill_id)
        if served is None or (space_id and served.space_id != space_id):
            raise Refusal(404, "SkillNotFound", f"There is no skill {skill_id[:100]!r}")
        if version_id not in ("", served.version_id):
            raise _no_version(skill_id)
        return served


def _listing(space_id: str, name: str, skills: tuple[ServedSkill, ...], call: Call) -> dict[str, Any]:
    return {
        "SkillSpaceId": space_id,
        "SkillSpaceName": name,
        "Skills": [_item(served) for served in call.page(skills)],
        "TotalCount": len(skills),
    }


def _item(served: ServedSkill) -> dict[str, Any]:
    skill = served.skill
    return {
        "SkillId": served.skill_id,
        "VersionId": served.version_id,
        "Version": skill.version,
        "Name": skill.name,
        "Description": skill.description,
        "Status": "active",
        "ContentHash": str(served.content_hash),
        "ArchiveUri": f"{served.skill_id}/{served.version_id}.zip",
        "Aliases": list(skill.aliases),
        "Tags": list(skill.tags),
        "Examples": list(skill.examples),
        "InputSchema": {},
        "RuntimeRequirements": {"Compatibility": skill.compatibility} if skill.compatibility else {},
    }


def _no_version(skill_id: str) -> Refusal:
    return Refusal(404, "SkillVersionNotFound", f"{skill_id[:100]!r} has changed: list the skills again")


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _envelope(status: int, code: int | str, message: str, data: Any = None) -> JSONResponse:
    body = {"Code": code, "Message": message, "RequestId": uuid.uuid4().hex, "Data": data}
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse(body, status, headers)


async def _refused(_request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, Refusal)
    return _envelope(refusal.status, refusal.code, refusal.message)


async def _http_refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _envelope(error.status_code, _STATUS_CODES.get(error.status_code, "Failed"), error.detail)


async def _broken(_request: Request, _error: Exception) -> Response:
    return _envelope(500, "InternalError", "The service failed within")
