"""What `a2a serve` tells on stderr while it runs: lines, or JSON documents, one a line."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal

Format = Literal["text", "json"]


def start_log(form: Format, *, only_warnings: bool = False) -> None:
    """Send the log to stderr; without `only_warnings`, also what goes as it should."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _JSON() if form == "json" else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("ksadk").setLevel(logging.WARNING if only_warnings else logging.INFO)
    if (
        only_warnings
    ):  # the SDK warns of each request that it refuses, such as to follow a task that has ended
        logging.getLogger("a2a").setLevel(logging.ERROR)
    # The SDK closes generators in other contexts than they began in, which OpenTelemetry complains of.
    logging.getLogger("opentelemetry.context").setLevel(logging.CRITICAL)


class _JSON(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False)
