"""The counts of an executor, and its nodes: ``Executor.stats`` and ``Executor.nodes``."""

from __future__ import annotations

import dataclasses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stats:
    """Counts of an executor since its start, and of the tasks that are outstanding now. All are 0 before the start."""

    #: Tasks that were accepted.
    submitted: int = 0
    #: Tasks without a final state.
    outstanding: int = 0
    #: Outstanding tasks that wait for a worker.
    ready: int = 0
    #: Outstanding tasks that wait for other tasks.
    blocked: int = 0
    #: Outstanding tasks that are with a worker or a node.
    in_flight: int = 0

    #: Tasks that returned a value.
    succeeded: int = 0
    #: Tasks that raised.
    failed: int = 0
    #: Tasks that were cancelled.
    cancelled: int = 0
    #: Tasks that ran out of time.
    timed_out: int = 0
    #: Tasks that did not run because a task among their arguments failed.
    dependency_failed: int = 0
    #: Tasks whose worker died.
    lost: int = 0
    #: Tasks that failed for reasons of the engine: no worker could start, or the executor or its lease was over.
    refused: int = 0

    #: Further attempts of tasks that raised.
    retries: int = 0
    #: Further attempts of tasks whose worker died.
    loss_retries: int = 0
    #: Further attempts of tasks that ran out of time.
    timeout_retries: int = 0

    #: Workers that died.
    workers_lost: int = 0
    #: Workers that the engine killed.
    workers_killed: int = 0
    #: Workers that could not start.
    start_failures: int = 0

    #: Runs of tasks on a worker that polled for tasks or ran one.
    hot: int = 0
    #: Runs of tasks on a worker that slept.
    warm: int = 0
    #: Runs of tasks on a worker that had not started yet.
    cold: int = 0
    #: Run time of all tasks together, nanoseconds.
    busy_ns: int = 0

    #: Tasks that came back unstarted from a lost worker.
    replaced: int = 0
    #: Tasks that were moved to another worker before they started.
    stolen: int = 0
    #: Answers of attempts that the engine had given up.
    stale_answers: int = 0

    #: Bytes of large arguments on nodes: of all calls that name them.
    blob_bytes_named: int = 0
    #: Bytes of large arguments that this program sent to nodes.
    blob_bytes_given: int = 0
    #: Bytes of large arguments that nodes received from nodes.
    blob_bytes_fetched: int = 0
    #: Bytes of large arguments that nodes sent to nodes.
    blob_bytes_passed_on: int = 0
    #: Bytes of large arguments that were not sent because the node had them.
    blob_bytes_saved: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Node:
    """A node of an executor, as its last heartbeat described it."""

    #: The name, which its agent chose.
    name: str
    #: The labels that its owner gave it (``gristmill node --label``).
    labels: Mapping[str, str]
    #: True if there is a connection now.
    connected: bool
    #: True if the node gets no tasks for a while because its workers died again and again.
    distrusted: bool
    #: The shortest time from a heartbeat to its echo, seconds; ``None`` if it is not known yet.
    round_trip_s: float | None
    #: Workers that are up.
    workers: int
    #: Workers that the node granted.
    granted_workers: int
    #: Memory that the node granted, bytes.
    memory: int
    #: Tasks that wait there for a worker.
    waiting: int
    #: Tasks that its workers have.
    running: int
    #: Run time of all tasks there together, seconds.
    busy_s: float
    #: Time since the node joined, seconds.
    up_s: float
    #: Time until the node leaves, seconds; ``None`` if it has no end that is known.
    ends_in_s: float | None
    #: Bytes that were sent over the current connection.
    sent_bytes: int
    #: Bytes that were received over the current connection.
    received_bytes: int
    #: Bytes of large arguments in calls on this node.
    blob_bytes_named: int
    #: Bytes of large arguments that this program sent to the node.
    blob_bytes_given: int
    #: Bytes of large arguments that the node received from other nodes.
    blob_bytes_fetched: int
    #: Bytes of large arguments that the node sent to other nodes.
    blob_bytes_passed_on: int
    #: Bytes of large arguments that were not sent because the node had them.
    blob_bytes_saved: int
