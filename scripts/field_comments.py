"""An extension of Griffe that adds the documented fields of a class to the docstring of the class.

A comment that begins with ``#:`` documents a field. `griffe_sphinx` reads these comments, and this extension turns them
into one list: a heading for each field would make pages of dozens of headings.
"""

from __future__ import annotations

from typing import Any

import griffe


class FieldComments(griffe.Extension):
    """An extension that lists the documented public fields of each class."""

    def on_class(self, *, cls: griffe.Class, **_context: Any) -> None:
        """Moves the documentation of a class's fields into the docstring of the class."""
        if cls.docstring is None:
            return
        lines = []
        for name, member in cls.members.items():
            is_field = member.is_attribute and "property" not in member.labels
            if is_field and not name.startswith("_") and member.docstring is not None:
                text = " ".join(member.docstring.value.split())
                lines.append(f":var {name}: {text}")
                member.docstring = None
        if lines:
            cls.docstring.value += "\n\n" + "\n".join(lines)
