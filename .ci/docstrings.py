"""Hold the docstrings of public names to numpydoc's rules; ``make lint`` runs it.

Checked are the names of ``anytime.__all__`` and the public methods that their classes write themselves. The rules are
those of ``CHECKS``; the ones that are not there are listed with the reason.
"""

from __future__ import annotations

import inspect
import sys

from numpydoc.validate import ERROR_MSGS, validate

import anytime

NOT_CHECKED = {
    "GL02": "and may end there",
    "ES01": "a good name needs no extended summary",
    "PR01": "shared parameters come from anytime.parameters; the fields of a record are its Attributes",
    "PR04": "sister classes refer to each other: 'As in ...'",
}
CHECKS = sorted(set(ERROR_MSGS) - set(NOT_CHECKED))
# A class refers to others and has the examples; the summary of a method may say what it returns.
NOT_OF_METHODS = {"SA01", "EX01", "RT01"}


def names() -> list[str]:
    """Dotted names of everything public, and of the methods of public classes."""
    public = []
    for name in anytime.__all__:
        try:
            thing = getattr(anytime, name)
        except ImportError as error:  # an extra that is not installed
            print(f"not checked: {name} ({error})")
            continue
        if inspect.ismodule(thing) or thing.__module__ == "anytime._native":
            continue
        home = f"{thing.__module__}.{thing.__qualname__}"
        public.append(home)
        if inspect.isclass(thing):
            public += [
                f"{home}.{method}"
                for method, value in vars(thing).items()
                if inspect.isfunction(value)
                and not method.startswith("_")
                and value.__doc__
                and value.__module__.startswith("anytime")
            ]
    return sorted(set(public))


def _is_method(name: str) -> bool:
    """Whether a dotted name ends in a class and its method: classes alone begin with a capital."""
    return name.split(".")[-2].lstrip("_")[:1].isupper()


def main() -> int:
    """Print faults; 1 if there are any."""
    wrong, checked = [], names()
    for name in checked:
        for code, message in validate(name)["errors"]:
            if code in CHECKS and not (code in NOT_OF_METHODS and _is_method(name)):
                wrong.append(f"{name}: {code} {message}")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{len(checked)} docstrings, {len(CHECKS)} of {len(ERROR_MSGS)} rules, {len(wrong)} faults")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
