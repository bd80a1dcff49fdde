"""The process of one build: runs a burst for each count it reads, and says how long each took."""

import gc
import sys

from benches import adapters
from benches.harness import opened, seconds
from benches.rows.throughput import burst
from benches.work import noop


def main() -> None:
    """Serves until the other end of the pipe closes."""
    engine = adapters.ours(adapters.OURS, int(sys.argv[1]))
    with opened(engine):
        future = engine.submit(noop, 1)
        engine.result(future)
        print("tagged" if future.tags() else "untagged", flush=True)
        run = burst(engine)
        for line in sys.stdin:
            gc.collect()
            print(seconds(run, int(line)), flush=True)


if __name__ == "__main__":
    main()
