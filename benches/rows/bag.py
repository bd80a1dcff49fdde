"""The bag protocol: as many tasks in flight as workers; each completion submits the next."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, wait
from typing import Any

from benches.engines import PEERS
from benches.engines.base import Engine
from benches.engines.ours import GristmillEngine
from benches.harness import Measure, alternate, contest, rate, sized
from benches.model import Block, Goal, Line, Recording, Row, Settings, Unavailable
from benches.work import noop
from gristmill import wait_any

WORKERS = 2
PEER = "ppe"


def with_wait(engine: Engine) -> Callable[[int], object]:
    """Returns a run of `count` tasks through `concurrent.futures.wait`."""
    submit = engine.submit

    def run(count: int) -> object:
        running = {submit(noop, number) for number in range(WORKERS)}
        sent = WORKERS
        while running:
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                future.result()
                if sent < count:
                    running.add(submit(noop, sent))
                    sent += 1
        return sent

    return run


def with_wait_any(engine: Engine) -> Callable[[int], object]:
    """Returns a run of `count` tasks through our `wait_any`."""
    if not isinstance(engine, GristmillEngine):
        raise Unavailable(f"{engine.name} has no wait_any")
    submit = engine.submit

    def run(count: int) -> object:
        running: list[Any] = [submit(noop, number) for number in range(WORKERS)]
        sent = WORKERS
        while running:
            future = wait_any(running)
            running.remove(future)
            future.result()
            if sent < count:
                running.append(submit(noop, sent))
                sent += 1
        return sent

    return run


class BagRow(Row):
    """Ours with `wait` and with `wait_any` against ProcessPoolExecutor with `wait`."""

    key = "bag"
    title = "bag, 2 in flight"
    unit = "/s"

    def blocks(self, settings: Settings) -> list[Block]:
        return [Block(PEER)]

    def lines(self) -> list[Line]:
        def line(way: str, must: float, moonshot: float) -> Line:
            return Line(
                f"{self.title}, {way}",
                PEER,
                "higher",
                ours=f"ours {way}",
                reference="peer",
                reference_name=PEERS[PEER].name,
                must=Goal(must, "ratio"),
                moonshot=Goal(moonshot, "ratio"),
            )

        return [line("wait", 15, 20), line("wait_any", 50, 200)]

    def measure(self, block: str, settings: Settings) -> Recording:
        recording = Recording(parameters={"workers": WORKERS})
        sides: list[Measure] = []

        def enter(key: str, make: Callable[[Engine], Callable[[int], object]]) -> None:
            engine = engines[key.split()[0]]
            try:
                run = make(engine)
            except Unavailable as reason:
                recording.missing[key] = str(reason)
                return
            count = sized(settings, run)
            recording.parameters[f"{key} tasks"] = count
            sides.append(rate(key, run, count))

        with contest(settings, block, WORKERS) as opened:
            engines = dict(opened)
            enter("ours wait", with_wait)
            enter("peer", with_wait)
            enter("ours wait_any", with_wait_any)
            recording.add("/s", alternate(settings, *sides))
        return recording
