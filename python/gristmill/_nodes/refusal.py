"""A node of last resort: it answers every task with why there is no other node.

A placement that has given up starts it on the client's machine, so that what waits fails instead of waiting for ever.
Its workers are like any others, but for functions, which they take none of: each call raises ``StartError``.
"""

from __future__ import annotations

import os
import subprocess
import sys

from gristmill._nodes.handing import KEY_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

#: The environment variable with the reason.
_REASON = "GRISTMILL_REFUSAL"
#: What its workers' interpreters are told to do, in the place of what others are told.
_BOOTSTRAP = "import sys; sys.path.insert(0, sys.argv[1]); from gristmill._nodes import refusal; refusal.work()"
#: The longest reason, characters: what an environment takes.
_REASON_MAX = 20_000


def start(port: int, key: str, workers: int, reason: str) -> subprocess.Popen[bytes]:
    """Starts such a node, which ends with its client; so many workers are what that asks each node for."""
    environment = {**os.environ, KEY_VARIABLE: key, _REASON: reason[:_REASON_MAX]}
    command = [sys.executable, "-m", "gristmill._nodes.refusal", str(port), str(workers)]
    return subprocess.Popen(command, env=environment, start_new_session=True)


def main(port: str, workers: str) -> None:
    """Is the agent of such a node."""
    from gristmill import _native, _world

    key = os.environ.pop(KEY_VARIABLE)
    program = _world.program(output=True)
    place = program["arguments"].index(b"-c") + 1
    program["arguments"][place] = _BOOTSTRAP.encode()
    _native.run_agent(
        key,
        join=[f"127.0.0.1:{port}"],
        listen=None,
        name="nowhere",
        workers=int(workers),
        memory=0,
        gpus=0,
        labels="",
        patience_s=10.0,
        program=program,
        spin_us=0.0,
        opened=lambda address: None,
    )


def work() -> None:
    """Is the process that workers of such a node are forked from."""
    from gristmill import _functions, _threads, _world, _zygote
    from gristmill._errors import StartError

    reason = os.environ.get(_REASON, "")

    def refuse(definition: bytes) -> NoReturn:
        raise StartError(reason)

    def enter(description: bytes, known: Any = _world.enter) -> dict[str, Any]:
        # What the program's own workers do before their first task may need what only a real node has.
        world: dict[str, Any] = known(description)
        return {**world, "initializer": None}

    _functions.load = refuse  # type: ignore[assignment]
    _world.enter = enter
    _threads.import_all = lambda names: None
    _zygote.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
