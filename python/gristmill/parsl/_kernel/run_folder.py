"""The folders of runs, ``runinfo/000``, ``runinfo/001`` and so on, and the log in them."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill import _forked
from gristmill._nodes.run_folders import make_run_folder as make_run_folder

if TYPE_CHECKING:
    from collections.abc import Callable

_FORMAT = (
    "%(asctime)s.%(msecs)03d %(processName)s-%(process)d %(threadName)s "
    "%(name)s:%(lineno)d %(levelname)s: %(message)s"
)
#: The format of log files, by Parsl's name. As with Parsl, lines begin with the time in seconds, which programs read.
DEFAULT_FORMAT = (
    "%(created)f %(asctime)s %(processName)s-%(process)d %(threadName)s-%(thread)d "
    "%(name)s:%(lineno)d %(funcName)s %(levelname)s: %(message)s"
)


def start_logging(setting: Any, folder: str) -> Callable[[], None] | None:
    """Starts logging as ``Config.initialize_logging`` says, and returns a function that ends it.

    :param setting: ``True`` writes ``parsl.log`` into ``folder``, ``False`` leaves logging to the program. A log
        configuration of Parsl works as in Parsl.
    """
    if setting is False:
        return None
    if setting is True:
        return set_file_logger(os.path.join(folder, "parsl.log"))
    named = {"log_dir": Path(folder), "log_name": "parsl"}
    undo: Callable[[], None] = _forked.guarded_with(setting.initialize_logging, (), named)
    return undo


def set_file_logger(
    filename: str, name: str = "parsl", level: int = logging.DEBUG, format_string: str | None = None
) -> Callable[[], None]:
    """Writes the records of the logger ``name`` to a file. Returns a function that ends it."""
    return attach(
        logging.FileHandler(filename), name, level, _formatter(format_string or DEFAULT_FORMAT)
    )


def set_stream_logger(
    name: str = "parsl",
    level: int = logging.DEBUG,
    format_string: str | None = None,
    stream: Any = None,
) -> Callable[[], None]:
    """Writes the records of the logger ``name`` to a stream, by default standard error.

    Returns a function that ends it.
    """
    return attach(logging.StreamHandler(stream), name, level, _formatter(format_string))


def _formatter(format_string: str | None) -> logging.Formatter:
    return logging.Formatter(format_string or _FORMAT, datefmt="%Y-%m-%d %H:%M:%S")


def attach(
    handler: logging.Handler, name: str, level: int, formatter: logging.Formatter
) -> Callable[[], None]:
    """Adds a handler for the records of the logger ``name`` and of the engine. Returns a function that ends it."""
    handler.setLevel(level)
    handler.setFormatter(formatter)
    # Exceptions of callbacks are logged under the last of these, and would be lost without it.
    loggers = [logging.getLogger(one) for one in (name, "gristmill", "concurrent.futures")]
    for logger in loggers:
        logger.setLevel(min(logger.level or level, level))
        logger.addHandler(handler)

    def detach() -> None:
        for logger in loggers:
            logger.removeHandler(handler)
        handler.close()

    return detach
