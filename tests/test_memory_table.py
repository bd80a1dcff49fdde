"""Each row of the tables of the page about memory has a test that fills its bound, and the page has no other rows."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gristmill import Executor, _module_graph
from test_functions import resident_kib

import calls
from written import Folder

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "memory.md"

#: Tests by the first words of the rows that they fill.
TESTS = {
    "The [arena]": "tests/test_spill.py::test_arguments_of_waiting_tasks_go_to_disk_and_arrive_unchanged",
    "Values on disk.": "tests/test_spill.py::test_more_on_disk_than_may_be_is_an_error",
    "Freed parts of the arena": "crates/shm/tests/arena.rs::freed_pages_are_bounded_and_go_without_requests",
    "Arguments of waiting tasks outside": (
        "tests/test_spill.py::test_small_arguments_of_waiting_tasks_have_a_bound_in_bytes"
    ),
    "Results of 1 to 32 KiB": (
        "tests/test_result_memory.py::test_results_that_were_not_fetched_go_to_disk_and_come_back"
    ),
    "Results below 1 KiB.": "tests/test_memory_table.py::test_small_results_go_with_their_futures",
    "Outstanding tasks.": "tests/test_memory.py::test_the_default_limit_of_tasks_follows_the_memory_of_the_group",
    "What a [`map`]": "tests/test_map_memory.py::test_a_map_holds_an_eighth_of_the_memory_of_a_group",
    "Addresses of large arguments": (
        "crates/native/src/arena.rs::addresses_of_stored_arguments_are_bounded_in_number"
    ),
    "Large arguments of calls that tasks submit": (
        "tests/test_spill.py::test_30_calls_of_a_task_with_40_mb_pass_through_a_group_of_400_mb"
    ),
    "What a `map` inside a task": "tests/test_map_memory.py::test_a_map_in_a_task_reads_a_bounded_number_of_bytes_ahead",
    "Results below 32 KiB of a task's own tasks.": "tests/test_nested.py::test_results_go_with_their_futures",
    "Messages to a busy task": (
        "tests/test_result_memory.py::test_400_mb_of_results_for_a_busy_task_fit_into_a_group_of_300_mb"
    ),
    "[Contexts]": (
        "tests/context/test_contexts.py::test_where_memory_is_short_the_context_goes_that_was_used_longest_ago"
    ),
    "Definitions of functions that your program": (
        "tests/test_function_memory.py::test_definitions_of_large_functions_take_bounded_memory"
    ),
    "Functions with captured values": "tests/test_function_memory.py::test_workers_let_go_of_what_functions_captured",
    "Definitions of functions that one peer": (
        "crates/client/src/peers/peer_functions.rs::what_replaces_another_definition_counts_in_its_place"
    ),
    "Data that workers [keep]": "tests/test_native_kept.py::test_the_buffers_of_a_program_have_a_bound_in_bytes",
    "Definitions of functions that the tasks": (
        "crates/client/src/workerless/worker.rs::the_functions_of_a_worker_take_no_more_than_they_may"
    ),
    "Functions whose definitions were refused": (
        "crates/client/src/peers/refusals.rs::"
        "what_is_remembered_is_bounded_and_a_forgotten_function_has_a_reason"
    ),
    "Names of functions": "crates/client/src/functions.rs::of_a_long_name_only_the_beginning_is_kept",
    "Definitions of contexts": (
        "crates/client/src/workerless/worker.rs::the_contexts_of_a_worker_take_no_more_than_they_may"
    ),
    "Modules that functions lead to": (
        "tests/test_memory_table.py::test_closures_of_modules_are_bounded_in_number"
    ),
    "Rings to and from a worker.": (
        "crates/shm/tests/ring.rs::a_full_ring_says_how_much_is_free_and_takes_records_again"
    ),
    "Messages to a node": "crates/client/src/peers/backlog.rs::who_reads_nothing_is_given_up_after_a_while",
    "Answers to requests": (
        "crates/client/src/peers/breaches.rs::a_node_that_has_words_answered_and_reads_none_is_given_up"
    ),
    "Parts of a message": (
        "crates/transport/tests/damage.rs::"
        "an_envelope_that_announces_too_much_is_refused_and_nothing_behind_it_is_read"
    ),
    "Values that travel": (
        "crates/client/src/peers/breaches.rs::a_result_that_is_too_large_fails_its_task_and_its_node_goes_on"
    ),
    "The environment of workers that nodes": (
        "tests/nodes/test_final_failures.py::"
        "test_an_initializer_that_is_too_large_for_nodes_fails_every_task_at_once"
    ),
    "Messages that have not come": (
        "crates/client/src/peers/breaches.rs::incomplete_messages_of_all_nodes_have_one_limit"
    ),
    "Large arguments and results on a node.": (
        "tests/nodes/test_blobs.py::test_what_is_above_the_limit_goes_to_disk_and_comes_back"
    ),
    "Errors of workers' environments": "crates/agent/src/start_failures.rs::the_oldest_orders_are_forgotten",
    "Standard error of workers": "crates/keeper/tests/life.rs::a_client_that_does_not_read_standard_error_still_hears_of_exits",
    "`gristmill trace`": "tests/test_trace.py::test_a_sample_is_bounded_and_reaches_late_tasks",
    "`gristmill profile`": (
        "tests/profile/test_profile_kernel.py::test_a_timeline_that_is_full_ends_and_does_not_go_on_in_its_last_state"
    ),
    "`gristmill top`": "tests/nodes/test_top.py::test_only_answers_are_shown",
    "Messages, notes and tracebacks": "tests/test_error_paths.py::test_notes_are_bounded_and_say_how_many_are_left_out",
    "Handshakes that have not ended.": "crates/transport/tests/security.rs::handshakes_are_bounded",
    "Handshakes with one host, ": "crates/transport/tests/security.rs::one_host_does_not_keep_others_out",
    "Connections that have proved": (
        "crates/client/src/peers/handshake_server.rs::proved_connections_without_a_lease_are_bounded"
    ),
    "Jobs of a batch system": (
        "tests/nodes/test_batch_answers.py::test_blocks_that_have_ended_are_remembered_in_a_bounded_number"
    ),
    "Texts from other nodes": "crates/wire/src/peer/control.rs::a_text_without_end_is_cut",
    "Nodes that have left, as the program": (
        "crates/client/src/peers/connection_manager.rs::departed_nodes_are_bounded_in_number_and_in_bytes"
    ),
    "Nodes that have left, for messages": (
        "tests/nodes/test_node_events.py::test_what_is_remembered_of_departed_nodes_is_bounded"
    ),
    "Failures of nodes": "crates/client/src/peers/lease_negotiator/tests.rs::failures_are_bounded_in_bytes",
    "Nodes on which no worker starts.": (
        "crates/client/src/peers/node_failures.rs::failed_nodes_are_bounded_in_number_and_in_bytes"
    ),
    "Connections over which a node gives blobs": (
        "crates/client/src/blobs/server/sinks.rs::nodes_beyond_the_limit_are_turned_away"
    ),
    "Blobs on such a connection": (
        "crates/client/src/blobs/server/sinks.rs::a_bounded_number_of_bytes_waits_for_a_node_that_reads_nothing"
    ),
    "Tables of blobs": "crates/store/tests/store.rs::without_room_on_disk_it_is_gone",
    "Outstanding tasks that the engine does not run": (
        "tests/parsl/test_back_pressure.py::"
        "test_without_a_limit_as_many_tasks_may_be_outstanding_as_memory_has_room_for"
    ),
    "Functions that a `ParslPoolExecutor`": (
        "tests/parsl/test_apps.py::test_a_pool_keeps_few_of_the_functions_that_it_was_given"
    ),
    "Texts of failures": "tests/parsl/test_monitoring_run.py::test_a_long_failure_is_cut_in_the_middle",
    "Remembered results of 512": "tests/parsl/test_memo_memory.py::test_results_beyond_the_bound_are_on_disk",
    "Remembered results in that file": (
        "tests/parsl/test_memo_memory.py::test_results_beyond_the_room_of_their_file_are_forgotten"
    ),
    "Remembered results that cannot": (
        "tests/parsl/test_memo_memory.py::test_what_cannot_be_pickled_is_forgotten_at_the_bound"
    ),
    "Remembered calls, with": (
        "tests/parsl/test_memo_memory.py::test_calls_beyond_the_bound_of_entries_are_forgotten"
    ),
    "Remembered calls of loaded": (
        "tests/parsl/test_memo_memory.py::"
        "test_results_beyond_the_bound_of_entries_are_forgotten_while_a_file_is_loaded"
    ),
    "Remembered calls whose": (
        "tests/parsl/test_memo_memory.py::"
        "test_calls_whose_results_take_no_memory_are_forgotten_with_their_entries"
    ),
    "Calls that wait for a checkpoint.": (
        "tests/parsl/test_memo_memory.py::test_calls_that_wait_for_a_checkpoint_are_bounded"
    ),
    "Results that are pickled": (
        "tests/parsl/test_memo_memory.py::test_results_that_end_together_are_pickled_a_few_at_a_time"
    ),
    "Records that a checkpoint's journal": (
        "crates/journal/src/journal.rs::what_is_gathered_for_a_write_is_bounded"
    ),
    "Monitoring: events": (
        "tests/parsl/test_monitoring_database.py::test_who_finds_the_queue_full_waits_until_it_is_written"
    ),
    "Monitoring: calls of the engine that are": (
        "tests/parsl/test_monitoring_engine_calls.py::"
        "test_who_finds_too_many_bytes_of_calls_waits_until_they_are_written"
    ),
    "Monitoring: results": (
        "tests/parsl/test_monitoring_engine_calls.py::"
        "test_results_that_were_fetched_are_written_and_released_beyond_their_bound"
    ),
    "Monitoring: calls of the engine that have": (
        "tests/parsl/test_monitoring_engine_calls.py::"
        "test_calls_that_have_ended_do_not_gather_behind_those_that_go_on"
    ),
    "Monitoring: texts": "tests/parsl/test_monitoring_database.py::test_texts_are_handed_over_in_parts",
    "Monitoring: measured": (
        "tests/parsl/test_monitoring_resources.py::"
        "test_of_measured_functions_that_capture_values_few_are_kept"
    ),
    "Monitoring: messages": (
        "tests/parsl/test_monitoring_blocks.py::"
        "test_a_process_that_reports_too_much_waits_until_it_is_recorded"
    ),
    "Monitoring: readings": "tests/parsl/test_monitoring_resources.py::test_the_readings_of_one_call_are_bounded",
}


def _rows() -> list[list[str]]:
    """Returns the cells of the rows of all tables of the page, without the heads."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "memory for" and not set(row[0]) <= set("-:")]


def test_each_row_of_the_page_has_a_test_and_each_test_a_row() -> None:
    found = [[key for key in TESTS if row[0].startswith(key)] for row in _rows()]
    assert [row[0] for row, keys in zip(_rows(), found, strict=True) if len(keys) != 1] == []
    assert sorted(key for keys in found for key in keys) == sorted(TESTS)


def test_each_row_says_its_limit_what_happens_there_and_its_option() -> None:
    assert [row for row in _rows() if len(row) != 4 or not all(row)] == []


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
def test_the_tests_of_the_rows_exist(test: str) -> None:
    file, name = test.split("::")
    word = "def" if file.endswith(".py") else "fn"
    assert re.search(rf"^ *{word} {name}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_small_results_go_with_their_futures(make_executor: Callable[..., Executor]) -> None:
    executor = make_executor(1)
    count, size = 40_000, 900

    def fill() -> None:
        futures = [executor.submit(bytes, size) for _ in range(count)]
        assert all(future.exception() is None for future in futures)

    fill()
    gc.collect()
    before = resident_kib()
    for _ in range(4):
        fill()
    gc.collect()
    assert (resident_kib() - before) * 1024 < count * size, "less than those of one round stays"


def test_closures_of_modules_are_bounded_in_number(
    make_executor: Callable[..., Executor], folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_module_graph, "_CLOSURES_MAX", 4)
    _module_graph._closures.clear()
    executor = make_executor(1)
    executor.submit(calls.nothing).result()
    for number in range(20):
        name = f"counted_module_{number}"
        folder.write(name, f"def number():\n    return {number}\n")
        assert executor.submit(folder.load(name).number).result() == number
        assert 1 <= len(_module_graph._closures) <= 4
