"""Objects that travel through a ProxyStore store."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("proxystore")

from gristmill_bench import BenchError, Engine
from gristmill_bench.call import value_of
from gristmill_bench.executors.here import Threads
from gristmill_bench.executors.pools import Processes
from gristmill_bench.transformers.proxies import Proxies, StoredName


def repeat(text: str, count: int) -> str:
    return text * count


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    """Yields a Redis server that holds a key of another program."""
    redis = pytest.importorskip("redis")
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server (Debian, Ubuntu: apt-get install redis-server)")
    socket = tmp_path / "redis.sock"
    command = [program, "--port", "0", "--unixsocket", str(socket), "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=tmp_path)
    client = redis.Redis.from_url(f"unix://{socket}")
    while True:
        try:
            client.set("theirs", "kept")
            break
        except redis.ConnectionError:
            assert process.poll() is None, "it has ended"
            time.sleep(0.001)
    yield client, f"unix://{socket}"
    client.close()
    process.send_signal(signal.SIGTERM)
    process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("executor", [Threads(), Processes()], ids=lambda one: type(one).__name__)
def test_objects_travel_through_files(executor: Any, tmp_path: Path) -> None:
    travel(executor, Proxies(), tmp_path)
    assert not list(tmp_path.glob("gristmill-bench-*")), "nothing is left"


@pytest.mark.slow
@pytest.mark.parametrize("executor", [Threads(), Processes()], ids=lambda one: type(one).__name__)
def test_objects_travel_through_redis_and_leave_what_is_others(
    executor: Any, server: Any, tmp_path: Path
) -> None:
    client, url = server
    travel(executor, Proxies(connector="redis", url=url), tmp_path)
    assert client.keys() == [b"theirs"]


def travel(executor: Any, plugin: Proxies, folder: Path) -> None:
    transformer = plugin.open(folder)
    backend = executor.open()
    engine = Engine(backend, transformer=transformer)
    first = engine.submit(repeat, "ab", 3)
    second = engine.submit(repeat, first, 2)
    assert second.result(60) == "ab" * 6
    assert type(value_of(second.future.result())) is StoredName
    backend.shutdown()
    transformer.close()


def test_where_no_server_is_that_is_said(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    with pytest.raises(BenchError, match=r"transformer\.url: no Redis at redis://127\.0\.0\.1:1:"):
        Proxies(connector="redis", url="redis://127.0.0.1:1").open(tmp_path)
