"""A device as a stage of a plan: the message that it sends where its gate is open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.blocks import Block, LinearBlock, State
from anytime.sensing.problem import SensorGate

Array = NDArray[np.float64]


class SensorBlock(Block):
    """One stage: ``φ(z) h`` where the score ``z`` of a device is above 0, else nothing."""

    kind = "sensor"
    n_stages = 1

    def __init__(
        self,
        columns: ArrayLike,  # (m,): what the device sees
        # (m + 1, width): of what it says: coefficients of the columns less their ``centres``, then the offset
        message: ArrayLike,
        opening: ArrayLike,  # (m + 1,): of its score: the same
        centres: ArrayLike,  # (m,)
        gate: SensorGate,
        *,
        whole: bool = False,  # whether what it says counts in full where the gate is open, not times ``φ(z)``
    ) -> None:
        self.gate, self.whole = gate, whole
        self._arrays: dict[str, NDArray[Any]] = {
            "columns": np.asarray(columns, dtype=np.int32),
            "message": np.asarray(message, dtype=np.float64),
            "opening": np.asarray(opening, dtype=np.float64),
            "centres": np.asarray(centres, dtype=np.float64),
        }
        message_table, score = self._arrays["message"], self._arrays["opening"][:, None]
        self.message, self.score = (
            LinearBlock(columns, table[:-1], intercepts=table[-1:], centres=centres)
            for table in (message_table, score)
        )
        self.width = self.message.width

    def columns(self, stage: int) -> NDArray[np.int32]:
        """What the device sees."""
        return self.message.columns(0)

    def outputs(self, stage: int, X: Array) -> Array:
        """(n, width) what it says; 0 where it is silent."""
        z = self.score.outputs(0, X)
        return np.where(z > 0, (1.0 if self.whole else self.gate.value(z)) * self.message.outputs(0, X), 0.0)

    def head(self, n_stages: int) -> SensorBlock:
        """The block itself: it is one stage."""
        return self

    def state(self) -> State:
        """What a file keeps."""
        return {"gate": self.gate.kind, "slope": self.gate.slope, "whole": self.whole}, dict(self._arrays)

    @classmethod
    def from_state(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> SensorBlock:
        """Read what ``state`` gave."""
        gate = SensorGate(description["gate"], description["slope"])
        return cls(**arrays, gate=gate, whole=description["whole"])
