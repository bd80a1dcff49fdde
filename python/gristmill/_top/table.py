"""Lines that describe a program between two looks at it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Counters of tasks that have ended, by how they ended.
_ENDS = ("succeeded", "failed", "cancelled", "timed_out", "dependency_failed", "lost", "refused")
_HEAD = (
    f"{'node':<20} {'state':<10} {'workers':>7} {'running':>8} {'waiting':>8} {'busy':>6} {'rtt':>9} "
    f"{'sent/s':>9} {'recv/s':>9} {'fetched/s':>9}"
)
_CONTEXTS_HEAD = (
    f"{'context':<20} {'workers':>7} {'running':>8} {'waiting':>8} {'calls':>12} {'calls/s':>9} {'setups':>7} "
    f"{'memory':>9}"
)


def lines(before: dict[str, Any], now: dict[str, Any], seconds: float) -> list[str]:
    """Returns the lines about what a program did between two looks that are ``seconds`` apart."""
    stats = now["stats"]
    done = {name: stats.get(name, 0) - before["stats"].get(name, 0) for name in _ENDS}
    rate = sum(done.values()) / seconds
    made = [
        f"{now['program'][:80]}  (process {now['pid']}, executor {now['executor']})",
        f"  {_short(rate)} tasks/s   outstanding {stats['outstanding']:,}: ready {stats['ready']:,}, with workers "
        f"{stats['in_flight']:,}, waiting for others {stats['blocked']:,}",
        "  ended: "
        + ", ".join(
            f"{name.replace('_', ' ')} {stats[name]:,}" for name in _ENDS if stats.get(name)
        ),
    ]
    if now["is_local"]:
        made.append("  " + _workers(before, now, seconds))
    else:
        made.append("  " + _HEAD)
    earlier = {node["name"]: node for node in before["nodes"]}
    for node in now["nodes"]:
        made.append("  " + _node(earlier.get(node["name"], node), node, seconds))
    if now["contexts"]:
        made.append("  " + _CONTEXTS_HEAD)
    contexts = {one["key"]: one for one in before["contexts"]}
    for one in now["contexts"]:
        made.append("  " + _context(contexts.get(one["key"], one), one, seconds))
    made += [f"  {whom}: {text}" for whom, text in now["failures"]]
    return [_printable(line) for line in made]


def _printable(line: str) -> str:
    """Returns a line without characters that control a terminal: it has words of programs, nodes and batch systems."""
    return "".join(
        one if one.isprintable() else " " if one.isspace() else "\N{REPLACEMENT CHARACTER}"
        for one in line
    )


def _workers(before: dict[str, Any], now: dict[str, Any], seconds: float) -> str:
    """Describes the workers of this machine, and the part of the time in which they ran tasks."""
    spent_s = (now["stats"]["busy_ns"] - before["stats"]["busy_ns"]) / 1e9
    busy = _busy(spent_s, seconds, now["workers"])
    return f"workers here {now['workers']:,}, busy {busy:.0%}"


def _busy(spent_s: float, seconds: float, workers: int) -> float:
    """Returns the part of the time in which workers ran tasks, between 0 and 9.99: a column is six characters wide.

    It would be negative for a node whose agent started again, because its counter starts again too.
    """
    return min(max(spent_s / seconds / max(1, workers), 0), 9.99)


def _node(before: dict[str, Any], node: dict[str, Any], seconds: float) -> str:
    state = "connected" if node["connected"] else "parted"
    busy = _busy(node["busy_s"] - before["busy_s"], seconds, node["workers"])
    trip = node["round_trip_s"]
    sent, received = (
        _short(max(0, node[name] - before[name]) / seconds)
        for name in ("sent_bytes", "received_bytes")
    )
    fetched = node["blob_bytes_fetched"] - before["blob_bytes_fetched"]
    return (
        f"{node['name'][:20]:<20} {state:<10} {node['workers']:>7} {node['running']:>8} {node['waiting']:>8} "
        f"{busy:>6.0%} {'-' if trip is None else f'{trip * 1e3:.2f} ms':>9} {sent:>9} {received:>9} "
        f"{_short(max(0, fetched) / seconds):>9}{_labels(node)}"
    )


def _context(before: dict[str, Any], one: dict[str, Any], seconds: float) -> str:
    rate = max(0, one["calls"] - before["calls"]) / seconds
    failed = "" if one["failure"] is None else "   failed: " + one["failure"].partition("\n")[0]
    return (
        f"{one['name'][:20]:<20} {one['workers']:>7} {one['running']:>8} {one['waiting']:>8} {one['calls']:>12,} "
        f"{_short(rate):>9} {one['setups']:>7} {_short(one['memory']):>9}{failed}"
    )


def _labels(node: dict[str, Any]) -> str:
    """Returns the labels that a node's owner gave it."""
    labels = [f"{name}={value}" for name, value in node.get("labels", {}).items()]
    return f"   {', '.join(labels)}" if labels else ""


def _short(number: float) -> str:
    """Returns a number with three significant digits and a letter for its size."""
    for letter, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:.3g}"
