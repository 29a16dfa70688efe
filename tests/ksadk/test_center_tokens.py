"""The tokens of workloads: written where clients look for them, renewed in time, and read by their rules."""

from __future__ import annotations

import stat
import threading
from pathlib import Path
from typing import get_args

import pytest
from centers import ANN, BOB, Clock, Ids, options_of, serving

from ksadk.a2a.center import app
from ksadk.a2a.center.app import Center
from ksadk.a2a.center.database import open_database
from ksadk.a2a.center.private_files import read_or_make, read_private, write_private
from ksadk.a2a.center.refusal import Refusal
from ksadk.a2a.center.running import admins_of
from ksadk.a2a.center.workload_tokens import LIFETIME, Signer, TokenIssuer
from ksadk.a2a.space.tokens import Audience, WorkloadTokens
from ksadk.errors import KsadkError

NOW = 1_796_025_600.0


def issuer(now: float = NOW, key: bytes = b"k" * 64) -> TokenIssuer:
    return TokenIssuer(Signer(key, clock=Clock(now)))


@pytest.mark.parametrize("audience", get_args(Audience))
def test_a_written_token_is_one_that_clients_take_and_says_whose_it_is(
    tmp_path: Path, audience: Audience
) -> None:
    issuer().write(tmp_path / "tokens", ANN)
    file = tmp_path / "tokens" / f"{audience}.jwt"
    assert (stat.S_IMODE(file.stat().st_mode), file.is_symlink()) == (0o600, False)
    token = WorkloadTokens(tmp_path / "tokens", clock=Clock(NOW)).token(audience)
    assert issuer().workload(f"Bearer {token}", audience) == ANN


def test_a_token_counts_until_it_expires_and_for_its_audience_and_key() -> None:
    header = f"Bearer {issuer().issue(ANN, 'a2a-registry')}"
    assert issuer(NOW + LIFETIME - 1).workload(header, "a2a-registry") == ANN
    for reader, audience in (
        (issuer(NOW + LIFETIME), "a2a-registry"),
        (issuer(), "a2a-gateway"),
        (issuer(key=b"x" * 64), "a2a-registry"),
    ):
        with pytest.raises(Refusal) as error:
            reader.workload(header, audience)  # type: ignore[arg-type]
        assert error.value.status == 401


def test_a_file_is_there_whole_while_it_is_written_anew(tmp_path: Path) -> None:
    directory = tmp_path / "tokens"
    tokens = WorkloadTokens(directory, clock=Clock(NOW))
    writer = issuer()
    writer.write(directory, ANN)
    over = threading.Event()

    def write() -> None:
        for _ in range(30):
            writer.write(directory, ANN)
        over.set()

    thread = threading.Thread(target=write)
    thread.start()
    read = 0
    while not over.is_set() or read == 0:
        assert writer.workload(f"Bearer {tokens.token('a2a-gateway')}", "a2a-gateway") == ANN
        read += 1
    thread.join()
    assert sorted(file.name for file in directory.iterdir()) == sorted(
        f"{audience}.jwt" for audience in get_args(Audience)
    )


def test_a_center_writes_the_tokens_of_each_workload_before_it_answers_and_renews_them_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "HOUSEKEEPING_SECONDS", 0.01)
    dirs = {ANN: tmp_path / "a", BOB: tmp_path / "b"}
    with serving(tmp_path / "center", token_dirs=dirs) as served:
        for workload, directory in dirs.items():
            token = WorkloadTokens(directory, clock=served.clock).token("a2a-registry")
            assert served.issuer.workload(f"Bearer {token}", "a2a-registry") == workload
        before = (tmp_path / "a/a2a-registry.jwt").read_text()
        served.clock.now += LIFETIME / 3 + 1
        while (tmp_path / "a/a2a-registry.jwt").read_text() == before:
            threading.Event().wait(0.01)


def test_a_center_that_starts_again_takes_the_tokens_of_the_one_before(tmp_path: Path) -> None:
    clock = Clock()
    tokens = []
    for _ in range(2):
        with serving(tmp_path / "center", clock=clock, ids=Ids()) as served:
            tokens.append(served.issuer.issue(ANN, "a2a-registry"))
            for token in tokens:
                assert served.issuer.workload(f"Bearer {token}", "a2a-registry") == ANN
    assert stat.S_IMODE((tmp_path / "center/signing.key").stat().st_mode) == 0o600


@pytest.mark.parametrize(("mode", "content"), [(0o640, b"k" * 64), (0o606, b"k" * 64), (0o600, b"")])
def test_a_key_that_others_can_read_or_that_is_none_is_not_used(
    tmp_path: Path, mode: int, content: bytes
) -> None:
    key = tmp_path / "signing.key"
    key.write_bytes(content)
    key.chmod(mode)
    with pytest.raises(KsadkError) as error:
        Center(open_database("sqlite://", directory=tmp_path), options_of(tmp_path, "http://127.0.0.1:1"))
    assert error.value.code == "a2a_center_files_unusable"
    assert "kkkk" not in str(error.value)


def test_a_directory_in_the_place_of_a_key_is_told_of_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "key").mkdir()
    with pytest.raises(KsadkError, match=f"{tmp_path}/key cannot be read: Is a directory"):
        read_private(tmp_path / "key")


def test_a_link_in_the_place_of_a_key_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"k" * 64)
    (tmp_path / "elsewhere").chmod(0o600)
    (tmp_path / "key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KsadkError):
        read_private(tmp_path / "key")


def test_processes_that_make_a_key_at_one_time_have_the_same(tmp_path: Path) -> None:
    barrier, found = threading.Barrier(8), []

    def make(number: int) -> None:
        barrier.wait()
        found.append(read_or_make(tmp_path / "keys/key", lambda: b"%d" % number))

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert [file.name for file in (tmp_path / "keys").iterdir()] == ["key"]


def test_what_cannot_be_written_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KsadkError) as error:
        write_private(tmp_path / "file" / "key", b"secret-key")
    assert error.value.code == "a2a_center_files_unusable"
    assert "secret-key" not in str(error.value)


def test_the_administrators_token_is_made_once_and_is_the_users_alone(tmp_path: Path) -> None:
    admins = admins_of(tmp_path, None)
    line = admins.path.read_text()
    assert stat.S_IMODE(admins.path.stat().st_mode) == 0o600
    caller = admins_of(tmp_path, None).caller(f"Bearer {line.split()[1]}")
    assert caller is not None and caller.name == "admin"
    assert admins.path.read_text() == line
