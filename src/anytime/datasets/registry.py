"""``load``, ``names`` and ``describe``: access to all data sets."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, overload

from anytime.datasets.bundled import BUNDLED
from anytime.datasets.dataset import About, Dataset, Listing
from anytime.datasets.heart import HEART

if TYPE_CHECKING:
    import pandas as pd

REGISTRY: dict[str, Listing] = {entry.about.name: entry for entry in [*BUNDLED, HEART]}


def load(name: str, *, as_frame: bool = False, **options: Any) -> Dataset:
    """Load a data set with its groups and prices.

    Parameters
    ----------
    name : str
        One of ``names()``. Case does not matter, and ``-`` and ``_`` are the same.
    as_frame : bool, default=False
        Whether ``X`` is a DataFrame.
    **options
        Options listed by ``describe(name)``, such as the ``grades`` of heart disease.

    Returns
    -------
    Dataset
        Unpacks to ``X, y, costs``; everything else is an attribute.

    Raises
    ------
    ValueError
        If no set has this name.
    TypeError
        If the set has no such option.

    See Also
    --------
    names : All names.
    describe : Size, task, prices, licence and source of a set.

    Examples
    --------
    >>> X, y, costs = load("breast_cancer")
    >>> X.shape, costs.total, costs.price(["radius"])
    ((569, 30), 100.0, 23.0)
    >>> load("wine").target_names
    ('class_0', 'class_1', 'class_2')
    """
    entry = find(name, REGISTRY)
    check_options(entry.about, options)
    return named(entry.read(**options), entry.about, as_frame)


def check_options(about: About, options: dict[str, Any]) -> None:
    """Refuse options that a set does not have."""
    if unknown := [option for option in options if option not in about.options]:
        options_text = f"its options are {', '.join(about.options)}" if about.options else "it has no options"
        raise TypeError(f"data set {about.name!r} has no option {unknown[0]!r}; {options_text}")


def named(data: Dataset, about: About, as_frame: bool) -> Dataset:
    """The data with its name and description, as a DataFrame if it is wanted."""
    return data.with_attributes(
        X=_frame(data) if as_frame else data.X, name=about.name, description=str(about)
    )


def names() -> list[str]:
    """Names that ``load`` accepts: scikit-learn's bundled sets first, then medical tests with real prices.

    Examples
    --------
    >>> names()[:5]
    ['breast_cancer', 'wine', 'digits', 'diabetes', 'iris']
    """
    return list(REGISTRY)


@overload
def describe(name: str) -> About: ...
@overload
def describe(name: None = None) -> pd.DataFrame: ...
def describe(name: str | None = None) -> About | pd.DataFrame:
    """Facts about a set without loading it, or a table of all sets.

    Examples
    --------
    >>> print(describe("iris"))
    iris: Three kinds of iris
      size     150 rows, 4 columns in 2 groups
      task     3 classes
      prices   made up; unit: minutes
      split    none
      licence  BSD-3-Clause
      source   scikit-learn
    >>> describe().loc["heart", "unit"]
    'CAD'
    """
    if name is not None:
        return find(name, REGISTRY).about
    import pandas as pd

    table = pd.DataFrame([vars(entry.about) for entry in REGISTRY.values()]).set_index("name")
    return table


def find(name: str, registry: Mapping[str, Listing]) -> Listing:
    """The entry of a set; case, and ``-`` against ``_``, do not matter."""
    by_key = {_key(each): each for each in registry}
    if _key(name) in by_key:
        return registry[by_key[_key(name)]]
    close = get_close_matches(_key(name), by_key, n=3)
    hint = (
        f"did you mean {' or '.join(repr(by_key[key]) for key in close)}?"
        if close
        else "names() lists them all"
    )
    raise ValueError(f"no data set is called {name!r}; {hint}")


def _key(name: str) -> str:
    return str(name).lower().replace("_", "-")


def _frame(data: Dataset) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(data.X, columns=list(data.feature_names))
