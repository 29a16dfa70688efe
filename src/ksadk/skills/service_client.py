"""Asks a Skill Service: which spaces there are, which skills they have, and for the packages of these."""

from __future__ import annotations

import contextvars
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

import httpx

from ksadk.masking import MASK, without_user_info
from ksadk.settings import Settings
from ksadk.skills import answers
from ksadk.skills.answers import SkillSpace, SpaceListResponse, invalid_answer
from ksadk.skills.errors import SkillError, SkillServiceError
from ksadk.skills.limits import MAX_ARCHIVE_BYTES, MIB
from ksadk.skills.models import PUBLIC_SPACE, SkillListResponse, SkillRef
from ksadk.skills.pages import FIRST_PAGE, Page, all_pages
from ksadk.skills.service_address import ServiceAddress

__all__ = ["SkillServiceClient", "SkillSpace", "SpaceListResponse"]

TIMEOUT = 10.0
"""Seconds that the service may be silent, and that the body of its answer may take."""
DOWNLOAD_TIMEOUT = 120.0
"""Seconds that a package may take."""
LATE = 1.0
"""Seconds beyond these after which an answer that trickles in before its body is left to itself, too."""
MAX_ANSWER = 8 * MIB
"""Bytes that are read of an answer."""
RETRIES = 2
"""How often a request is made again: where no connection came about, and where the service is busy."""
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
"""Seconds before the first retry, doubled for each further one, and the most that a busy service can ask
for."""

T = TypeVar("T")

_BUSY = frozenset({429, 502, 503, 504})


class SkillServiceClient:
    """A client of one service. It may be used by several threads at once; close it, or use it in a `with`.

    Whatever goes wrong is a `SkillServiceError`; in none is a token, a key, or the address of a download.
    """

    def __init__(
        self,
        address: ServiceAddress,
        *,
        transport: httpx.BaseTransport | None = None,
        timeout: float = TIMEOUT,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.address = address
        self._timeout = timeout
        self._sleep = sleep
        local = ("localhost", "127.0.0.1", "[::1]", httpx.URL(address.base).host)
        self._http = httpx.Client(
            transport=transport,
            timeout=timeout,
            follow_redirects=False,
            # What is on this machine is not asked for through a proxy.
            mounts={f"all://{host}": None for host in local} if address.is_loopback else None,
        )
        self._auth = _signer(address) if address.mode == "signed" else None

    @classmethod
    def from_env(
        cls, settings: Settings | None = None, *, transport: httpx.BaseTransport | None = None
    ) -> Self:
        """A client of the service that the variables name. Raises `SkillServiceError` where they name none,
        or one that cannot be asked."""
        settings = settings or Settings.from_env()
        return cls(
            ServiceAddress.from_settings(settings),
            transport=transport,
            timeout=min(TIMEOUT, settings.skill_manifest_timeout) or TIMEOUT,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connections."""
        self._http.close()

    def list_spaces(self) -> SpaceListResponse:
        """The spaces of the account, of every page."""

        def ask(page: dict[str, str]) -> Page[SkillSpace]:
            found, refused, total = self._understood("ListSkillSpaces", page, answers.spaces)
            return Page(found, refused, total)

        whole = all_pages(ask, "the spaces", key=lambda space: space.space_id, first=FIRST_PAGE)
        return SpaceListResponse(whole.items, (*whole.warnings, *whole.refused))

    def list_skills(self, space_id: str) -> SkillListResponse:
        """The skills of a space, of every page, whatever their status. `public` is the service's own."""
        if space_id == PUBLIC_SPACE:
            return self.list_public_skills()
        return self._skills(
            "ListSkillsBySpaceId",
            {"SpaceId": space_id},
            space=(space_id, ""),
            first=FIRST_PAGE if self.address.mode == "signed" else {},
        )

    def list_public_skills(self) -> SkillListResponse:
        """The skills that the service itself offers."""
        return self._skills("ListAvailablePremadeSkills", {}, space=(PUBLIC_SPACE, "Public Skills"), first={})

    def download(self, ref: SkillRef) -> bytes:
        """The bytes of a skill's package, which are not checked yet; 20 MiB at most.

        The download itself carries no credentials. It is made over https, or from the service's own host.
        """
        premade = not ref.version_id
        action = "GetPremadeSkillDownloadUrl" if premade else "GetSkillDownloadUrl"
        payload = self._ask(action, {"SkillId": ref.skill_id, "VersionId": ref.version_id})
        url = answers.download_url(payload)
        if not url:
            raise invalid_answer(action, f"there is no DownloadUrl for {ref.name}")
        if not self.address.takes_download(url):
            raise invalid_answer(
                action, f"the address for the download of {ref.name} is neither https nor the service's own"
            )
        what = f"the download of {ref.name}"
        most = _Most(MAX_ARCHIVE_BYTES, max(DOWNLOAD_TIMEOUT, self._timeout))
        with _no_query_in_logs():
            answer = self._get(what, url, {"Accept": "*/*"}, None, most)
        if answer.status != 200:
            raise SkillServiceError(
                f"{what} from {self._masked(httpx.URL(url).host)} answered HTTP {answer.status}",
                hint="Addresses of downloads expire: try again."
                if answer.status in (401, 403, 404)
                else None,
            )
        return answer.body

    def _skills(
        self, action: str, parameters: dict[str, str], *, space: tuple[str, str], first: dict[str, str]
    ) -> SkillListResponse:
        answered: list[SkillListResponse] = []

        def ask(page: dict[str, str]) -> Page[SkillRef]:
            response = self._understood(
                action,
                parameters | page,
                lambda payload: SkillListResponse.from_payload(
                    payload, space_id=space[0], space_name=space[1]
                ),
            )
            answered.append(response)
            return Page(response.skills, response.refused, response.total_count)

        def key(ref: SkillRef) -> tuple[str, ...]:
            return ref.skill_id, ref.version_id, ref.version, ref.name

        whole = all_pages(ask, f"the space {space[0]}", key=key, first=first)
        # The space is the one that was asked for, whatever an answer calls it: `local` is this machine.
        return replace(
            answered[0],
            space_id=space[0],
            skills=tuple(replace(ref, space_id=space[0]) for ref in whole.items),
            refused=tuple(whole.refused),
            warnings=tuple(whole.warnings),
        )

    def _understood(
        self, action: str, parameters: Mapping[str, str], read: Callable[[Mapping[str, Any]], T]
    ) -> T:
        payload = self._ask(action, parameters)
        try:
            return read(payload)
        except SkillError as error:
            raise invalid_answer(action, self._masked(error.message)) from error

    def _ask(self, action: str, parameters: Mapping[str, str]) -> Mapping[str, Any]:
        url = self.address.url(action, parameters)
        most = _Most(MAX_ANSWER, self._timeout)
        answer = self._get(action, url, self.address.headers(action), self._auth, most)
        return answers.opened(action, answer.status, answer.body, self._masked)

    def _get(
        self, what: str, url: str, headers: Mapping[str, str], auth: httpx.Auth | None, most: _Most
    ) -> _Answer:
        """The answer to a request, made again where that may help."""
        pause = FIRST_PAUSE
        for left in range(RETRIES, -1, -1):
            try:
                with _errors(what, self._timeout):
                    answer = _within(
                        most.seconds + LATE, what, partial(self._once, what, url, headers, auth, most)
                    )
            except _NotConnected as error:
                if not left:
                    raise error.told from error.__cause__
                wanted = pause
            else:
                wanted = pause if answer.wait is None else answer.wait
                if answer.status not in _BUSY or not left or wanted > LONGEST_PAUSE:
                    return answer
            self._sleep(wanted)
            pause *= 2
        raise AssertionError("the last try returns or raises")

    def _once(
        self, what: str, url: str, headers: Mapping[str, str], auth: httpx.Auth | None, most: _Most
    ) -> _Answer:
        ends = time.monotonic() + most.seconds
        asked = self._http.build_request("GET", url, headers={**headers, "Accept-Encoding": "identity"})
        response = self._http.send(asked, auth=auth, stream=True)
        try:
            if response.is_redirect:
                raise invalid_answer(what, "the answer is a redirect, which is not followed")
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise invalid_answer(what, "the answer is compressed, which was not asked for")
            body = bytearray()
            if int(response.headers.get("Content-Length", "0")) > most.size:
                raise _too_large(what, most.size)
            for part in response.iter_bytes():
                body += part
                if len(body) > most.size:
                    raise _too_large(what, most.size)
                if time.monotonic() > ends:
                    raise _too_slow(what, f"the answer took more than {most.seconds:g} s")
            return _Answer(response.status_code, bytes(body), _retry_after(response))
        finally:
            response.close()

    def _masked(self, text: str) -> str:
        for secret in self.address.secrets():
            text = text.replace(secret, MASK)
        return without_user_info(text)


class _Most(NamedTuple):
    """What is read of an answer, and how long."""

    size: int
    seconds: float


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    wait: float | None
    """How many seconds the service wants to be left alone."""


class _NotConnected(Exception):
    """No connection came about, so that nothing was asked yet."""

    def __init__(self, told: SkillServiceError) -> None:
        super().__init__(told.message)
        self.told = told


@contextmanager
def _errors(what: str, timeout: float) -> Iterator[None]:
    """What httpx raises, as errors that say what was asked for."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
        told = SkillServiceError(
            f"{what}: no connection: {error or type(error).__name__}",
            code="skill_service_unreachable",
            hint="Does the service run, and is KSADK_SKILL_SERVICE_URL its address?",
        )
        raise _NotConnected(told) from error
    except httpx.TimeoutException as error:
        raise _too_slow(what, f"the service was silent for {timeout:g} s") from error
    except httpx.RemoteProtocolError:
        # It quotes what was sent, which may be our token, or the query of the download's address.
        raise SkillServiceError(
            f"{what}: the answer broke off, or is no HTTP", code="skill_service_unreachable"
        ) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise SkillServiceError(
            f"{what}: the answer broke off: {error or type(error).__name__}",
            code="skill_service_unreachable",
        ) from error


def _within(seconds: float, what: str, work: Callable[[], T]) -> T:
    """What `work` returns or raises. httpx limits how long a service is silent, not how long its headers or
    the ends of its chunks take: so it works in a thread, which is left to itself when the time is over."""
    done: queue.SimpleQueue[T | BaseException] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put(work())
        except BaseException as error:  # noqa: BLE001  # raised again by whoever waits
            done.put(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), daemon=True, name="skill-service").start()
    try:
        came = done.get(timeout=seconds)
    except queue.Empty:
        raise _too_slow(what, f"the answer took more than {seconds:g} s") from None
    if isinstance(came, BaseException):
        raise came
    return came


def _signer(address: ServiceAddress) -> httpx.Auth:
    from ksadk.skills.signing import signer  # its library takes as long to import as httpx

    return signer(address)


def _too_slow(what: str, why: str) -> SkillServiceError:
    return SkillServiceError(f"{what}: {why}", code="skill_service_timeout")


def _too_large(what: str, limit: int) -> SkillServiceError:
    return invalid_answer(what, f"the answer is larger than {limit // MIB} MiB")


def _retry_after(response: httpx.Response) -> float | None:
    """Of a Retry-After in seconds. A date is as good as no header: clocks differ."""
    said = response.headers.get("Retry-After", "")
    return float(said) if said.isdecimal() else None


_quiet: contextvars.ContextVar[bool] = contextvars.ContextVar("no_query_in_logs", default=False)


@contextmanager
def _no_query_in_logs() -> Iterator[None]:
    """httpx logs the address of each request; in the query of a download's is what lets anybody make it."""
    logging.getLogger("httpx").addFilter(_without_query)
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def _without_query(record: logging.LogRecord) -> bool:
    if _quiet.get() and isinstance(record.args, tuple):
        record.args = tuple(
            arg.copy_with(query=None) if isinstance(arg, httpx.URL) else arg for arg in record.args
        )
    return True
