"""The style of all HTML reports. Each report contains it, because none may load anything."""

from importlib import resources


def style() -> str:
    """Returns the style sheet."""
    return resources.files("gristmill").joinpath("page.css").read_text("utf-8")
