"""Objects in a store of ProxyStore (Pauloski et al., SC 2023): in files, or in a Redis server."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple
from uuid import uuid4

from gristmill_bench.errors import BenchError
from gristmill_bench.interfaces import Transformer
from gristmill_bench.transformers.base import TransformerPlugin


class StoredName(NamedTuple):
    """The name of an object in a store: the key that its connector gave."""

    key: tuple[Any, ...]


class Proxies(TransformerPlugin):
    """A store of ProxyStore: in files of the run's folder, or in a Redis server."""

    needs: ClassVar[tuple[str, ...]] = ("proxystore",)

    connector: Literal["file", "redis"] = "file"
    #: Address of the Redis server.
    url: str = "redis://127.0.0.1:6379"
    #: Objects that each process keeps once it has fetched them.
    cache: int = 16

    def open(self, folder: Path) -> Transformer:
        """Connects, and makes the store."""
        name = f"gristmill-bench-{uuid4().hex[:12]}"
        if self.connector == "redis":
            connector = _connected(self.url, name)
        else:
            module = importlib.import_module("proxystore.connectors.file")
            connector = module.FileConnector(str(folder.resolve() / name), clear=False)
        store = importlib.import_module("proxystore.store").Store
        return _Store(store(name, connector, cache_size=self.cache, register=True))


class _Store:
    """A store that goes to workers by its configuration, of which each process makes one store."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def transform(self, value: Any) -> StoredName:
        return StoredName(self._store.put(value))

    def resolve(self, name: StoredName) -> Any:
        return self._store.get(name.key)

    def is_name(self, value: Any) -> bool:
        return type(value) is StoredName

    def close(self) -> None:
        self._store.close(clear=True)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return _again, (self._store.config(),)


def _again(config: Any) -> _Store:
    """Returns the store of this process for a configuration."""
    return _Store(importlib.import_module("proxystore.store").get_or_create_store(config))


class RedisKey(NamedTuple):
    """The name of an object in a Redis server."""

    name: str


class PrefixedRedis:
    """A connector of ProxyStore whose keys have its own prefix, so that it deletes no other keys at the end."""

    def __init__(self, url: str, prefix: str) -> None:
        self._url = url
        self._prefix = prefix
        self._client = importlib.import_module("redis").Redis.from_url(url)

    def put(self, obj: Any) -> RedisKey:
        """Stores bytes and returns their key."""
        key = RedisKey(f"{self._prefix}:{uuid4().hex}")
        self._client.set(key.name, bytes(obj))
        return key

    def put_batch(self, objs: Any) -> list[RedisKey]:
        """Stores several byte strings and returns their keys."""
        return [self.put(obj) for obj in objs]

    def get(self, key: RedisKey) -> bytes | None:
        """Returns the bytes of a key, or ``None`` if there are none."""
        found: bytes | None = self._client.get(key.name)
        return found

    def get_batch(self, keys: Any) -> list[bytes | None]:
        """Returns the bytes of several keys."""
        return [self.get(key) for key in keys]

    def exists(self, key: RedisKey) -> bool:
        """Returns whether there are bytes for a key."""
        return bool(self._client.exists(key.name))

    def evict(self, key: RedisKey) -> None:
        """Deletes the bytes of a key."""
        self._client.delete(key.name)

    def close(self, clear: bool = False) -> None:
        """Closes the connection; with ``clear`` it first deletes all that any process stored under the prefix."""
        if clear:
            for name in self._client.scan_iter(f"{self._prefix}:*", count=1_000):
                self._client.delete(name)
        self._client.close()

    def config(self) -> dict[str, Any]:
        """Returns the configuration from which another process makes an equal connector."""
        return {"url": self._url, "prefix": self._prefix}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> PrefixedRedis:
        """Makes a connector from a configuration."""
        return cls(**config)


def _connected(url: str, prefix: str) -> PrefixedRedis:
    try:
        connector = PrefixedRedis(url, prefix)
        connector._client.ping()
    except ModuleNotFoundError as error:
        raise BenchError("transformer.connector: pip install redis") from error
    except Exception as error:
        raise BenchError(f"transformer.url: no Redis at {url}: {error}") from error
    return connector
