"""A profile, or the timings of a run, as one self-contained HTML file.

The file loads nothing: styles and charts are inside, and it contains no address. Every text that comes from a run is
escaped.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from string import Template

from gristmill import _page
from gristmill._profile import charts, timings
from gristmill._profile.categories import CATEGORIES, MEANINGS
from gristmill._profile.collector import Comparison
from gristmill._profile.findings import Findings
from gristmill._profile.rows import Row

#: The number of functions that are listed for each kind of process.
_FUNCTIONS = 5
#: The names of categories that are broken into two lines.
_BROKEN = {"standard library": "standard<br>library", "serialization": "serial-<br>ization"}


def of_profile(found: Findings) -> str:
    """Returns the report of a profile."""
    seen = found.seen
    processes = {process for row in found.rows for process, _ in row.members}
    threads = sum(row.threads for row in found.rows)
    sections = [_categories(found.rows), _details(found), _functions(found.rows)]
    sections += [_garbage(found), "" if found.timings is None else _timings(found.timings)]
    figures = [
        (f"{seen.seconds:.2f} s", "whole run"),
        (f"{len(processes)}", "processes"),
        (f"{threads}", "threads"),
        (f"{sum(row.cpu_s for row in found.rows):.2f} s", "processor time"),
    ]
    summary = (
        f"{shlex.join(found.program)} ended with {seen.status}. Each Python thread was sampled "
        f"{found.looking.rate} times a second."
    )
    return _page_of(
        "Profile",
        summary,
        figures,
        "".join(sections),
        found.command,
        timings.machine(),
        found.notes,
    )


def of_timings(recorded: timings.Recorded) -> str:
    """Returns the report of the timings of a run."""
    figures = [
        (f"{recorded.submitted:,}", "tasks"),
        (f"{len(recorded.timings):,}", "of them traced"),
    ]
    summary = "Where the time of tasks went, from their submission until the program received their results."
    return _page_of(
        "Trace", summary, figures, _timings(recorded), recorded.command, recorded.machine, []
    )


def _page_of(
    title: str,
    summary: str,
    figures: Sequence[tuple[str, str]],
    sections: str,
    command: Sequence[str],
    machine: dict[str, str],
    notes: Sequence[str],
) -> str:
    template = resources.files("gristmill._profile").joinpath("page.html").read_text("utf-8")
    items = "".join(f"<li><b>{escape(a)}</b><span>{escape(b)}</span></li>" for a, b in figures)
    run = {"Command": shlex.join(command), **machine}
    if notes:
        run["Notes"] = " ".join(notes)
    return Template(template).substitute(
        title=escape(title),
        style=_page.style(),
        summary=escape(summary),
        figures=items,
        sections=sections,
        run="".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in run.items()),
    )


def _categories(rows: Sequence[Row]) -> str:
    items = "".join(
        f"<li><svg viewBox='0 0 12 12'><rect class='c{place}' width='12' height='12'/></svg>"
        f"<b>{category}</b> <span>{escape(MEANINGS[category])}</span></li>"
        for place, category in enumerate(CATEGORIES)
    )
    return (
        "<h2>Where the time of each thread went</h2>"
        "<p class='soft'>Each bar is all the time of a thread, whether it ran or slept. Threads of one name in"
        " processes of one kind are one bar.</p>"
        f"<figure class='wide'>{charts.bars(rows)}</figure><ul class='key'>{items}</ul>"
    )


def _details(found: Findings) -> str:
    body = []
    for row in found.rows:
        lock = row.interpreter_share
        cells = [
            f"{lock:.0%}" if lock else "",
            f"{row.cpu_s:.2f}",
            f"{row.threads}",
            f"{row.samples:,}",
            *(f"{row.share(one):.0%}" if row.share(one) else "" for one in CATEGORIES),
        ]
        source = "" if row.has_stacks else " title='no Python: by what the kernel says'"
        mark = "" if row.has_stacks else " *"
        body.append(
            f"<tr><td class='name'>{escape(row.process)}</td>"
            f"<td class='name'{source}>{escape(row.thread)}{mark}</td>{_numbers(cells)}</tr>"
        )
    heads = ["waits for<br>interpreter", "processor<br>s", "threads", "looks"]
    heads += [_BROKEN.get(one, one) for one in CATEGORIES]
    return (
        f"<div class='scroll'><table class='close'><thead><tr><th>process</th><th>thread</th>"
        f"{_heads(heads)}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
        "<p class='soft'>* runs no Python code, or too little: its time is divided by the "
        "system calls that it slept in. Waiting for"
        " the interpreter's lock is a part of <i>semaphore</i>, or of the category of the next function.</p>"
    )


def _functions(rows: Sequence[Row]) -> str:
    body = []
    for row in rows:
        for frame, count in row.functions.most_common(_FUNCTIONS):
            share = count / row.samples
            if share < 0.01:
                continue
            body.append(
                f"<tr><td class='name'>{escape(row.process)}</td><td class='name'>{escape(row.thread)}</td>"
                f"{_numbers([f'{share:.0%}'])}<td><code>{escape(frame.function)}</code>"
                f"<small>{escape(frame.file)}</small></td></tr>"
            )
    if not body:
        return ""
    return (
        "<h2>Functions that were innermost</h2><p class='soft'>Functions of Python, including "
        "the time of the native code that they called.</p>"
        "<div class='scroll'><table class='close'><thead><tr><th>process</th><th>thread</th>"
        f"{_heads(['time'])}<th>function</th></tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _garbage(found: Findings) -> str:
    if found.seen.notes is None:
        return ""
    garbage = found.seen.notes["garbage"]
    rows = []
    for number, one in enumerate(garbage["generations"]):
        share = one["seconds"] / max(garbage["seconds"], 1e-9)
        cells = [f"{one['collections']:,}", f"{one['seconds'] * 1e3:,.2f}", f"{share:.2%}"]
        rows.append(
            f"<tr><td>{number}</td>{_numbers([*cells, format(one['collected'], ',')])}</tr>"
        )
    heads = ["collections", "ms", "of the run", "objects that were garbage"]
    state = "on" if garbage["enabled"] else "off"
    return (
        "<h2>Objects and collections of garbage</h2>"
        f"<p class='soft'>Of the program's own process; its collector was {state}"
        f" (thresholds {', '.join(map(str, garbage['thresholds']))}).</p>"
        f"<figure class='wide'>{charts.objects(garbage['counts'])}"
        "<figcaption>Objects that the collector tracks, over time.</figcaption></figure>"
        f"<table><thead><tr><th>generation</th>{_heads(heads)}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        + ("" if found.comparison is None else _comparison(found.comparison))
    )


def _comparison(comparison: Comparison) -> str:
    rows = "".join(
        f"<tr><td>{name}</td>"
        + _numbers([f"{one.value:.3f}", f"{one.low:.3f} to {one.high:.3f}", f"{one.samples}"])
        + "</tr>"
        for name, one in (("on", comparison.collecting), ("off", comparison.not_collecting))
    )
    return (
        "<h3>With and without the collector</h3>"
        "<p class='soft'>Whole runs of the program, without a profiler, in turns: off takes"
        f" {comparison.ratio:.3f} of on.</p>"
        f"<table><thead><tr><th>collector</th>{_heads(['median s', 'range', 'runs'])}</tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _timings(recorded: timings.Recorded) -> str:
    found = timings.hops(recorded.timings)
    if not found:
        return "<h2>Where the time of tasks went</h2><p>No task of Gristmill was traced.</p>"
    body = "".join(
        f"<tr><td>{escape(hop.name)}</td>"
        + _numbers(
            [
                f"{hop.median / 1e3:,.2f}",
                f"{hop.p95 / 1e3:,.2f}",
                f"{hop.mean / 1e3:,.2f}",
                f"{hop.share:.1%}",
            ]
        )
        + "</tr>"
        for hop in found
    )
    heads = ["median<br>µs", "95th percentile<br>µs", "mean<br>µs", "share of<br>all time"]
    return (
        "<h2>Where the time of tasks went</h2>"
        f"<p class='soft'>{recorded.submitted:,} tasks, {len(recorded.timings):,} of them traced.</p>"
        f"<figure class='wide'>{charts.hops(found)}<figcaption>From the median, the dot, to the 95th percentile; the"
        " axis is logarithmic.</figcaption></figure>"
        f"<table><thead><tr><th>component</th>{_heads(heads)}</tr></thead><tbody>{body}</tbody></table>"
    )


def _heads(texts: Iterable[str]) -> str:
    return "".join(f"<th class='number'>{text}</th>" for text in texts)


def _numbers(texts: Iterable[str]) -> str:
    return "".join(f"<td class='number'>{escape(text)}</td>" for text in texts)
