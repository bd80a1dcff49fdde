"""The ``gristmill key`` command, which makes keys for nodes that are started independently of a client."""

from __future__ import annotations

import argparse
import os
import sys


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Defines the arguments of the command."""
    parser.add_argument(
        "folder", nargs="?", default=".", help="folder for the two files (the working directory)"
    )


def run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Generates the keys of a fleet and writes them. Returns the exit status."""
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
