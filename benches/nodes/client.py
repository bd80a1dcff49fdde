"""The process of a client on a cluster: `python -m benches.nodes.client ORDER`, with ORDER in JSON.

Once every node has run a task, it prints the sizes of its work, and then a sample for each line it reads. If it fails,
it prints the reason.
"""

import gc
import json
import os
import sys
import warnings
from time import sleep
from typing import TextIO

from benches.harness import SETTLE_S, opened
from benches.nodes.engines import ENGINES
from benches.nodes.meeting import meet
from benches.nodes.order import FAILED, Order
from benches.nodes.works import WORKS


def serve(order: Order, answers: TextIO) -> None:
    """Serves samples until the other end of the pipe closes."""
    engine = ENGINES[order.engine](order.place)
    with opened(engine):
        meet(engine)
        sample, parameters = WORKS[order.work](engine, order.settings)
        print(json.dumps(parameters), file=answers)
        for _ in sys.stdin:
            gc.collect()
            sleep(SETTLE_S)
            print(sample(), file=answers)


def main() -> None:
    """Serves samples, or prints the reason of a failure."""
    # Engines and their processes may print to standard output, so the answers get a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    try:
        serve(Order.read(sys.argv[1]), answers)
    except Exception as error:
        print(f"{FAILED}{type(error).__name__}: {error}", file=answers)
        raise


if __name__ == "__main__":
    main()
