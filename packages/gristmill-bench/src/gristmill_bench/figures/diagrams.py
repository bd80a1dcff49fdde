"""Diagrams: the path of a task through components, drawn by matplotlib as boxes with arrows between them."""

from __future__ import annotations

from typing import Any

from gristmill_bench.figures.data import Data, Place


def line_count(data: Data) -> int:
    """Returns the number of text lines that the longest column needs."""
    return max(_end(_boxes(list(data.of(name)))) for name in data.series()) + 1


def _boxes(places: list[Place]) -> list[tuple[str, list[Place]]]:
    """Returns the boxes of a column: consecutive steps of one component together, arrows alone and unnamed."""
    found: list[tuple[str, list[Place]]] = []
    for place in places:
        component = str(place).partition(": ")[0] if ": " in str(place) else ""
        if found and component and found[-1][0] == component:
            found[-1][1].append(place)
        else:
            found.append((component, [place]))
    return found


def _end(boxes: list[tuple[str, list[Place]]]) -> int:
    """Returns the lines of a column: a box has its component's name and its steps, an arrow the room of two lines."""
    return sum(len(steps) + 2 if component else 2 for component, steps in boxes)


def draw(area: Any, data: Data) -> None:
    """Draws boxes from top to bottom, with arrows between them, and the median of each step."""
    most = 0
    for number, name in enumerate(data.series()):
        # The column is as wide as the text beside an arrow.
        column = 1.5 * number
        found, line = data.of(name), 1.5
        area.text(column, 0.5, name, ha="center", va="center", weight="bold")
        for component, steps in _boxes(list(found)):
            if component:
                texts = [
                    f"{str(one).partition(': ')[2]}  {_time(found[one].value)}" for one in steps
                ]
                text, middle = "\n".join([component, *texts]), line + (len(texts) + 1) / 2
                frame = {"boxstyle": "round", "facecolor": "C0", "alpha": 0.2}
                area.text(
                    column, middle, text, ha="center", va="center", fontsize="small", bbox=frame
                )
                line += len(texts) + 2
            else:
                ends = {"xy": (column, line + 1.1), "xytext": (column, line - 0.9)}
                area.annotate("", **ends, arrowprops={"arrowstyle": "->"})
                text = f"  {steps[0]}  {_time(found[steps[0]].value)}"
                area.text(column, line + 0.1, text, va="center", fontsize="small")
                line += 2
        most = max(most, round(line))
    area.set_xlim(-0.5, 1.5 * len(data.series()) - 0.5)
    area.set_ylim(most, 0)
    area.set_axis_off()


def _time(microseconds: float) -> str:
    return f"{microseconds:,.0f} us" if microseconds >= 10 else f"{microseconds:.2g} us"
