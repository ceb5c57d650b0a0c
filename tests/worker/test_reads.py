"""Threads that read blocks ahead of their tasks: the first one alone, and the others as far as there is memory."""

import threading

import pytest
from helpers import wait_until

from jupyter_gpudask.worker.reads import Reads

MIB = 2**20


@pytest.fixture
def reads():
    made = Reads(threads=2, memory=16 * 4 * MIB)  # of which a sixteenth may wait
    yield made
    made.close()


def test_the_first_block_is_read_alone_and_the_next_ones_as_far_as_there_is_memory(reads):
    may_read = threading.Event()
    first = reads.begin("x", lambda: may_read.wait() and bytes(MIB))
    assert reads.begin("x", lambda: bytes(MIB)) is None
    may_read.set()
    assert len(first.future.result(timeout=10)) == MIB
    second = []
    wait_until(lambda: second.append(reads.begin("x", lambda: bytes(MIB))) or second[-1] is not None)
    begun = [each for _ in range(9) if (each := reads.begin("x", lambda: bytes(MIB))) is not None]
    assert len(begun) < 3, "four MiB with the first two"
    second.pop().leave()
    assert reads.begin("x", lambda: bytes(MIB)) is not None


def test_a_block_that_is_too_large_is_read_alone(reads):
    reads.begin("x", lambda: bytes(9 * MIB)).leave()
    wait_until(lambda: reads._sizes)
    only = reads.begin("x", lambda: bytes(9 * MIB))
    assert reads.begin("x", lambda: bytes(9 * MIB)) is None
    only.leave()
    assert reads.begin("x", lambda: bytes(9 * MIB)) is not None


def test_what_has_begun_is_read_after_the_end(reads):
    reads.begin("x", lambda: bytes(MIB)).leave()
    wait_until(lambda: reads._sizes)
    may_read = threading.Event()
    begun = [reads.begin("x", lambda: may_read.wait() and bytes(MIB)) for _ in range(4)]
    reads.close()
    assert reads.begin("x", lambda: bytes(MIB)) is None
    may_read.set()
    assert [len(each.future.result(timeout=10)) for each in begun] == [MIB] * 4
