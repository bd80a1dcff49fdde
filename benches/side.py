"""The process of one build: runs a burst for each count it reads, and prints the seconds of each."""

import gc
import sys

from benches import engines
from benches.harness import opened, seconds
from benches.rows.throughput import burst
from benches.work import noop


def main() -> None:
    """Serves bursts until the other end of the pipe closes."""
    engine = engines.ours(engines.OURS, int(sys.argv[1]))
    with opened(engine):
        future = engine.submit(noop, 1)
        engine.result(future)
        print("timed" if future.timings().submitted is not None else "untimed", flush=True)
        run = burst(engine)
        for line in sys.stdin:
            gc.collect()
            print(seconds(run, int(line)), flush=True)


if __name__ == "__main__":
    main()
