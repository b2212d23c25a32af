"""Waiting for Spark so that Ctrl-C ends it in good order.

PySpark's own handler calls the JVM from within whatever call Ctrl-C meets; that breaks the
connection and prints a hundred lines. Here a thread waits, and the one that Ctrl-C meets does not.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable

_LOOK_SECONDS = 0.2


def wait_for(done: Callable[[], None]) -> None:
    """Calls ``done`` and waits until it returns; what it raises is raised here.

    Raises:
        KeyboardInterrupt: Ctrl-C; ``done`` is then left to end by itself.
    """
    failed: list[BaseException] = []

    def call() -> None:
        try:
            done()
        except BaseException as error:
            failed.append(error)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    waiting = threading.Thread(target=call, daemon=True)
    waiting.start()
    try:
        while waiting.is_alive():
            waiting.join(_LOOK_SECONDS)
    except KeyboardInterrupt:
        # What is under way ends with an error that nobody needs to read.
        logging.getLogger().setLevel(logging.CRITICAL + 1)
        raise
    if failed:
        raise failed[0]
