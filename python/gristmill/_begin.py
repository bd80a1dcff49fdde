"""The script that an interpreter started by ``_starting`` runs first. It runs the module that its arguments name.

It is a file, because Python puts the folder of a file on ``sys.path``, but the working directory for ``-c`` and ``-m``;
newer versions import modules from there before they run any code of these options.
"""

import os
import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]
    sys.path[:] = [entry for entry in sys.path if os.path.isabs(entry)]
    # The folder that contains this package can contain modules of any name. So it precedes the standard library only
    # while the package itself is imported, which needs no module but this one.
    import __future__  # noqa: F401

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path.insert(0, folder)
    import gristmill  # noqa: F401

    del sys.path[0]
    if folder not in sys.path:
        sys.path.append(folder)

    from gristmill import _starting

    _starting.run()
