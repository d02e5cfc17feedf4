"""Features on demand: raw examples are answered by sessions, which ask extractors for the groups on each example's own path."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from anytime.estimator import AnytimeModel
from anytime.features import Features

if TYPE_CHECKING:
    from anytime.serve.engine import Question, Served

__all__ = ["Extraction", "Extractors"]

logger = logging.getLogger("anytime.serve")


@dataclass(frozen=True)
class Extractors:
    """What a server knows of extractors: the functions, and how many calls of each may run at once."""

    features: Features
    limits: Mapping[str, int] = field(default_factory=dict)
    timeouts: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Extractors:
        """Run a Python file that sets ``features`` and may set ``limits`` and ``timeouts``."""
        spec = importlib.util.spec_from_file_location("anytime_extractors", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        features = getattr(module, "features", None)
        features = Features(features) if isinstance(features, Mapping) else features
        if not isinstance(features, Features):
            raise ValueError(f"{path} has to set features = anytime.Features({{group: function}})")
        return cls(features, getattr(module, "limits", {}), getattr(module, "timeouts", {}))


class Extraction:
    """Answers raw examples."""

    def __init__(self, model: AnytimeModel, extractors: Extractors) -> None:
        self.model, self.extractors = model, extractors

    @classmethod
    def of(cls, model: AnytimeModel, extractors: Extractors, name: str) -> Extraction | None:
        """For one of several models; None, and a line in the log, where the extractors are not made for it."""
        try:
            return cls(model, extractors)
        except ValueError as error:
            logger.warning("no features on demand", extra={"fields": {"model": name, "error": str(error)}})
            return None

    async def answer(self, question: Question, due: float, version: str) -> Served:
        """The best answer that there is time for."""
        raise NotImplementedError
