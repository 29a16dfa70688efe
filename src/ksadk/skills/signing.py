"""AWS Signature V4, by a library. Only the signed gateway's requests need it."""

from __future__ import annotations

import httpx
from httpx_auth import AWS4Auth

from ksadk.skills.service_address import ServiceAddress


def signer(address: ServiceAddress) -> httpx.Auth:
    """What signs a request: its verb, path, query, host and content type, and the time. It replaces a bearer
    token."""
    return AWS4Auth(address.access_key, address.secret_key, address.region, address.sign_service)
