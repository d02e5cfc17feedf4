"""``anytime profile``: what features cost on this machine, measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anytime.cli.errors import CliError, UsageError
from anytime.cli.io import check_writable, read_table
from anytime.cli.options import option
from anytime.cli.tables import console, number, print_table, step, thinned

if TYPE_CHECKING:
    from anytime.costs import FeatureCosts
    from anytime.features import Features

_MOST_ROWS = 24


def profile(
    features: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FEATURES",
            help="A Features object, or a function that returns one: package.module:name or path/to/file.py:name.",
        ),
    ],
    raw: Annotated[
        str,
        typer.Argument(
            metavar="RAW",
            help="Typical raw examples: a .npy or .npz array (one example per entry), a CSV or Parquet file (each row becomes a "
            "dict), or MODULE:RAW, a sequence or a function that returns one.",
        ),
    ],
    output: Annotated[Path, option("FILE", "The price list to write: .yaml or .csv.", "--output", "-o")],
    examples: Annotated[int, option("N", "The most raw examples to measure.", min=1)] = 200,
    repeats: Annotated[int, option("N", "Number of measurements per example.", min=1)] = 3,
    unit: Annotated[str, option("UNIT", "Unit of the prices: s, ms, us or ns.")] = "ms",
) -> None:
    """Measure what features cost on this machine.

    The price of a group is its median time. Deadlines are planned with its tail, the 99th percentile.

    Example: anytime profile my_features.py:features images.npy -o costs.yaml
    """
    check_writable(output)
    if output.suffix not in (".yaml", ".yml", ".json", ".csv"):
        raise UsageError(f"{output}: a price list ends in .yaml or .csv")
    extractors = _features(features)
    raws = _raws(raw)
    if not len(raws):
        raise CliError(f"{raw} holds no example")
    chosen = raws[:examples]
    with step(f"measuring {len(extractors.names)} groups on {len(chosen)} examples, {repeats} times"):
        costs = extractors.profile(chosen, n_repeats=repeats, unit=unit, path=output)
    print_prices(costs, f"{len(chosen)} examples, measured {repeats} times each")
    console().print(f"wrote {output}", soft_wrap=True)


def print_prices(
    costs: FeatureCosts, title: str | None = None, *, names: tuple[str, str] = ("p50", "p99")
) -> None:
    """One line per group: what it fills, what it costs, what it needs. ``names`` are those of price and tail."""
    unit = f" ({costs.unit})" if costs.unit else ""
    tails = costs.tails
    header = ["<group", "columns", names[0] + unit]
    header += [names[1] + unit] if tails else []
    header += ["<requires"] if costs.requires else []
    rows = []
    for j in thinned(len(costs.names), _MOST_ROWS):
        name = costs.names[j]
        row = [name, str(len(costs.groups[name])), number(costs.prices[name])]
        row += [number(tails[name])] if tails else []
        row += [", ".join(costs.requires.get(name, ()))] if costs.requires else []
        rows.append(row)
    print_table(header, rows, title=title, left_out=len(costs.names) - len(rows))


# ---------------------------------------------------------------------- finding objects by name


def _features(name: str) -> Features:
    from anytime.features import Features

    extractors = _named(name)
    if not isinstance(extractors, Features) and callable(extractors):
        extractors = _called(extractors, name)
    if not isinstance(extractors, Features):
        raise UsageError(
            f"{name} is of type {type(extractors).__name__}, not a Features object or a function that returns one"
        )
    return extractors


def _raws(name: str) -> Any:
    """A sequence of raw examples."""
    import numpy as np

    path = Path(name)
    suffix = path.suffix.lower()
    if suffix in (".npy", ".npz"):
        try:
            loaded = np.load(path, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise CliError(f"{path} holds no plain array: {error}") from None
        if suffix == ".npz":
            loaded = _only_array(loaded, path)
        if loaded.ndim == 0:
            raise CliError(f"{path} holds one number, not a row of examples")
        return loaded
    if suffix in (".csv", ".tsv", ".parquet", ".pq", ".gz"):
        return read_table(path).to_dict(orient="records")
    examples = _named(name)
    examples = _called(examples, name) if callable(examples) else examples
    if not hasattr(examples, "__len__") or not hasattr(examples, "__getitem__"):
        raise UsageError(f"{name} is of type {type(examples).__name__}, not a sequence of examples")
    return examples


def _only_array(archive: Any, path: Path) -> Any:
    if len(archive.files) == 1:
        return archive[archive.files[0]]
    if "raw" in archive.files:
        return archive["raw"]
    raise CliError(
        f"{path} holds several arrays ({', '.join(archive.files)}); keep one, or call one of them raw"
    )


def _named(name: str) -> Any:
    """The object that ``module:object`` names."""
    module_name, colon, attribute = name.rpartition(":")
    if not colon or not module_name or not attribute:
        raise UsageError(f"{name!r} must have the form MODULE:NAME, as in my_features.py:features")
    module = _module(module_name)
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise UsageError(f"{module_name} has no {attribute!r}")
        value = getattr(value, part)
    return value


def _module(name: str) -> Any:
    """The module, from a file or by its name; the current directory counts, which it does not for a command by itself."""
    import importlib
    import importlib.util

    try:
        if not name.endswith(".py"):
            sys.path.insert(0, "")
            return importlib.import_module(name)
        path = Path(name)
        if not path.is_file():
            raise CliError(f"{path}: no such file")
        sys.path.insert(0, str(path.resolve().parent))  # so that it finds its neighbours
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except CliError:
        raise
    except ModuleNotFoundError as error:
        if error.name in (name, name.partition(".")[0]):
            raise UsageError(f"there is no module {name!r}, neither here nor installed") from None
        raise CliError(f"importing {name} failed: {error}") from error
    except Exception as error:
        raise CliError(f"importing {name} failed: {type(error).__name__}: {error}") from error


def _called(function: Any, name: str) -> Any:
    try:
        return function()
    except Exception as error:
        raise CliError(f"{name}() failed: {type(error).__name__}: {error}") from error
