"""Ctrl-C while Spark works meets no call to the JVM."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time

import pytest

from engine.spark.interruptible import wait_for


def test_it_waits_and_passes_on_what_failed() -> None:
    done: list[int] = []
    wait_for(lambda: done.append(1))
    assert done == [1]

    def fails() -> None:
        raise ValueError("told")

    with pytest.raises(ValueError, match="told"):
        wait_for(fails)


def test_an_interrupt_ends_the_waiting_and_not_the_call() -> None:
    """The call goes on in its own thread, which nothing interrupts, until it ends by itself."""
    release, ended = threading.Event(), threading.Event()

    def works() -> None:
        release.wait(30)
        ended.set()

    before = signal.getsignal(signal.SIGINT)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            wait_for(works)
    finally:
        signal.signal(signal.SIGINT, before)
        logging.getLogger().setLevel(logging.WARNING)
    assert time.monotonic() - begun < 20
    assert not ended.is_set()
    release.set()
    assert ended.wait(30)
