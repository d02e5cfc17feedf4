"""Models that several tests look at, each fitted once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.export.families import FAMILIES, Fitted


@pytest.fixture(scope="session")
def family() -> Callable[[str], Fitted]:
    """The model of a family, by name, and its rows."""
    fitted: dict[str, Fitted] = {}

    def get(name: str) -> Fitted:
        if name not in fitted:
            fitted[name] = FAMILIES[name]()
            fitted[name][0].set_params(meter="model")  # an exported model has no ledger: budgets count stages
        return fitted[name]

    return get
