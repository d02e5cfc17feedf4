"""Checks that every anytime model must pass.

:func:`check_anytime_estimator` is to budgets what scikit-learn's ``check_estimator`` is to ``fit`` and ``predict``: run it on
your own models.
"""

from anytime.testing.checks import check_anytime_estimator

__all__ = ["check_anytime_estimator"]
