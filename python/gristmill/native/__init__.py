"""Functions of shared libraries, written in C, C++, Rust or Fortran, as functions of tasks.

```python
library = gristmill.native.Library("libkernels.so")
with gristmill.Executor() as executor:
    output = executor.submit(library["f"], b"input").result()
```

The library's bytes travel to a worker once, so it needs no file. It loads them from memory, and calls the functions
without the interpreter's lock.
"""

from __future__ import annotations

from gristmill._errors import LibraryError, NativeError
from gristmill.native._declared import DeclaredFunction, In, InOut, Out
from gristmill.native._functions import Function
from gristmill.native._kept import Kept
from gristmill.native._library import Library, include

__all__ = [
    "DeclaredFunction",
    "Function",
    "In",
    "InOut",
    "Kept",
    "Library",
    "LibraryError",
    "NativeError",
    "Out",
    "include",
]
