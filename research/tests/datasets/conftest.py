"""A data folder for tiny files."""

from tests.datasets.conftest import folder, put

__all__ = ["folder", "put"]
