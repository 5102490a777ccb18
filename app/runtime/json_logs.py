"""The log format: one JSON object per line, on standard error."""

from __future__ import annotations

import json
import logging
from functools import lru_cache
from time import gmtime, strftime, time
from typing import TextIO


class PreformattedRecord(logging.LogRecord):
    """A record that is already a JSON object.

    Skips logging's lookup of source position and thread, which takes longer than writing the line.
    """

    def __init__(self, logger: str, line: str) -> None:
        now = time()
        self.__dict__.update(_BLANK, name=logger, msg=line, created=now, msecs=1000 * (now % 1))


class TurnHandler(logging.StreamHandler[TextIO]):
    """Writes to standard error: all PreformattedRecords of one turn of the event loop in one system call."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not isinstance(record, PreformattedRecord):
            self.flush()
            super().emit(record)
            return
        if not self._lines:
            import asyncio  # only here: a worker, which logs no such record, does without these 2 MiB

            asyncio.get_running_loop().call_soon(self.flush)
        self._lines.append(self.format(record) + self.terminator)

    def flush(self) -> None:
        """logging also calls it at exit."""
        assert self.lock
        with self.lock:
            lines, self._lines = self._lines, []
            if lines:
                self.stream.write("".join(lines))
            super().flush()


class JSONFormatter(logging.Formatter):
    """Formats records as JSON: time (UTC), level, process, logger, message, and the traceback of an exception.

    `instance`: which of several instances of the service this is.
    """

    def __init__(self, instance: int | None = None) -> None:
        super().__init__()
        self._fields = {} if instance is None else {"instance": instance}
        self._prefix = "{" if instance is None else f'{{"instance":{instance},'

    def format(self, record: logging.LogRecord) -> str:
        if isinstance(record, PreformattedRecord):
            return self._prefix + str(record.msg)[1:] if self._fields else str(record.msg)
        fields = {
            **self._fields,
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "process": record.process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def timestamp(seconds: float) -> str:
    """Seconds since 1970 as 2026-01-31T12:00:00.123Z (RFC 3339)."""
    whole = int(seconds)
    return f"{_format_seconds(whole)}.{int(1000 * (seconds - whole)):03d}Z"


def log_to_stderr(instance: int | None = None) -> None:
    """Sends all log records to standard error, one JSON object per line. `instance`: see JSONFormatter."""
    handler = TurnHandler()
    handler.setFormatter(JSONFormatter(instance))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.captureWarnings(True)
    # It would log bytes of request bodies; the client gets the error in its response.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)


@lru_cache(maxsize=4)
def _format_seconds(seconds: int) -> str:
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds))


_BLANK = vars(logging.LogRecord("", logging.INFO, __file__, 0, "", (), None))
