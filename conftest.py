"""Settings that all tests share, and what pytest leaves alone where an optional library is not installed.

Three hypothesis profiles: ``quick``, the default, looks at few random examples and at new ones each time; ``ci``, which
``make test`` selects, looks at more and always at the same, so that a failure there is a failure everywhere; ``thorough``
looks at many new ones, for an evening.
"""

import gc
import os
import re
import signal
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A shared machine is slow at unpredictable moments: no test fails because one example took long.
_unhurried = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("quick", max_examples=20, **_unhurried)
settings.register_profile(
    "ci", max_examples=50, derandomize=True, database=None, print_blob=True, **_unhurried
)
settings.register_profile("thorough", max_examples=500, print_blob=True, **_unhurried)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "quick"))

# a job in the background is started deaf to Ctrl-C, which tests send to themselves
signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("MPLBACKEND", "Agg")  # no test opens a window
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side: more threads get in the way
os.environ.setdefault(
    "OMP_THREAD_LIMIT", "1"
)  # LightGBM and XGBoost ask for all cores whatever the line above says

ROOMS = [Path(__file__).parent / "src/anytime" / room for room in ("networks", "growth")]


def files_that_need_torch() -> set[Path]:
    """Files of networks and growth that import torch at their top, or import one that does."""
    sources = {path: path.read_text(encoding="utf-8") for room in ROOMS for path in room.glob("*.py")}
    patterns, needing = [r"torch\b"], set()
    while patterns:
        importing = re.compile(rf"^(?:from|import) (?:{'|'.join(patterns)})", re.MULTILINE)
        found = {path for path, text in sources.items() if path not in needing and importing.search(text)}
        needing |= found
        patterns = [rf"anytime\.{path.parent.name}\.{path.stem}\b" for path in found]
    return needing


# docstrings are read by importing their files
LEFT_ALONE = set() if find_spec("torch") else files_that_need_torch()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """A set instead of the list ``collect_ignore``, every path of which pytest resolves for every file that it meets."""
    return True if collection_path in LEFT_ALONE else None


@pytest.fixture(autouse=True)
def _folder_of_examples(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Examples in docstrings run in an empty folder, where they may write files."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(request.getfixturevalue("tmp_path"))


# Names of tests that take longer than this with all their parameters, which ``make quick`` leaves out; ``make slow-list``
# measures them and writes the list.
SLOW_LIST, SLOW_SECONDS = Path(__file__).parent / "tests" / "slow.txt", 0.2
SECONDS: Counter[str] = Counter()


def name_of(nodeid: str) -> str:
    """The test's name without its parameters."""
    return nodeid.partition("[")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of ``make slow-list``."""
    parser.addoption("--write-slow-list", action="store_true", help=f"write what is slow to {SLOW_LIST.name}")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what the list names."""
    slow = set(SLOW_LIST.read_text(encoding="utf-8").splitlines())
    for item in items:
        if name_of(item.nodeid) in slow:
            item.add_marker(pytest.mark.slow)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what tests take, in whichever process they run."""
    if report.when == "call":
        SECONDS[name_of(report.nodeid)] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the list; processes of pytest-xdist leave that to theirs."""
    if session.config.getoption("--write-slow-list") and not hasattr(session.config, "workerinput"):
        slow = sorted(name for name, seconds in SECONDS.items() if seconds > SLOW_SECONDS)
        SLOW_LIST.write_text("".join(f"{name}\n" for name in slow), encoding="utf-8")


def pytest_collection_finish() -> None:
    """What is loaded by now stays to the end: the garbage collector need not go through it again and again."""
    gc.freeze()
