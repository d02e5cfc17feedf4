"""Try an installed anytime as a stranger would: no source tree, no compiler, a first curve, then quick tests.

Run by ``make wheel``, ``make compat`` and the workflow that builds wheels, with the interpreter that has the wheel:

    python .ci/smoke.py [--tests PATH ...]

Needs pytest and hypothesis for the tests; ``--no-tests`` leaves them out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = [  # a few seconds each, of every room that has native code, and of every private name
    "test_compat.py",
    "test_costs.py",
    "test_engine.py",
    "test_import.py",
    "test_native.py",
    "test_native_costs.py",
    "test_native_doors.py",
    "test_one_row.py",
    "test_summary.py",
    "cli/test_doctor.py",
    "cli/test_fit.py",
]
FIRST_CURVE = """
import time
began = time.perf_counter()
import anytime as at
imported = time.perf_counter() - began
assert "site-packages" in at.__file__, at.__file__
from sklearn.model_selection import train_test_split
X, y, costs = at.datasets.load("breast_cancer")
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = at.SpeedBoostClassifier(costs=costs, random_state=0).fit(X_train, y_train)
curve = at.curve(model, X_test, y_test)
assert 0.85 < curve.values.max() <= 1.0, curve.values
print(f"import anytime: {1e3 * imported:.0f} ms; first curve after {time.perf_counter() - began:.1f} s; "
      f"cost of 90 % accuracy: {curve.cost_to_reach(0.9):g}")
"""


def main() -> None:
    """Run all steps; the first that fails ends the program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--no-tests", action="store_true", help="only the commands and the first curve")
    parser.add_argument("--tests", nargs="*", default=TESTS, metavar="PATH", help="test files, below tests/")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        python("-c", FIRST_CURVE, folder=folder)
        python("-m", "anytime.cli", "doctor", folder=folder)
        _fit_and_ask(Path(folder))
        if not arguments.no_tests:
            _test(arguments.tests, folder)


def _fit_and_ask(folder: Path) -> None:
    """The commands of the first page, on a table that is written here."""
    lines = [f"{k % 7},{k % 5},{k % 3},{'yes' if k % 7 + k % 3 > 4 else 'no'}" for k in range(300)]
    (folder / "table.csv").write_text("\n".join(["a,b,c,label", *lines]) + "\n", encoding="utf-8")
    (folder / "prices.yaml").write_text("a: 1\nb: 2\nc: 4\n", encoding="utf-8")
    for command in (
        "fit table.csv --target label --costs prices.yaml -o model.anytime",
        "inspect model.anytime",
        "curve model.anytime table.csv --target label",
        "predict model.anytime table.csv --budget 3 -o answers.csv",
    ):
        python("-m", "anytime.cli", *command.split(), folder=str(folder))
    answers = (folder / "answers.csv").read_text(encoding="utf-8").splitlines()
    assert len(answers) == 301, f"{len(answers)} lines of answers for 300 rows"


def _test(paths: list[str], folder: str) -> None:
    """Tests from the source tree against the package that is installed."""
    options = ["-q", "-m", "not slow and not realtime", "-p", "no:cacheprovider", "--rootdir", str(ROOT)]
    python("-m", "pytest", *options, *(str(ROOT / "tests" / path) for path in paths), folder=folder)


def python(*arguments: str, folder: str) -> None:
    """Run this interpreter in another folder, so that nothing is found by accident."""
    began = time.monotonic()
    shown = " ".join(arguments) if "\n" not in arguments[-1] else "first curve"
    print(f"==> {shown}", flush=True)
    subprocess.run([sys.executable, *arguments], cwd=folder, check=True)
    print(f"    {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
