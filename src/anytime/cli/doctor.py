"""``anytime doctor``: what is installed, what the processor offers, and what is missing."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Annotated, Any, NamedTuple

import typer

from anytime.cli.tables import console, counted, print_table, print_title

_FOR_DEVELOPERS = ("dev", "docs")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Requirement(NamedTuple):
    """A library that the package needs, always or for an extra."""

    library: str
    at_least: str
    extra: str  # "" where it is always needed

    @property
    def version(self) -> str | None:
        """The installed version; None where there is none."""
        try:
            return metadata.version(self.library)
        except metadata.PackageNotFoundError:
            return None

    @property
    def fault(self) -> str:
        """What is wrong with it, in a few words; "" where nothing is."""
        if self.version is None:
            return f"{self.library} is missing"
        if _numbers(self.version) < _numbers(self.at_least):
            return f"{self.library} {self.version} is older than {self.at_least}"
        return ""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show what is installed, used and missing.

    Versions, vector instructions, threads and extras, with the line that installs a missing one. Exits with 1 where a
    library that is always needed is missing or too old.

    Example: anytime doctor
    """
    requirements = list(requirements_of(metadata.requires("anytime") or []))
    always = [needed for needed in requirements if not needed.extra]
    faults = [needed.fault for needed in always if needed.fault]
    machine = machine_facts()
    if as_json:
        print(
            json.dumps(
                {**machine, "libraries": _versions(always), "extras": extras(requirements), "faults": faults}
            )
        )
        raise typer.Exit(bool(faults))
    print_title(f"anytime {machine['version']}")
    for name, text in _described(machine).items():
        console().print(f"  {name:<12}{text}", soft_wrap=True, markup=False)
    print_table(
        ["<library", "<installed", "<needed"],
        [[needed.library, needed.version or "-", f">= {needed.at_least}"] for needed in always],
        title="Libraries",
    )
    print_table(
        ["<extra", "<state"],
        [[name, _state(name, **state)] for name, state in extras(requirements).items()],
        title="Extras",
    )
    if faults:
        console().print(f"\n{'; '.join(faults)}: pip install --upgrade anytime", soft_wrap=True, markup=False)
    raise typer.Exit(bool(faults))


def requirements_of(lines: Iterable[str]) -> Iterator[Requirement]:
    """Read ``Requires-Dist`` lines, without the extras that only developers need.

    Examples
    --------
    >>> list(requirements_of(["numpy>=1.26", 'onnx>=1.15; extra == "onnx"']))[1]
    Requirement(library='onnx', at_least='1.15', extra='onnx')
    """
    for line in lines:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        name = re.match(r"[\w.-]+", line)
        if name is None or (extra and extra[1] in _FOR_DEVELOPERS):
            continue
        at_least = re.search(r">=\s*([\w.]+)", line.partition(";")[0])
        yield Requirement(name[0], at_least[1] if at_least else "0", extra[1] if extra else "")


def extras(requirements: Iterable[Requirement]) -> dict[str, dict[str, Any]]:
    """State of every extra: its libraries with their versions, and what is wrong ("" where nothing is)."""
    by_extra: dict[str, list[Requirement]] = {}
    for needed in requirements:
        if needed.extra:
            by_extra.setdefault(needed.extra, []).append(needed)
    return {
        name: {
            "libraries": _versions(members),
            "fault": ", ".join(needed.fault for needed in members if needed.fault),
        }
        for name, members in by_extra.items()
    }


def machine_facts() -> dict[str, Any]:
    """Facts about the interpreter and the machine."""
    import anytime
    from anytime import _native
    from anytime.blas import blas_libraries

    return {
        "version": anytime.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "installed": os.path.dirname(anytime.__file__),
        "vectors_in_use": _native.vectors_in_use(),
        "vectors": _native.vectors(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "blas": blas_libraries(),
        "environment": {name: os.environ[name] for name in _THREAD_VARIABLES if name in os.environ},
    }


def _described(machine: dict[str, Any]) -> dict[str, str]:
    others = [name for name in machine["vectors"] if name != machine["vectors_in_use"]]
    settings = " ".join(f"{name}={value}" for name, value in machine["environment"].items())
    described = {
        "python": f"{machine['python']}, {machine['system']}",
        "installed": machine["installed"],
        "vectors": machine["vectors_in_use"]
        + (f" (this machine also has {', '.join(others)})" if others else ""),
        "threads": f"{machine['cores']} cores for this process; models use 1 unless n_jobs says more",
        "BLAS": ", ".join(
            f"{name}: {counted(threads, 'thread')}" for name, threads in machine["blas"].items()
        ),
        "set": settings,
    }
    return {name: text for name, text in described.items() if text}


def _versions(requirements: Iterable[Requirement]) -> dict[str, str | None]:
    return {needed.library: needed.version for needed in requirements}


def _state(extra: str, libraries: dict[str, str | None], fault: str) -> str:
    if fault:
        return f"{fault}: pip install 'anytime[{extra}]'"
    return ", ".join(f"{library} {version}" for library, version in libraries.items())


def _numbers(version: str) -> tuple[int, ...]:
    """The release of a version, for comparison: ``1.26.0rc1`` is ``(1, 26)``, and so is ``1.26``."""
    release = re.match(r"\d+(?:\.\d+)*", version)
    parts = [int(part) for part in release[0].split(".")] if release else []
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)
