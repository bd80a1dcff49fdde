"""The ``gristmill key`` command: keys for nodes that stand by themselves."""

from __future__ import annotations

import argparse
import os
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Says what the command understands."""
    parser.add_argument("folder", nargs="?", default=".", help="where the two files go (here)")


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Draws the keys of a fleet and writes them; gives the exit status."""
    from gristmill import _native

    client = os.path.join(options.folder, "gristmill-client.key")
    node = os.path.join(options.folder, "gristmill-node.key")
    try:
        _native.Fleet().write(client, node)
    except OSError as error:
        parser.error(str(error))
    print(client)
    print(node)
    print(
        f"give {os.path.basename(node)} to every node (gristmill node --listen HOST:PORT --key FILE) and keep "
        f"{os.path.basename(client)}",
        file=sys.stderr,
    )
    return 0
