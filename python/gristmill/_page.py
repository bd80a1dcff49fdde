"""The style that all reports in HTML share: it is set into each of them, as none may load anything."""

from importlib import resources


def style() -> str:
    """The style sheet."""
    return resources.files("gristmill").joinpath("page.css").read_text("utf-8")
