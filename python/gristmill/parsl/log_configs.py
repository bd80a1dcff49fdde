"""What ``Config.initialize_logging`` may be besides ``True`` and ``False``, for programs without Parsl."""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from gristmill.parsl.run_folder import attach, set_file_logger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["FileLogging", "JSONLogging", "LogConfig"]

#: Of every record; and all fields of a record that begin with ``parsl.``.
_FIELDS = ("created", "process", "processName", "thread", "threadName", "name", "lineno")


class LogConfig(ABC):
    """Decides where a run's log goes."""

    @abstractmethod
    def initialize_logging(self, *, log_dir: Path, log_name: str) -> Callable[[], None]:
        """Begins logging into a folder; gives what ends it."""


class FileLogging(LogConfig):
    """Lines of text in a file of the run's folder."""

    def __init__(self, *, format_string: str | None = None, level: int = logging.DEBUG) -> None:
        self.format_string = format_string
        self.level = level

    def initialize_logging(self, *, log_dir: Path, log_name: str) -> Callable[[], None]:
        """Writes ``<log_name>.log``."""
        log_dir.mkdir(parents=True, exist_ok=True)
        path = str(log_dir / f"{log_name}.log")
        return set_file_logger(path, level=self.level, format_string=self.format_string)


class JSONLogging(LogConfig):
    """One JSON object a line in a file of the run's folder."""

    def __init__(self, *, level: int = logging.DEBUG) -> None:
        self.level = level

    def initialize_logging(self, *, log_dir: Path, log_name: str) -> Callable[[], None]:
        """Writes ``<log_name>.jsonlog``, with the structured fields of the tasks' lines."""
        log_dir.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(log_dir / f"{log_name}.jsonlog", mode="w")
        return attach(handler, "parsl", self.level, _JsonFormatter())


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {name: getattr(record, name) for name in _FIELDS}
        fields["levelname"] = record.levelname
        fields["formatted"] = record.getMessage()
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        for name, value in vars(record).items():
            if name.startswith("parsl."):
                fields[name] = str(value)
        return json.dumps(fields)
