"""A verdict for a claim, and what several works read from the measurements.

Numbers come from ``benchmarks/results``; where only tests show a claim, the entry says what was tried. ``stands`` is
the condition under which the verdict is true, so that a new measurement cannot leave an old verdict behind.
"""

from __future__ import annotations

from dataclasses import dataclass

from common import measured

REPRODUCED, SHAPE, NOT = "✓ reproduced", "≈ in shape", "✗ not reproduced"
MET, MISSED = "✓ met", "✗ missed"
VERDICTS = (REPRODUCED, SHAPE, NOT, MET, MISSED)
OTHER_TABLES = {
    "cutout",
    "split",
    "weight_decay",
    "scheme_arguments",
    "backbone",
}  # keys of trainings of other tables


@dataclass(frozen=True)
class Claim:
    """A claim of a work, or a bar of the library, with its verdict."""

    where: str
    page: str
    text: str
    verdict: str
    number: str
    stands: bool = True


def leading(text: str) -> int:
    """The count that begins '7 of 14; not on ...'."""
    return int(text.split()[0])


def last_exits() -> dict[str, dict[str, float]]:
    """Error of the last exit by network and scheme; seed 0, 40 epochs, plain trainings."""
    errors: dict[str, dict[str, float]] = {}
    for run in measured("network_schemes"):
        job = run["job"]
        if (
            not OTHER_TABLES & set(job)
            and job["seed"] == 0
            and job["epochs"] == 40
            and (job["n"], job["c"]) != (7, 32)
        ):
            errors.setdefault(f"({job['n']}, {job['c']})", {})[job["scheme"]] = run["errors"][-1]
    return {network: found for network, found in errors.items() if "auto" in found and "opt:1" in found}
