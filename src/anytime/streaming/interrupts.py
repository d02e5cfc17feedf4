"""Ctrl-C that waits: half a chunk learned, or half a checkpoint written, would be worse than none."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unbroken() -> Iterator[None]:
    """Let Ctrl-C wait until this is over; then it comes. In threads other than the main one, which it never meets, nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt
