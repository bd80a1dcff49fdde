"""The command ``gristmill bench``: lists what can be run, and runs it."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gristmill_bench import compare, config, plugins, run
from gristmill_bench.errors import BenchError
from gristmill_bench.faults import matrix, tables
from gristmill_bench.figures import command as figures
from gristmill_bench.folder import PROFILE
from gristmill_bench.replay import command as replay
from gristmill_bench.statistics import REPEATS


def main(words: list[str]) -> int:
    """Runs the command with the words behind its name; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="gristmill bench",
        description="Measures task engines: each application runs on any executor.",
    )
    _add_commands(parser)
    own, fields = _without_fields(words)
    return _run_command(parser, parser.parse_args(own), fields)


def _without_fields(words: list[str]) -> tuple[list[str], list[str]]:
    """Separates fields, such as ``--app.size 3`` and ``--app.size=3``, from words without a dot."""
    own: list[str] = []
    fields: list[str] = []
    left = iter(words)
    for word in left:
        name, has_value, _ = word.partition("=")
        if not (name.startswith("--") and "." in name):
            own.append(word)
            continue
        fields.append(word)
        if not has_value:
            fields.extend(value for value in [next(left, None)] if value is not None)
    return own, fields


def _add_commands(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands."""
    kinds = parser.add_subparsers(metavar="command", required=True)
    one = kinds.add_parser(
        "run",
        help="run an application on an executor",
        description="Any field of a plug-in can be set: --app.size 1024, --executor.workers 4, --run.warmup 100.",
    )
    _add_choices(one, plugins.KINDS)
    one.add_argument(
        "--profile", action="store_true", help="look at all its threads: see gristmill profile"
    )
    one.set_defaults(do=_run, takes_fields=True)
    several = kinds.add_parser(
        "compare",
        help="run an application on several executors in turns",
        description="Fields of --executor are set for all of them: --executor.workers 4.",
    )
    _add_choices(several, [kind for kind in plugins.KINDS if kind != "executor"])
    several.add_argument(
        "--executors",
        required=True,
        metavar="NAME,NAME",
        help="others are compared with the first",
    )
    several.add_argument(
        "--repeats", type=int, default=REPEATS, metavar="N", help=f"runs of each ({REPEATS})"
    )
    several.set_defaults(do=_compare, takes_fields=True, executor=None)
    again = kinds.add_parser(
        "reproduce", help="measure figures of papers again, and write a page of them"
    )
    figures.add_options(again)
    again.set_defaults(do=lambda options, _: figures.reproduce(options), takes_fields=False)
    recorded = kinds.add_parser(
        "replay",
        help="run a recorded run again, on an executor or simulated on other nodes",
        description="Fields of the application replay and costs of the simulation can be set: --app.scale 0.1, "
        "--cost.hop_ns 5000.",
    )
    replay.add_arguments(recorded)
    _add_names(recorded, [kind for kind in plugins.KINDS if kind != "app"])
    recorded.set_defaults(do=_replay, takes_fields=True, app="replay", files=[])
    failing = kinds.add_parser(
        "matrix",
        help="run each kind of failure on each executor, and say what became of the tasks",
        description="Fields of the application are those of failures: --app.base cholesky, --app.config.size 512.",
    )
    _add_choices(failing, [kind for kind in plugins.KINDS if kind not in ("app", "executor")])
    failing.add_argument("--executors", metavar="NAME,NAME", help="all that are installed")
    failing.add_argument("--types", metavar="NAME,NAME", help="of failures; all")
    failing.add_argument("--repeats", type=int, default=1, metavar="N", help="runs of each (1)")
    failing.set_defaults(do=_matrix, takes_fields=True, app=None, executor=None)
    listed = kinds.add_parser(
        "list", help="name all plug-ins, their fields, and what each lacks here"
    )
    listed.set_defaults(do=_list, takes_fields=False)


def _add_choices(parser: argparse.ArgumentParser, kinds: Iterable[plugins.Kind]) -> None:
    """Adds the files and the names of plug-ins of the given kinds."""
    about = "TOML; later files count more"
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help=about)
    _add_names(parser, kinds)


def _add_names(parser: argparse.ArgumentParser, kinds: Iterable[plugins.Kind]) -> None:
    for kind in kinds:
        parser.add_argument(
            f"--{kind}", metavar="NAME", help=f"the {kind}: see gristmill bench list"
        )


def _run_command(
    parser: argparse.ArgumentParser, options: argparse.Namespace, words: list[str]
) -> int:
    """Runs the chosen subcommand; returns the exit status."""
    if words and not options.takes_fields:
        parser.error(f"unrecognized arguments: {' '.join(words)}")
    try:
        return int(options.do(options, words))
    except BenchError as error:
        print(f"gristmill bench: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        raise
    except OSError as error:
        # For example, the disk is full or a folder is gone.
        where = f"{error.filename}: " if error.filename is not None else ""
        print(f"gristmill bench: {where}{error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("gristmill bench: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


def _tables(options: argparse.Namespace, words: list[str]) -> dict[str, dict[str, Any]]:
    """Returns the tables that files, names and fields describe together."""
    chosen: dict[str, dict[str, Any]] = {}
    for kind in plugins.KINDS:
        if getattr(options, kind) is not None:
            chosen[kind] = {"name": getattr(options, kind)}
    files = [config.read(path) for path in options.files]
    asked = {"run": {"profile": True}} if getattr(options, "profile", False) else {}
    return config.merge(*files, chosen, fields_of(words), asked)


def _compare(options: argparse.Namespace, words: list[str]) -> int:
    repeats = _repeats(options)
    folder, found = compare.compare(_tables(options, words), _names(options.executors), repeats)
    print(compare.table(found))
    print(folder)
    return 0 if all("error" not in one for runs in found.values() for one in runs) else 1


def _replay(options: argparse.Namespace, words: list[str]) -> int:
    if replay.is_simulated(options):
        options.app = None
        return replay.simulate(options, fields_of(words))
    words = [*words, "--app.record", str(options.record)]
    return _run(options, words)


def _matrix(options: argparse.Namespace, words: list[str]) -> int:
    measured = matrix.columns(_names(options.executors) if options.executors else None)
    types = _names(options.types) if options.types else matrix.TYPES
    repeats = _repeats(options)
    folder, found = matrix.measure(_tables(options, words), measured, types, repeats)
    print(tables.text(found))
    print(folder)
    return 0 if tables.is_whole(found) else 1


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise BenchError(f"a name is missing in {text!r}")
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise BenchError(f"{twice!r} is named twice in {text!r}")
    return names


def _repeats(options: argparse.Namespace) -> int:
    if options.repeats < 1:
        raise BenchError("--repeats must be at least 1")
    return int(options.repeats)


def _run(options: argparse.Namespace, words: list[str]) -> int:
    folder = run.start(config.resolve(_tables(options, words)))
    found = run.summary(folder)
    seconds = ", ".join(f"{name} {value:.3f} s" for name, value in found["seconds"].items())
    print(f"{found['app']} on {found['executor']}: {found['result']}")
    for figure, value in found["figures"].items():
        quantity, _, unit = figure.rpartition("_")
        print(f"{quantity} {value:.4g} {unit}")
    print(f"{found['tasks']} tasks, {found['tasks_per_second']:,.0f}/s; {seconds}")
    if (folder / PROFILE).exists():
        print(folder / PROFILE)
    print(folder)
    return 0


def fields_of(words: list[str]) -> dict[str, dict[str, Any]]:
    """Returns the tables that ``--app.size 3 --run.folder=x`` stand for. Dashes and underscores are equivalent.

    Further dots select nested tables: ``--app.config.size 3``.
    """
    found: dict[str, dict[str, Any]] = {}
    left = list(reversed(words))
    while left:
        word = left.pop()
        name, has_value, value = word.partition("=")
        table, *inner, field = name.removeprefix("--").replace("-", "_").split(".")
        if not (name.startswith("--") and "." in name and field):
            raise BenchError(f"{word!r} is no field: --app.size 3, for example")
        if not has_value:
            if not left:
                raise BenchError(f"{word} has no value")
            value = left.pop()
        place = found.setdefault(table, {})
        for part in inner:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise BenchError(f"{word}: {part} has a value already")
        place[field] = _value(value)
    return found


def _value(text: str) -> Any:
    """Returns a list or dict from JSON, ``None`` for "none", and any other text as it is, for the field to parse."""
    if text == config.NONE:
        return None
    if text[:1] in "[{":
        try:
            return json.loads(text)
        except ValueError as error:
            raise BenchError(f"{text!r} is no JSON: {error}") from error
    return text


def _list(_options: argparse.Namespace, _words: list[str]) -> int:
    for kind in plugins.KINDS:
        print(f"{kind}:")
        for name in plugins.names(kind):
            try:
                plugin = plugins.find(kind, name)
            except BenchError as error:
                print(f"  {name:<16} {error}")
                continue
            about = (plugin.__doc__ or "").strip().partition("\n")[0]
            print(f"  {name:<16} {about}".rstrip())
            for line in (plugin.missing(), _fields(plugin)):
                if line:
                    print(f"  {'':<16} {line}")
    return 0


def _fields(plugin: type[plugins.Plugin]) -> str:
    """Returns the fields of a plug-in with their defaults."""
    return ", ".join(
        name if field.is_required() else f"{name}={field.get_default(call_default_factory=True)}"
        for name, field in plugin.model_fields.items()
    )
