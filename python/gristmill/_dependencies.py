"""Objects that functions share, such as libraries: each travels once, and functions name it by a digest of its bytes.

The definition of such an object is ``L``, its digest, and a pickle. A function that needs some begins with ``D``, their
number as two bytes, and their digests; its own definition follows. The engine reads these heads: it sends a worker what
a function needs before the function (``DefinitionHead`` in the crate ``wire``).
"""

from __future__ import annotations

import operator
import weakref
from weakref import WeakValueDictionary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

DIGEST_SIZE = 32
_COUNT_SIZE = 2
#: Objects that one function may need. Their records must fit into a worker's ring together.
_NEEDS_MAX = 256
#: Functions that an object is kept in mind for, as an argument of their calls.
_STANDING_MAX = 16


class Dependency:
    """Base class of objects that functions share. What such an object is pickled as never changes."""

    #: Name for messages.
    name: str
    #: Digest of its bytes, once it has been pickled.
    _digest: bytes | None = None
    #: Other objects that it names by digest.
    _needs: tuple[Dependency, ...] = ()
    #: The definition that was made with the digest, until it is asked for.
    _definition: bytes | None = None
    #: Callables that stand for functions in calls that need it and maybe others, the last used one at the end.
    _needing: dict[tuple[int, ...], Needing] | None = None

    def reduced(self) -> tuple[Any, ...]:
        """Returns what it is pickled as. Equal ones have equal pickles: no string in it can be shared with another."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Prepares it for the first call of a function that needs it, in a worker."""

    def digest(self) -> bytes:
        """Returns the digest by which functions name it. Raises ``UnpicklableError``."""
        if self._digest is None:
            self._definition = self._define()
        return self._digest or b""

    def definition(self) -> bytes:
        """Returns its definition, which is not kept here. Raises ``UnpicklableError``."""
        made, self._definition = self._definition, None
        return self._define() if made is None else made

    def _define(self) -> bytes:
        from gristmill import _native, _pickling

        needs: list[Dependency] = []
        pickled = _pickling.dump_dependency(self, needs)
        digest = _native.content_digest(pickled)
        self._needs = tuple(needs)
        self._digest = digest
        return b"".join((b"L", digest, pickled))


#: Objects that arrived in this worker, by digest. The worker's function table keeps it alive.
_arrived: WeakValueDictionary[bytes, Dependency] = WeakValueDictionary()


def load(definition: bytes) -> Dependency:
    """Makes the object of a definition, which functions name from now on."""
    from gristmill import _unpickling

    digest = definition[1 : 1 + DIGEST_SIZE]
    loaded: Dependency = _unpickling.load(memoryview(definition)[1 + DIGEST_SIZE :], {})
    _arrived[digest] = loaded
    return loaded


def arrived(digest: bytes) -> Dependency:
    """Returns an object that another one names, in the worker that has got both."""
    try:
        return _arrived[digest]
    except KeyError:
        from gristmill._errors import LibraryError

        text = f"the engine sent no library {digest[:8].hex()}, which a function needs"
        raise LibraryError(text) from None


def prepared(digest: bytes) -> Dependency:
    """Returns an object that a function names, ready for its calls."""
    found = arrived(digest)
    found.prepare()
    return found


class Needing:
    """A wrapper of a function, for calls whose arguments need something. A worker gets the function."""

    def __init__(self, function: Any, needs: Sequence[Dependency]) -> None:
        # It keeps nothing alive: the first of the objects has it, and functions may capture that.
        self._needs = [weakref.ref(one) for one in needs]
        self._function: Callable[[], Any]
        try:
            self._function = weakref.ref(function)
        except TypeError:
            self._function = lambda: function
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self.__qualname__ = name if isinstance(name, str) else type(function).__qualname__

    def parts(self) -> list[Any]:
        """Returns the function and the objects that its calls need; ``None`` for one that is gone."""
        return [self._function(), *(one() for one in self._needs)]

    def __call__(self) -> None:
        raise TypeError("a wrapper of a function is in no definition")

    def __reduce__(self) -> tuple[Any, ...]:
        return _first, tuple(self.parts())

    def _unchanging_parts(self) -> tuple[Any, ...]:
        return (self._function(),)


def _first(function: Any, *_: Any) -> Any:
    return function


def needing(function: Any, needs: Sequence[Dependency]) -> Needing:
    """Returns the wrapper of a function for calls whose arguments need these objects."""
    first = needs[0]
    key = (id(function), *map(id, needs))
    if first._needing is None:
        first._needing = {}
    found = first._needing.pop(key, None)
    # An address may be that of another object now.
    parts = () if found is None else found.parts()
    if found is None or any(map(operator.is_not, parts, (function, *needs))):
        found = Needing(function, needs)
    first._needing[key] = found
    while len(first._needing) > _STANDING_MAX:
        del first._needing[next(iter(first._needing))]
    return found


def head(needs: Sequence[Dependency]) -> bytes:
    """Returns the head of the definition of a function that needs some objects. Raises ``ValueError`` for too many."""
    if len(needs) > _NEEDS_MAX:
        raise ValueError(f"a function needs {len(needs)} libraries, more than {_NEEDS_MAX}")
    digests = b"".join(one.digest() for one in needs)
    return b"D" + len(needs).to_bytes(_COUNT_SIZE, "little") + digests


def without_head(definition: bytes) -> bytes:
    """Returns the own definition of a function that needs some objects."""
    count = int.from_bytes(definition[1 : 1 + _COUNT_SIZE], "little")
    return definition[1 + _COUNT_SIZE + count * DIGEST_SIZE :]


def ordered(found: Sequence[Dependency]) -> list[Dependency]:
    """Returns objects and all that they need, each once and behind what it needs."""
    known: dict[int, Dependency] = {}

    def walk(one: Dependency) -> Iterator[Dependency]:
        for needed in one._needs:
            yield from walk(needed)
        yield one

    for one in found:
        for each in walk(one):
            known.setdefault(id(each), each)
    return list(known.values())
