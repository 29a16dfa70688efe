"""Cards that are signed, and signatures that are verified (A2A 1.0, section 8.4: JWS over RFC 8785 JSON)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ksadk.errors import KsadkError

SignatureState = Literal["verified", "unverifiable", "absent", "invalid"]


def sign_card(card: Mapping[str, Any], key_file: str, key_id: str = "") -> dict[str, Any]:
    """A card with one more signature, made with the private key of a PEM file.

    The key is EC (P-256, P-384, P-521), RSA of 2048 bits or more, or Ed25519; it decides the algorithm.
    key_id: what verifiers find the public key by; the start of the public key's SHA-256 if left out.
    """
    from google.protobuf.json_format import MessageToDict, ParseDict

    signing = _sdk()
    key = _private_key(key_file)
    from a2a.types import AgentCard

    header = {"alg": _algorithm(key, key_file), "kid": key_id or _fingerprint(key), "typ": "JOSE"}
    message = ParseDict(dict(card), AgentCard())
    signed = signing.create_agent_card_signer(key, header)(message)
    result = copy.deepcopy(dict(card))
    result["signatures"] = [MessageToDict(signature) for signature in signed.signatures]
    return result


def signature_state(card: Mapping[str, Any], key_files: Sequence[str] = ()) -> SignatureState:
    """What a card's signatures are worth, by the public keys of PEM files.

    `verified`: one of the keys made one of the signatures. `invalid`: none did. `unverifiable`: there are
    signatures, and no key was given. `absent`: there are none, which is no fault.
    """
    if not card.get("signatures"):
        return "absent"
    if not key_files:
        return "unverifiable"
    from a2a.types import AgentCard
    from google.protobuf.json_format import ParseDict

    signing = _sdk()
    message = ParseDict(dict(card), AgentCard(), ignore_unknown_fields=True)
    for file in key_files:
        key = _public_key(file)
        verify = signing.create_signature_verifier(lambda _kid, _jku, key=key: key, [_algorithm(key, file)])
        try:
            verify(message)
        except signing.SignatureVerificationError:
            continue
        return "verified"
    return "invalid"


def _sdk() -> Any:
    try:
        import cryptography  # noqa: F401
        from a2a.utils import signing
    except ImportError as error:
        raise KsadkError(
            "signing and verifying cards needs PyJWT and cryptography, which are not installed",
            code="signing_unavailable",
            hint="pip install 'agentengine-cli[signing]'",
        ) from error
    return signing


def _private_key(file: str) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(_bytes(file), password=None)
    except (ValueError, TypeError) as error:
        raise _bad_key(file, "it holds no private key in PEM, or one under a password") from error


def _public_key(file: str) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    data = _bytes(file)
    if b"PRIVATE KEY" in data:
        return _private_key(file).public_key()
    try:
        return load_pem_public_key(data)
    except ValueError as error:
        raise _bad_key(file, "it holds no public key in PEM") from error


def _algorithm(key: Any, file: str) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey):
        known = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
        if key.curve.name in known:
            return known[key.curve.name]
    if isinstance(key, rsa.RSAPrivateKey | rsa.RSAPublicKey) and key.key_size >= 2048:
        return "RS256"
    if isinstance(key, ed25519.Ed25519PrivateKey | ed25519.Ed25519PublicKey):
        return "EdDSA"
    raise _bad_key(file, "its key is not EC P-256, P-384 or P-521, RSA of 2048 bits or more, or Ed25519")


def _fingerprint(key: Any) -> str:
    import hashlib

    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(public).hexdigest()[:16]


def _bytes(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise _bad_key(file, str(error.strerror)) from error


def _bad_key(file: str, why: str) -> KsadkError:
    return KsadkError(f"{file} cannot be used as a key: {why}", code="invalid_key")
