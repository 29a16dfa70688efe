"""Cards that are signed, and signatures that are verified."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from agentengine_cli.main import run
from ksadk.a2a.card import build_agent_card
from ksadk.a2a.check import check_card
from ksadk.a2a.signing import sign_card, signature_state
from ksadk.errors import KsadkError

KEYS = {
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ES384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "ES512": lambda: ec.generate_private_key(ec.SECP521R1()),
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
    "EdDSA": lambda: ed25519.Ed25519PrivateKey.generate(),
}


def written(key: Any, name: str = "key") -> str:
    """A private key's file; its public key is beside it, with `.pub`."""
    Path(f"{name}.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    Path(f"{name}.pub").write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    return f"{name}.pem"


def card() -> dict[str, Any]:
    return build_agent_card(name="研究 agent", base_url="https://agent.example.com", description="Émile 🚀")


def header_of(signed: dict[str, Any]) -> dict[str, Any]:
    from base64 import urlsafe_b64decode

    protected = signed["signatures"][0]["protected"]
    value: dict[str, Any] = json.loads(urlsafe_b64decode(protected + "=" * (-len(protected) % 4)))
    return value


@pytest.mark.parametrize("algorithm", KEYS)
def test_what_a_key_signed_its_public_key_verifies(algorithm: str) -> None:
    signed = sign_card(card(), written(KEYS[algorithm]()))
    assert header_of(signed)["alg"] == algorithm
    assert signature_state(signed, ["key.pub"]) == "verified"
    assert signature_state(json.loads(json.dumps(signed)), ["key.pub"]) == "verified"
    assert [finding for finding in check_card(signed) if finding.severity == "error"] == []


@pytest.mark.parametrize(
    "change",
    [
        {"name": "another"},
        {"description": ""},
        {"version": "2.0.0"},
        {
            "supportedInterfaces": [
                {"url": "https://evil.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            ]
        },
    ],
)
def test_a_card_that_was_changed_after_it_was_signed_is_not_verified(change: dict[str, Any]) -> None:
    signed = sign_card(card(), written(KEYS["ES256"]()))
    assert signature_state(signed | change, ["key.pub"]) == "invalid"


def test_another_key_verifies_nothing_and_one_of_several_is_enough() -> None:
    signed = sign_card(card(), written(KEYS["ES256"]()))
    written(KEYS["ES256"](), "other")
    assert signature_state(signed, ["other.pub"]) == "invalid"
    assert signature_state(signed, ["other.pub", "key.pub"]) == "verified"


def test_a_second_signature_leaves_the_first() -> None:
    first = sign_card(card(), written(KEYS["ES256"]()), "one")
    both = sign_card(first, written(KEYS["EdDSA"](), "other"), "two")
    assert len(both["signatures"]) == 2
    assert {signature_state(both, [name]) for name in ("key.pub", "other.pub")} == {"verified"}


def test_no_signature_is_absent_and_none_that_can_be_checked_is_unverifiable() -> None:
    assert signature_state(card(), ["nowhere.pub"]) == "absent"
    assert signature_state(sign_card(card(), written(KEYS["ES256"]()))) == "unverifiable"


def test_a_signature_that_is_no_signature_is_not_verified() -> None:
    written(KEYS["ES256"]())
    broken = card() | {
        "signatures": [{"protected": "!", "signature": "!"}, {"protected": "e30", "signature": ""}]
    }
    assert signature_state(broken, ["key.pub"]) == "invalid"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no key",
        KEYS["ES256"]().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    ],
)
def test_a_file_that_is_no_private_key_is_told(content: bytes) -> None:
    Path("bad.pem").write_bytes(content)
    with pytest.raises(KsadkError, match=r"bad\.pem cannot be used as a key") as caught:
        sign_card(card(), "bad.pem")
    assert caught.value.code == "invalid_key"


def test_a_key_that_is_too_weak_or_of_another_kind_is_told() -> None:
    for key in (rsa.generate_private_key(65537, 1024), ec.generate_private_key(ec.SECP256K1())):
        with pytest.raises(KsadkError, match="its key is not EC"):
            sign_card(card(), written(key))


def test_the_command_signs_and_discover_verifies(capsys: pytest.CaptureFixture[str]) -> None:
    line = [
        "a2a",
        "card",
        "--name",
        "n",
        "--url",
        "https://agent.example.com",
        "--sign",
        written(KEYS["EdDSA"]()),
    ]
    assert run([*line, "--key-id", "k1"]) == 0
    printed = capsys.readouterr().out
    assert header_of(json.loads(printed))["kid"] == "k1"
    unsigned = json.dumps(
        {name: value for name, value in json.loads(printed).items() if name != "signatures"}
    )
    for text, keys, state, status in [
        (printed, ["--key", "key.pub"], "verified", 0),
        (printed, [], "unverifiable", 0),
        (printed.replace('"n"', '"m"'), ["--key", "key.pub"], "invalid", 1),
        (unsigned, [], "absent", 0),
        (unsigned, ["--key", "key.pub"], "absent", 1),
    ]:
        Path("card.json").write_text(text)
        assert run(["a2a", "discover", "card.json", *keys]) == status
        assert f"Signature: {state}\n" in capsys.readouterr().out


def test_without_the_libraries_the_error_names_the_extra() -> None:
    written(KEYS["ES256"]())
    code = (
        "import sys; sys.modules['jwt'] = None\n"
        "from agentengine_cli.main import run\n"
        "sys.exit(run(['a2a', 'card', '--name', 'n', '--url', 'https://a.example', '--sign', 'key.pem']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 8
    assert "agentengine-cli[signing]" in done.stderr
