"""Predictions under a budget: models you can interrupt.

>>> import anytime as at
>>> costs = at.FeatureCosts([1.0, 5.0])
>>> costs.price([0, 1])
6.0

Importing this package loads nothing else: each name below is fetched from its room at first use, so that a program
that only answers does not wait for what it takes to train.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anytime.costs import FeatureCosts

_HOMES = {
    "costs": ["FeatureCosts"],
}
_ROOMS = ["datasets", "trees"]

__all__ = ["FeatureCosts"]

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    import importlib

    if name in _HOME_OF:
        value = getattr(importlib.import_module(f"anytime.{_HOME_OF[name]}"), name)
    elif name in _ROOMS:
        value = importlib.import_module(f"anytime.{name}")
    elif name == "__version__":
        from importlib.metadata import version

        value = version("anytime")
    else:
        import difflib

        near = difflib.get_close_matches(name, __all__, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"module 'anytime' has no attribute {name!r}{hint}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
