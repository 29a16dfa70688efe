"""An external agent on a TLS port of this machine, which writes down what it is sent; and the way to it.

The way stands in for the internet: it takes what is meant for a public address to the port that plays it. All
above it is the real thing: resolving, vetting, choosing addresses, TLS with a name and a certificate.
"""

from __future__ import annotations

import datetime
import functools
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ksadk.a2a.space.pinned_transport import PinnedTransport, carry

NAME = "agent.vendor.example"
URL = f"https://{NAME}/a2a"
PUBLIC, OTHER, SIX = "93.184.216.34", "93.184.216.35", "2606:2800:220:1::1"

Answer = bytes | Callable[[ssl.SSLSocket], None]

JSON_ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{"ok":true}'


def answer(body: bytes, status: str = "200 OK", *headers: str, kind: str = "application/json") -> bytes:
    """An answer that says how long its body is."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass
class Vendor:
    """The server. `requests` are the bytes that came, `names` the names that TLS asked for."""

    port: int
    answers: list[Answer]
    requests: list[bytes] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    connections: int = 0

    def serve(self, tcp: socket.socket, tls: ssl.SSLContext) -> None:
        """Answer the requests of a connection, until the other side closes it."""
        try:
            with tls.wrap_socket(tcp, server_side=True) as connection:
                self.connections += 1
                while request := _request(connection):
                    self.requests.append(request)
                    said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                    if callable(said):
                        said(connection)
                        return
                    connection.sendall(said)
        except OSError:  # the client has heard enough
            tcp.close()


def _request(connection: ssl.SSLSocket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while lengths and len(body) < int(lengths[0].partition(b":")[2]):
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def vendor(*answers: Answer, name: str = NAME, tls: ssl.SSLContext | None = None) -> Iterator[Vendor]:
    """A server that answers with bytes, or with what a function does to the connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = Vendor(listener.getsockname()[1], list(answers or [JSON_ANSWER]))
    context = tls or server_tls(name)
    context.sni_callback = lambda _socket, asked, _context: server.names.append(asked)

    def accept() -> None:
        while True:
            try:
                tcp, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=server.serve, args=(tcp, context), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@contextmanager
def closed_port() -> Iterator[int]:
    """A port of this machine on which nobody listens, and that nobody else can take."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


class Way(httpx.AsyncBaseTransport):
    """Takes the requests for each address to the port that plays it."""

    def __init__(self, tls: ssl.SSLContext, ports: Mapping[str, int], dialled: list[str]) -> None:
        self._below = carry(tls)
        self._ports = ports
        self._dialled = dialled

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._dialled.append(request.url.host)
        return await self._below.handle_async_request(
            httpx.Request(
                request.method,
                request.url.copy_with(host="127.0.0.1", port=self._ports[request.url.host]),
                headers=request.headers,
                stream=request.stream,
                extensions=request.extensions,
            )
        )

    async def aclose(self) -> None:
        await self._below.aclose()


@dataclass
class Internet:
    """Public addresses that ports of this machine play, and a resolver that says what it is told to.

    names: the answers for each name, one after the other, and the last one for ever.
    """

    ports: dict[str, int]
    names: dict[str, list[Sequence[str]]] = field(default_factory=lambda: {NAME: [[PUBLIC]]})
    dialled: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answers = self.names[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def transport(self, **options: Any) -> PinnedTransport:
        """The real transport, with this internet below it."""
        given: dict[str, Any] = {
            "resolver": self.resolve,
            "carrier": lambda tls: Way(tls, self.ports, self.dialled),
            "tls": client_tls(),
        }
        return PinnedTransport(**given | options)


def at(*servers: Vendor) -> Internet:
    """An internet in which the first server is at PUBLIC, the second at OTHER, the third at SIX."""
    ports = dict(zip((PUBLIC, OTHER, SIX), (server.port for server in servers), strict=False))
    return Internet(ports)


async def post(
    transport: PinnedTransport, url: str = URL, accept: str = "text/event-stream, application/json"
) -> httpx.Response:
    """The answer to one request in a lease of its own, read to its end."""
    headers = {"Content-Type": "application/json", "Accept": accept}
    async with transport.lease(url) as lease, httpx.AsyncClient(transport=lease) as http:
        return await http.post(url, content=b"{}", headers=headers)


@functools.cache
def _authority() -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    return _signed(key, "A test's authority", key, "A test's authority", authority=True), key


def _signed(
    key: ec.EllipticCurvePrivateKey,
    subject: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    issuer: str,
    *,
    authority: bool = False,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_called(subject))
        .issuer_name(_called(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )
    if not authority:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(subject)]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _called(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def server_tls(name: str, *, self_signed: bool = False) -> ssl.SSLContext:
    """What a server of that name shows, signed by the tests' authority or by nobody."""
    _, authority_key = _authority()
    key = ec.generate_private_key(ec.SECP256R1())
    signed = (
        _signed(key, name, key, name)
        if self_signed
        else _signed(key, name, authority_key, "A test's authority")
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as directory:
        pem = Path(directory) / "server.pem"
        pem.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
        context.load_cert_chain(pem)
    return context


def client_tls() -> ssl.SSLContext:
    """What trusts the tests' authority, and nobody else."""
    certificate, _ = _authority()
    return ssl.create_default_context(
        cadata=certificate.public_bytes(serialization.Encoding.PEM).decode("ascii")
    )
