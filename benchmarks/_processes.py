"""A process and all below it: what they use of processors and memory, and the deaths of some."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path


def processes():
    """Numbers of this process and of all below it."""
    parent = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = {os.getpid()}
    for _ in range(8):
        found |= {pid for pid, above in parent.items() if above in found}
    return found


def session_seconds():
    """Processor seconds of this process and all below it, those that have ended included."""
    ticks, total = os.sysconf("SC_CLK_TCK"), 0.0
    for pid in processes():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15])) / ticks
    return total


class Memory:
    """The most that this process and all below it have in memory together, looked at every half second.

    Shares of pages that several map add up to the page (PSS), so that the object store counts once.
    """

    def __enter__(self):
        self.most, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _look(self):
        while not self._over.wait(0.5):
            self.most = max(self.most, sum(map(_own_share, processes())))


def _own_share(pid):
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return 0


def kill_tasks(random, over, hits, most, title):
    """Kill a process that has work, at random moments, until it is over."""
    while not over.wait(random.uniform(0.0, 0.5)) and len(hits) < most:
        busy = [pid for pid in processes() if _title(pid).startswith(title)]
        if busy:
            hits.append(int(random.choice(busy)))
            with contextlib.suppress(ProcessLookupError):
                os.kill(hits[-1], signal.SIGKILL)


def _title(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    return ""
