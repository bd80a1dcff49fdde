"""Where a run keeps its files: ``runinfo/000``, ``runinfo/001`` and so on."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_FORMAT = (
    "%(asctime)s.%(msecs)03d %(processName)s-%(process)d %(threadName)s "
    "%(name)s:%(lineno)d %(levelname)s: %(message)s"
)
#: A file's lines begin with the time in seconds, as Parsl's do: programs read it.
_FILE_FORMAT = f"%(created)f {_FORMAT}"


def make_run_folder(runs: str) -> str:
    """Makes the next numbered folder below ``runs``; gives its absolute path. Two programs never get the same one."""
    parent = Path(runs)
    parent.mkdir(parents=True, exist_ok=True)
    number = 1 + max(
        (int(path.name) for path in parent.iterdir() if path.name.isdecimal()), default=-1
    )
    while True:
        try:
            folder = parent / f"{number:03}"
            folder.mkdir()
            return os.path.abspath(folder)
        except FileExistsError:
            number += 1


def start_logging(setting: Any, folder: str) -> Callable[[], None] | None:
    """Does what ``Config.initialize_logging`` says; gives what undoes it.

    :param setting: ``True`` writes ``parsl.log`` into ``folder``, ``False`` leaves logging to the program; a log
        configuration of Parsl does what it does there.
    """
    if setting is False:
        return None
    if setting is True:
        return set_file_logger(os.path.join(folder, "parsl.log"))
    undo: Callable[[], None] = setting.initialize_logging(log_dir=Path(folder), log_name="parsl")
    return undo


def set_file_logger(
    path: str, name: str = "parsl", level: int = logging.DEBUG, format_string: str | None = None
) -> Callable[[], None]:
    """Writes what the logger ``name`` says to a file; gives a function that ends it."""
    return attach(logging.FileHandler(path), name, level, _formatter(format_string or _FILE_FORMAT))


def set_stream_logger(
    name: str = "parsl",
    level: int = logging.DEBUG,
    format_string: str | None = None,
    stream: Any = None,
) -> Callable[[], None]:
    """Writes what the logger ``name`` says to a stream, standard error if none is given; gives what ends it."""
    return attach(logging.StreamHandler(stream), name, level, _formatter(format_string))


def _formatter(format_string: str | None) -> logging.Formatter:
    return logging.Formatter(format_string or _FORMAT, datefmt="%Y-%m-%d %H:%M:%S")


def attach(
    handler: logging.Handler, name: str, level: int, formatter: logging.Formatter
) -> Callable[[], None]:
    """Lets a handler have what the logger ``name`` and the engine say; gives a function that ends it."""
    handler.setLevel(level)
    handler.setFormatter(formatter)
    # Exceptions of callbacks are logged under the last of these and lost otherwise.
    loggers = [logging.getLogger(one) for one in (name, "gristmill", "concurrent.futures")]
    for logger in loggers:
        logger.setLevel(min(logger.level or level, level))
        logger.addHandler(handler)

    def detach() -> None:
        for logger in loggers:
            logger.removeHandler(handler)
        handler.close()

    return detach
