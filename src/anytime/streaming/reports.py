"""What a model on a stream knows of itself: how it has done so far, learner by learner and prefix by prefix."""

from __future__ import annotations

from anytime.plan import Array
from anytime.streaming.monitors import EdgeKind
from anytime.streaming.one_by_one import OneByOne
from anytime.streaming.stream_state import StreamState


class StreamReports(OneByOne):
    """A model that reports on its stream. Not used by itself."""

    @property
    def rows_seen_(self) -> int:
        """Rows learned from, in all passes."""
        if self._open is not None:
            return self._open.n_rows
        return self._learnt.n_rows

    @property
    def n_estimators_(self) -> int:
        """Learners, those appended included."""
        return self._learnt.boosting.n_estimators

    @property
    def edges_(self) -> Array:
        """(N,) measured edge of every learner: 1 less the share of its targets that it left unfitted."""
        return self.edges()

    def edges(self, kind: EdgeKind = "running") -> Array:
        """(N,) measured edges: since the start ("running"), with old rows fading ("discounted"), or "windowed"."""
        return self._learnt.boosting.monitor.edge(kind)

    @property
    def prefix_losses_(self) -> Array:
        """(N + 1,) recent mean loss of every prefix on rows that it had not learned yet, in the units of ``loss``."""
        return self._learnt.boosting.prefix_losses.means()

    @property
    def best_prefix_(self) -> int:
        """How many learners make the prefix of least recent loss."""
        return self._learnt.boosting.best_prefix()

    @property
    def progressive_error_(self) -> float:
        """Of all predictions made before learning: root mean square error, or the share of wrong classes."""
        return self._learnt.error

    @property
    def n_alarms_(self) -> int:
        """How often ``drift`` has met a change."""
        return self._learnt.boosting.n_alarms

    @property
    def _learnt(self) -> StreamState:
        if self._learning is None:
            raise AttributeError(
                f"this {type(self).__name__} holds a plan and no learners, or is not fitted yet"
            )
        return self._learning
