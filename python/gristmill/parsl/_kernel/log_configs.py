"""Values of ``Config.initialize_logging`` besides ``True`` and ``False``, for programs without Parsl."""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from gristmill.parsl._kernel.run_folder import DEFAULT_FORMAT, attach, set_file_logger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["DEFAULT_FORMAT", "FileLogging", "JSONLogging", "LogConfig"]

#: Fields of a record that are always written, besides all fields that begin with ``parsl.``.
_FIELDS = ("created", "process", "processName", "thread", "threadName", "name", "lineno")


class LogConfig(ABC):
    """The destination of a run's log."""

    @abstractmethod
    def initialize_logging(self, *, log_dir: Path, log_name: str) -> Callable[[], None]:
        """Begins logging into a folder. Returns a function that ends the logging."""


class FileLogging(LogConfig):
    """A log as lines of text in a file of the run's folder."""

    def __init__(self, *, format_string: str = DEFAULT_FORMAT, level: int = logging.DEBUG) -> None:
        self.format_string = format_string
        self.level = level

    def initialize_logging(self, *, log_dir: Path, log_name: str) -> Callable[[], None]:
        """Begins logging to ``<log_name>.log``. Returns a function that ends the logging."""
        log_dir.mkdir(parents=True, exist_ok=True)
        path = str(log_dir / f"{log_name}.log")
        return set_file_logger(path, level=self.level, format_string=self.format_string)


class JSONLogging(LogConfig):
    """A log with one JSON object per line in a file of the run's folder."""

    def __init__(self, *, level: int = logging.DEBUG) -> None:
        self.level = level

    def initialize_logging(self, *, log_dir: Path, log_name: str) -> Callable[[], None]:
        """Begins logging to ``<log_name>.jsonlog``, with the structured fields of the tasks' lines.

        Returns a function that ends the logging.
        """
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
