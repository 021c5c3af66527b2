"""Descriptors that one thread waits for, and others add and remove."""

import os
import select
import threading

from pinfold.sandbox.poll_set import PollSet


def test_what_rings_is_told_and_what_does_not_is_not() -> None:
    bells = PollSet()
    (one, into), (other, quiet) = os.pipe(), os.pipe()
    bells.register(one)
    bells.register(other)
    assert bells.poll(0) == []  # there was a change
    os.write(into, b"x")
    assert bells.poll(10) == [(one, select.POLLIN)]
    bells.unregister(one)
    assert bells.poll(0) == [] and bells.poll(0) == []
    os.close(quiet)
    assert bells.poll(10) == [(other, select.POLLHUP)]
    # One that was closed is forgotten, as epoll does.
    os.close(other)
    assert bells.poll(10) == [] and bells.poll(0) == []
    bells.close()
    os.close(one)
    os.close(into)


def test_who_waits_hears_of_what_is_added() -> None:
    bells = PollSet()
    heard: list[tuple[int, int]] = []

    def wait() -> None:
        while not heard:
            heard.extend(bells.poll(30))

    waiting = threading.Thread(target=wait)
    waiting.start()
    late, into = os.pipe()
    os.write(into, b"x")
    bells.register(late)
    waiting.join(20)
    assert heard == [(late, select.POLLIN)]
    bells.close()
    os.close(late)
    os.close(into)


def test_who_closes_twice_closes_nobody_elses() -> None:
    bells = PollSet()
    bells.close()
    others = os.eventfd(0)
    bells.close()
    os.eventfd_write(others, 1)
    os.close(others)
