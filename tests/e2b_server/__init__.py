"""A service on loopback that speaks as E2B does, for the real SDK. Its sandboxes are real: bubblewraps.

Made from what E2B publishes of its interfaces: the OpenAPI description of its REST service and of envd, the
program that runs in each sandbox, and the protobuf description of envd's process service, spoken in the JSON
form of the Connect protocol.
"""

from e2b_server.service import E2BServer

__all__ = ["E2BServer"]
