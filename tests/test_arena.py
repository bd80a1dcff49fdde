"""Large payloads of any size arrive, are copied at most once, and free their memory."""

import array
import os
import pickle
from concurrent.futures import wait

import numpy as np
import pytest

import gristmill

from arena_tasks import (
    describe,
    die_of,
    echo,
    forget_kept,
    keep,
    ones,
    raise_large,
    sum_of_kept,
    total,
    write_first,
)

BORDER = 64 << 10
SIZES = (0, 1, BORDER - 200, BORDER - 1, BORDER, BORDER + 1, 1 << 20, 5_000_001)
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def executor():
    with gristmill.Executor(max_workers=1) as one:
        yield one


def run(executor, function, *arguments):
    return executor.submit(function, *arguments).result(timeout=TIMEOUT_S)


def blocks(executor):
    return executor._arena_use()[1]


def settle(executor):
    """Runs a task: with its answer, all earlier releases have been processed."""
    run(executor, echo, 0)


@pytest.mark.parametrize("size", SIZES)
def test_bytes_and_strings_of_any_size_come_back(executor, size):
    data = os.urandom(size)
    assert run(executor, echo, data) == data
    text = "ä" * size
    assert run(executor, echo, text) == text
    assert run(executor, echo, bytearray(data)) == data
    assert run(executor, echo, {"key": [data, text]}) == {"key": [data, text]}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["?", "b", "u2", "i4", "f2", "f4", "f8", "c8", "c16"])
def test_arrays_of_any_size_and_type_come_back(executor, size, kind):
    sent = (np.arange(size // np.dtype(kind).itemsize) % 100).astype(kind)
    got = run(executor, echo, sent)
    np.testing.assert_array_equal(got, sent)
    assert got.dtype == sent.dtype
    assert got.flags.writeable


@pytest.mark.interpreter
@pytest.mark.parametrize(
    "sent",
    [
        np.array(7.0),
        np.empty((0, 5)),
        np.arange(120_000.0).reshape(300, 400),
        np.asfortranarray(np.arange(120_000.0).reshape(300, 400)),
        np.arange(120_000.0).reshape(10, 30, 400)[:, ::2, :],
        np.arange(200_000).astype("datetime64[s]"),
        np.zeros(20_000, dtype=[("a", "f8"), ("b", "i4")]),
        np.array(["text", None, 3] * 10_000, dtype=object),
        np.arange(100_000.0).astype(">f8"),
    ],
    ids=["0-d", "empty", "C", "F", "strided", "dates", "records", "objects", "big-endian"],
)
def test_arrays_of_any_form_come_back(executor, sent):
    got = run(executor, echo, sent)
    np.testing.assert_array_equal(got, sent)
    assert got.dtype == sent.dtype
    assert got.flags.f_contiguous == sent.flags.f_contiguous or not sent.flags.contiguous


@pytest.mark.interpreter
def test_an_argument_is_a_read_only_view(executor):
    sent = np.arange(100_000.0)
    assert run(executor, describe, sent) == ("ndarray", False, False, False)
    with pytest.raises(ValueError, match="read-only"):
        run(executor, write_first, sent)


def test_a_result_is_writable_and_its_own(executor):
    first, second = run(executor, ones, 100_000), run(executor, ones, 100_000)
    first[:] = 5
    assert second.sum() == 100_000
    assert run(executor, ones, 100_000).sum() == 100_000


def test_an_echo_is_independent_of_what_was_sent(executor):
    sent = np.ones(100_000)
    got = run(executor, echo, sent)
    got[:] = 7
    assert sent.sum() == 100_000
    again = run(executor, echo, got)
    got[:] = 9
    assert again.sum() == 700_000


def test_an_argument_can_be_changed_right_after_submit(executor):
    sent = run(executor, ones, 100_000)
    future = executor.submit(total, sent)
    sent[:] = 0
    assert future.result(timeout=TIMEOUT_S) == 100_000


def test_one_array_twice_is_one_array(executor):
    sent = np.ones(100_000)
    first, second = run(executor, echo, (sent, sent))
    assert first is second


def test_large_lists_and_many_arrays(executor):
    numbers = list(range(200_000))
    assert run(executor, echo, numbers) == numbers
    arrays = [np.full(10_000, index, dtype=float) for index in range(30)]
    for got, sent in zip(run(executor, echo, arrays), arrays, strict=True):
        np.testing.assert_array_equal(got, sent)


def test_results_of_parents_of_any_size(executor):
    large = [executor.submit(ones, 100_000) for _ in range(5)]
    assert run(executor, total, *large) == 500_000
    medium = [executor.submit(ones, 4_000) for _ in range(40)]
    assert run(executor, total, *medium, np.ones(100_000)) == 260_000
    assert run(executor, len, executor.submit(echo, b"x" * 1_000_000)) == 1_000_000


def test_large_captured_values(executor):
    captured, data = np.ones(100_000), b"y" * 1_000_000
    assert run(executor, lambda: captured.sum() + len(data)) == 1_100_000


def test_large_exceptions(executor):
    with pytest.raises(ValueError, match=r"^x{1000000}$"):
        run(executor, raise_large)


@pytest.mark.interpreter
def test_pickled_objects_with_large_buffers(executor):
    numbers = array.array("d", [1.0]) * 100_000
    assert run(executor, echo, numbers) == numbers
    masked = np.ma.masked_array(np.arange(100_000.0), mask=np.arange(100_000) % 2)
    np.testing.assert_array_equal(run(executor, echo, masked).filled(-1), masked.filled(-1))


@pytest.mark.interpreter
def test_a_result_can_be_pickled_and_copied(executor):
    got = run(executor, ones, 100_000)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(got)), got)
    np.testing.assert_array_equal(got.copy(), got)


def test_views_copy_nothing_in_either_direction(executor):
    views = executor.options(views=True)
    sent = gristmill.array((200, 500), executor=executor)
    sent[:] = 3
    got = views.submit(echo, sent).result(timeout=TIMEOUT_S)
    assert np.shares_memory(got, sent)
    assert not got.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        got.flags.writeable = True
    part = views.submit(echo, sent[50:150]).result(timeout=TIMEOUT_S)
    assert np.shares_memory(part, sent)
    assert part.shape == (100, 500)
    fresh = views.submit(ones, 100_000).result(timeout=TIMEOUT_S)
    assert not fresh.flags.writeable
    before = blocks(executor)
    again = run(executor, echo, fresh)
    assert again.flags.writeable
    assert not np.shares_memory(again, fresh)
    assert blocks(executor) <= before + 1, "a view that is passed again is not stored again"


def test_an_array_in_shared_memory_is_an_array_like_any_other(executor):
    sent = gristmill.array(100_000, "f4", executor=executor)
    sent[:] = 2
    future = executor.submit(total, sent)
    sent[:] = 0
    assert future.result(timeout=TIMEOUT_S) == 200_000
    with pytest.raises(TypeError, match="references"):
        gristmill.array(5, object, executor=executor)


def test_a_view_that_a_task_keeps_stays_valid_until_it_lets_go(executor):
    settle(executor)
    before = blocks(executor)
    process = run(executor, keep, np.full(100_000, 2.0))
    assert blocks(executor) == before + 1
    for number in range(20):
        run(executor, echo, np.full(100_000, float(number)))
    assert run(executor, sum_of_kept) == [200_000]
    assert run(executor, forget_kept) == process
    settle(executor)
    assert blocks(executor) == before


def test_a_view_outlives_its_executor():
    with gristmill.Executor(max_workers=1) as executor:
        got = run(executor, ones, 100_000)
    got[0] = 2
    assert got.sum() == 100_001


def test_blocks_outlive_the_worker_that_made_them():
    with gristmill.Executor(max_workers=1) as executor:
        held = [run(executor, ones, 200_000) for _ in range(3)]
        views = executor.options(views=True)
        held += [views.submit(ones, 200_000).result(timeout=TIMEOUT_S)]
        futures = [executor.submit(die_of, held[3])]
        futures += [executor.submit(ones, 200_000) for _ in range(10)]
        wait(futures, timeout=TIMEOUT_S)
        with pytest.raises(gristmill.WorkerLostError):
            futures[0].result(timeout=TIMEOUT_S)
        for future in futures[1:]:
            got = future.result(timeout=TIMEOUT_S)
            got[:] = 8
        assert [value.sum() for value in held] == [200_000] * 4
        del held, got, futures, future
        settle(executor)
        assert blocks(executor) == 0


def test_a_worker_that_dies_with_arguments_gives_them_back():
    with gristmill.Executor(max_workers=1) as executor:
        for _ in range(3):
            with pytest.raises(gristmill.WorkerLostError):
                run(executor, die_of, np.ones(1_000_000))
            # A worker that has succeeded before is replaced without a pause.
            settle(executor)
        assert blocks(executor) == 0


def test_dropped_results_give_their_memory_back(executor):
    futures = [executor.submit(ones, 100_000) for _ in range(50)]
    held = [future.result(timeout=TIMEOUT_S) for future in futures]
    assert blocks(executor) >= 50
    del held, futures
    settle(executor)
    assert blocks(executor) == 0


def resident_pages():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1])


def test_memory_is_flat_over_many_echoes_of_ten_megabytes(executor):
    sent = np.ones(1_250_000)
    for _ in range(20):
        run(executor, echo, sent)
        run(executor, np.add, sent, 1)
    pages, shared = resident_pages(), executor._arena_use()[0]
    for _ in range(500):
        run(executor, echo, sent)
    for _ in range(50):
        run(executor, np.add, sent, 1)
    assert executor._arena_use()[0] <= shared + (12 << 20)
    assert (resident_pages() - pages) * os.sysconf("SC_PAGESIZE") <= 16 << 20


def test_more_than_the_arena_holds_is_a_memory_error(executor):
    with pytest.raises(MemoryError, match=r"\d+ bytes do not fit into the arena"):
        gristmill.array(1 << 50, "u1", executor=executor)
    assert run(executor, echo, 1) == 1


def test_interpreters_of_their_own_have_the_arena_too():
    with gristmill.Executor(max_workers=1, start="spawn") as executor:
        assert run(executor, total, np.ones(100_000)) == 100_000


@pytest.mark.interpreter
def test_a_forked_child_can_read_results_and_frees_none():
    with gristmill.Executor(max_workers=1) as executor:
        got = run(executor, ones, 1_000_000)
        child = os.fork()
        if child == 0:
            is_right = got.sum() == 1_000_000
            del got
            os._exit(0 if is_right else 1)
        assert os.waitpid(child, 0)[1] == 0
        for _ in range(5):
            run(executor, np.zeros, 1_000_000)
        assert got.sum() == 1_000_000


def test_two_executors_do_not_mix_their_memory(executor):
    with gristmill.Executor(max_workers=1) as other:
        sent = executor.options(views=True).submit(ones, 100_000).result(timeout=TIMEOUT_S)
        got = other.options(views=True).submit(echo, sent).result(timeout=TIMEOUT_S)
        assert not np.shares_memory(got, sent)
        np.testing.assert_array_equal(got, sent)
