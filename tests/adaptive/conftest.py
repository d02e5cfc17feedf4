"""Less of what no parameter shortens in the training of ladders: what these tests say holds however many trees there are."""

from __future__ import annotations

import pytest

from anytime.adaptive import rungs, singles


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "_ROUNDS", 10)
    monkeypatch.setattr(singles, "_TREES", 10)
