"""Workload tokens: read anew for each request, and refused where somebody else could have a hand in them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from space_wire import jwt, part, put_tokens

from ksadk.a2a.space.errors import WorkloadTokenError
from ksadk.a2a.space.tokens import MAX_TOKEN_BYTES, WorkloadTokens

NOW = 1_800_000_000
NAME = "a2a-registry.jwt"


@pytest.fixture
def tokens(tmp_path: Path) -> WorkloadTokens:
    return WorkloadTokens(put_tokens(tmp_path / "tokens"), clock=lambda: NOW)


def test_a_token_is_read_again_for_each_request(tokens: WorkloadTokens) -> None:
    assert tokens.token("a2a-registry") == jwt("a2a-registry")
    (tokens.directory / NAME).write_text(jwt("a2a-registry", NOW + 60) + "\n")
    assert tokens.token("a2a-registry") == jwt("a2a-registry", NOW + 60)


def test_every_token_is_known_to_whoever_must_not_pass_it_on(tokens: WorkloadTokens) -> None:
    older = tokens.token("a2a-gateway")
    (tokens.directory / "a2a-gateway.jwt").write_text(jwt("a2a-gateway", NOW + 60))
    (tokens.directory / "credential-broker.jwt").unlink()
    there = {jwt("a2a-registry"), jwt("a2a-task-sink"), jwt("a2a-gateway", NOW + 60)}
    assert tokens.secrets() == {older} | there
    assert older not in repr(tokens)


def test_an_audience_may_be_one_of_several(tokens: WorkloadTokens) -> None:
    (tokens.directory / NAME).write_text(jwt(["other", "a2a-registry"]))
    assert tokens.token("a2a-registry")


def test_links_inside_of_the_directory_are_followed_as_projected_volumes_have_them(
    tokens: WorkloadTokens,
) -> None:
    version = tokens.directory / "..2026_11_30"
    version.mkdir()
    (tokens.directory / NAME).rename(version / NAME)
    (tokens.directory / "..data").symlink_to("..2026_11_30")
    (tokens.directory / NAME).symlink_to(f"..data/{NAME}")
    assert tokens.token("a2a-registry") == jwt("a2a-registry")


def outside(file: Path) -> None:
    target = file.parent.parent / "elsewhere.jwt"
    file.rename(target)
    file.symlink_to(target)


def fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def in_a_loop(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


def world_readable(file: Path) -> None:
    file.chmod(0o644)
    if os.getuid() == 0:
        os.chown(file, 65534, -1)


def writing(data: str | bytes) -> Callable[[Path], object]:
    return lambda file: file.write_bytes(data if isinstance(data, bytes) else data.encode())


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, "cannot be read: No such file"),
    "leads outside": (outside, "leads out of the directory"),
    "link in a loop": (in_a_loop, "cannot be read"),
    "FIFO": (fifo, "is no regular file"),
    "directory": (directory, "is no regular file"),
    "group-writable": (lambda file: file.chmod(0o620), "can be written by others"),
    "world-writable": (lambda file: file.chmod(0o602), "can be written by others"),
    "world-readable": (world_readable, "can be read by everybody"),
    "too large": (writing("a" * (MAX_TOKEN_BYTES + 1)), "is larger than 16 KiB"),
    "not ASCII": (writing("ä.b.c"), "is not ASCII"),
    "empty": (writing(" \n"), "is empty"),
    "two parts": (writing("a.b"), "is no JWT of three parts"),
    "an empty part": (writing("a..c"), "is no JWT of three parts"),
    "a line end within": (writing("a.b\r\nX-Other: 1.c"), "is no JWT of three parts"),
    "claims are no base64": (writing("a.%%%.c"), "claims cannot be read"),
    "claims are no JSON": (writing(f"a.{part(b'nonsense')}.c"), "claims cannot be read"),
    "claims are nested": (writing(f"a.{part(b'[' * 9000)}.c"), "claims cannot be read"),
    "claims are a list": (writing(f"a.{part([])}.c"), "claims cannot be read"),
    "no exp": (writing(f"a.{part({'aud': 'a2a-registry'})}.c"), "does not say when it expires"),
    "exp is a text": (writing(jwt("a2a-registry", "later")), "does not say when it expires"),
    "exp is true": (writing(jwt("a2a-registry", True)), "does not say when it expires"),
    "exp is infinite": (
        writing("a." + part(b'{"aud":"a2a-registry","exp":Infinity}') + ".c"),
        "does not say when it expires",
    ),
    "for somebody else": (writing(jwt("a2a-gateway")), "is not for the audience a2a-registry"),
    "for others": (writing(jwt(["a2a-gateway"])), "is not for the audience a2a-registry"),
    "aud is part of a text": (writing(jwt("x a2a-registry")), "is not for the audience"),
    "expired": (writing(jwt("a2a-registry", NOW)), "has expired"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_token_is_refused_that(tokens: WorkloadTokens, name: str) -> None:
    spoil, why = REFUSED[name]
    spoil(tokens.directory / NAME)
    with pytest.raises(WorkloadTokenError, match=why) as refused:
        tokens.token("a2a-registry")
    assert isinstance(refused.value, RuntimeError)
    assert (refused.value.error_type, refused.value.kind) == ("A2A_WORKLOAD_TOKEN_UNUSABLE", "authentication")
    assert part({"alg": "ES256", "typ": "JWT"}) not in str(refused.value)


def test_a_file_of_roots_may_be_readable_by_everybody(tokens: WorkloadTokens) -> None:
    if os.getuid() != 0:
        pytest.skip("only root has files of root")
    (tokens.directory / NAME).chmod(0o644)
    assert tokens.token("a2a-registry")


def test_a_token_may_expire_later_than_a_float_can_say(tokens: WorkloadTokens) -> None:
    writing("a." + part(b'{"aud":"a2a-registry","exp":1%s}' % (b"0" * 400)) + ".c")(tokens.directory / NAME)
    assert tokens.token("a2a-registry")


@pytest.mark.parametrize("audience", ["../a2a-registry", "other", ""])
def test_no_other_audience_is_looked_for(tokens: WorkloadTokens, audience: str) -> None:
    with pytest.raises(WorkloadTokenError, match="no audience"):
        tokens.token(audience)  # type: ignore[arg-type]
