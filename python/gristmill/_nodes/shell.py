"""Command lines for the shells that start agents on nodes.

The login shell of a host may be any: ``sshd`` hands it the command. A batch system's launcher may put words before the
command.
"""

from __future__ import annotations

import re
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

#: Commands of words that no shell changes.
_PLAIN = re.compile(r"[A-Za-z0-9 _@+:,./-]+")
#: The characters that no shell changes between single quotes, nor ``sh`` between double quotes in them.
_UNCHANGED = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 _@%+=:,./-;<>&|()[]{}*?#~^"
)
#: The descriptor of the standard input while other commands run. Scripts use 3 and 9 most.
_KEPT = 8
#: A command that stands for another while a launcher's text is examined.
_STAND_IN = "gristmill-command"


def for_any_shell(script: str) -> str:
    """Returns a command that any login shell runs as this script of ``sh``: those like ``sh``, ``csh`` and ``fish``.

    Their rules for quotes differ: ``csh`` gives lines and exclamation marks another meaning, and ``fish`` backslashes.
    So all such characters are octal numbers, which ``printf`` decodes.
    """
    if _PLAIN.fullmatch(script):
        return script
    text = "".join(
        chr(byte) if byte in _UNCHANGED else f"\\0{byte:03o}" for byte in script.encode()
    )
    return f"""exec sh -c 'eval "$(printf %b "{text}")"'"""


def after(commands: str, program: Sequence[str]) -> str:
    """Returns a script of ``sh`` that runs commands in a login shell and becomes a program there.

    The standard input is the program's: commands such as ``ssh`` and ``mpiexec`` would read what the program is sent.
    The files that a login shell runs at its start read nothing either.
    """
    if not commands:
        return f"exec {shlex.join(program)}"
    # On a line of its own: the commands may end with a comment.
    script = f"{commands}\nexec {shlex.join(program)} <&{_KEPT} {_KEPT}<&-"
    # A login shell sets up what sites put there: modules, environments.
    return f"exec bash -lc {shlex.quote(script)} {_KEPT}<&0 </dev/null"


def puts_words_before(launcher: Any) -> bool:
    """Returns whether a launcher of Parsl puts words before the command on its line, as one for containers does."""
    try:
        lines = str(launcher(_STAND_IN, 1, 1)).splitlines()
    except Exception:  # the provider calls it in its own way
        return False
    return any(line.partition(_STAND_IN)[0].strip() for line in lines if _STAND_IN in line)


class ExportingLauncher:
    """A launcher whose text begins with an environment variable's export.

    :param launcher: the launcher.
    :param export: a line that exports the variable.
    """

    def __init__(self, launcher: Any, export: str) -> None:
        self.launcher = launcher
        self._export = export

    def __call__(self, *arguments: Any, **named: Any) -> str:
        """Returns the launcher's text after the export."""
        return f"{self._export}\n{self.launcher(*arguments, **named)}"

    def __repr__(self) -> str:
        # The value may be a secret.
        return repr(self.launcher)
