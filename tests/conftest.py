"""Settings that every test shares.

Two hypothesis profiles: ``quick``, the default, looks at few random examples and at new ones each time; ``ci``, which
``make test`` selects, looks at more and always at the same, so that a failure there is a failure everywhere.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A shared machine is slow at unpredictable moments: no test fails because one example took long.
_unhurried = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("quick", max_examples=20, **_unhurried)
settings.register_profile(
    "ci", max_examples=100, derandomize=True, database=None, print_blob=True, **_unhurried
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "quick"))

os.environ.setdefault("MPLBACKEND", "Agg")  # no test opens a window
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side: more threads get in the way
os.environ.setdefault(
    "OMP_THREAD_LIMIT", "1"
)  # LightGBM and XGBoost ask for all cores whatever the line above says
