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
    "GL01": "a docstring begins on the line of its quotes, as the formatter has it",
    "GL02": "and may end there",
    "GL08": "overrides inherit their docstring",
    "SS06": "a summary may take two lines",
    "SS05": "a first line may name what is returned",
    "ES01": "a good name needs no extended summary",
    "EX01": "examples stand where they help; they run as tests",
    "SA01": "methods need no See Also",
    "SA04": "the name of a sister class says what it is",
    "PR01": "shared parameters come from anytime.parameters",
    "PR02": "attributes of data classes are described as parameters are",
    "PR03": "keyword-only parameters of one kind stand together",
    "PR04": "sister classes refer to each other: 'As in ...'",
    "PR06": "types are said in words",
    "PR07": "a name and a type may say it all",
    "PR08": "descriptions may begin with a symbol or a literal",
    "PR09": "or end with one",
    "PR10": "a colon needs no space where no type follows",
    "RT01": "the summary of a short method says what it returns",
    "RT02": "what is returned may have a name",
    "RT03": "small results are described by the summary",
    "RT04": "descriptions may begin with a symbol",
    "RT05": "or end with one",
    "YD01": "generators say Returns where they are made",
}
CHECKS = sorted(set(ERROR_MSGS) - set(NOT_CHECKED))


def names() -> list[str]:
    """Dotted names of everything public, and of the methods of public classes."""
    found = []
    for name in anytime.__all__:
        try:
            thing = getattr(anytime, name)
        except ImportError as error:  # an extra that is not installed
            print(f"not checked: {name} ({error})")
            continue
        if inspect.ismodule(thing):
            continue
        home = f"{thing.__module__}.{thing.__qualname__}"
        found.append(home)
        if inspect.isclass(thing):
            found += [
                f"{home}.{method}"
                for method, value in vars(thing).items()
                if inspect.isfunction(value)
                and not method.startswith("_")
                and value.__doc__
                and value.__module__.startswith("anytime")
            ]
    return sorted(set(found))


def main() -> int:
    """Print faults; 1 if there are any."""
    wrong, checked = [], names()
    for name in checked:
        for code, message in validate(name)["errors"]:
            if code in CHECKS:
                wrong.append(f"{name}: {code} {message}")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{len(checked)} docstrings, {len(CHECKS)} of {len(ERROR_MSGS)} rules, {len(wrong)} faults")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
