"""Threads of the libraries of linear algebra."""

import functools
from contextlib import AbstractContextManager
from typing import Any

import scipy.linalg  # noqa: F401  # brings its own library, which is to be found below
from threadpoolctl import ThreadpoolController  # scikit-learn brings it


def blas_threads(most: int | None) -> AbstractContextManager[Any]:
    """A context in which products of matrices use at most so many threads; None: as many as they like."""
    limited: AbstractContextManager[Any] = _libraries().limit(limits=most, user_api="blas")
    return limited


def blas_libraries() -> dict[str, int]:
    """Threads of each library of linear algebra, by its name and version."""
    return {
        f"{library['internal_api']} {library['version']}": int(library["num_threads"])
        for library in _libraries().info()
        if library["user_api"] == "blas"
    }


@functools.cache
def _libraries() -> ThreadpoolController:
    """Found once, which takes 6 ms: safe as long as all products are those of numpy and scipy, which are loaded by now."""
    return ThreadpoolController()
