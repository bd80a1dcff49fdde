"""Runs a campaign: ``python -m chaos [local|nodes] --tasks N --seed S``."""

import sys

from chaos.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
