"""Commands ``gristmill env pack``, ``open``, ``list`` and ``drop``, which manage environments as images."""

from __future__ import annotations

import argparse
import os
import shutil
import sys

from gristmill._errors import GristmillError
from gristmill._images import build, storage
from gristmill._images.node import Node
from gristmill._images.opening import open_image
from gristmill._images.recipe import Recipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Number of hexadecimal digits shown of a digest.
_SHOWN = 16


def add_commands(commands: argparse._SubParsersAction[Any]) -> None:
    """Adds the subcommands and their options."""
    pack = commands.add_parser("pack", help="make one file of an environment")
    pack.add_argument(
        "prefix",
        nargs="?",
        default=sys.prefix,
        help="the environment's folder (the one of this command)",
    )
    pack.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="path of the image (by default it is only in the cache)",
    )
    pack.add_argument(
        "--format", choices=tuple(build.FORMATS), default="tar",
        help="tar: every node can open it; squashfs: nodes where mounting is allowed need not unpack it (tar)",
    )  # fmt: skip
    pack.add_argument(
        "--with-python",
        action="store_true",
        help="packs the interpreter too, for nodes that do not have it at the same path",
    )
    pack.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a file or folder to add, with its name in the image",
    )
    opened = commands.add_parser("open", help="open an image on this node and print the folder")
    opened.add_argument("file", help="path of the image")
    opened.add_argument(
        "--digest", help="the digest that the image must have; without it, any image is accepted"
    )
    commands.add_parser("list", help="show the packed images, and those that are open on this node")
    drop = commands.add_parser("drop", help="remove packed or open images that no process uses")
    drop.add_argument("digests", nargs="*", metavar="DIGEST", help="the first digits are enough")
    drop.add_argument("--all", action="store_true", help="everything")
    for parser, run in ((pack, _pack), (opened, _open), (drop, _drop)):
        parser.set_defaults(run_image=run)
    commands.choices["list"].set_defaults(run_image=_list)


def run(options: argparse.Namespace) -> int:
    """Runs the selected command. Returns the exit status."""
    try:
        status: int = options.run_image(options)
        return status
    except GristmillError as error:
        print(f"gristmill env: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        print(f"gristmill env: {where}{error.strerror}", file=sys.stderr)
        return 1


def _pack(options: argparse.Namespace) -> int:
    files = []
    for text in options.add:
        name, is_said, path = text.partition("=")
        files.append((name, path) if is_said else (os.path.basename(os.path.normpath(text)), text))
    recipe = Recipe(options.prefix, files=tuple(files), with_python=options.with_python)
    made = build.build(recipe, options.format)
    path = made.path
    if options.output is not None:
        path = options.output
        _copy(made, path)
    print(path)
    print(
        f"{made.count} files, {made.content_size / 1e6:.1f} MB in {made.size / 1e6:.1f} MB, digest {made.digest}",
        file=sys.stderr,
    )
    if not storage.is_shared(made.of):
        print(
            f"note: {made.of} is on a local disk: this node needs no image of it, and other nodes do",
            file=sys.stderr,
        )
    return 0


def _copy(made: build.Image, path: str) -> None:
    coming = f"{path}.coming-{os.getpid()}"
    try:
        shutil.copyfile(made.path, coming)
        os.rename(coming, path)
    except OSError as error:
        if os.path.exists(coming):
            os.unlink(coming)
        folder = os.path.dirname(os.path.abspath(path))
        if storage.is_full(error):
            raise storage.no_space(f"write {path}", folder, made.size) from error
        raise GristmillError(f"{path} cannot be written: {error}") from error


def _open(options: argparse.Namespace) -> int:
    with open_image(options.file, options.digest) as opened:
        print(opened.path)
        print(
            f"opened by {opened.way}; remove it with: gristmill env drop {opened.digest[:_SHOWN]}",
            file=sys.stderr,
        )
    return 0


def _list(_: argparse.Namespace) -> int:
    for made in build.built():
        print(
            f"packed  {made.digest[:_SHOWN]}  {made.size / 1e6:>9.1f} MB  {made.format:<10}  {made.of}"
        )
    for node in _nodes():
        for record in node.records():
            use = "used" if node.is_used(record.digest) else "unused"
            place = node.place_of(record)
            print(
                f"open    {record.digest[:_SHOWN]}  {record.size / 1e6:>9.1f} MB  {record.way:<10}  {place} ({use})"
            )
    return 0


def _nodes() -> tuple[Node, Node]:
    """Returns the node's storage for images, and that for files of contexts."""
    return Node(), Node(is_for_files=True)


def _drop(options: argparse.Namespace) -> int:
    packed = {made.digest for made in build.built()}
    opened = {record.digest: node for node in _nodes() for record in node.records()}
    known = packed | set(opened)
    wanted = known if options.all else set()
    for text in options.digests:
        found = {digest for digest in known if digest.startswith(text.lower())}
        if len(found) != 1:
            raise GristmillError(
                f"{text} is {'not an image' if not found else 'the beginning of several'}: gristmill env list"
            )
        wanted |= found
    if not options.all and not wanted:
        raise GristmillError(
            "name an image by the first digits of its digest, or give --all: gristmill env list"
        )
    there = sorted(wanted & set(opened))
    kept = [digest for digest in there if not opened[digest].forget(digest)]
    for digest in wanted & packed:
        build.forget(digest)
    for digest in kept:
        print(
            f"gristmill env: {digest[:_SHOWN]} is used by a process of this node and stays open",
            file=sys.stderr,
        )
    return 1 if kept else 0
