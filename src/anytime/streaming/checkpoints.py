"""What a file keeps of a model on a stream: its plan, and all that it takes to continue learning bit for bit."""

import copy
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from anytime.plan import Plan
from anytime.streaming.categories import CategoryNumbers
from anytime.streaming.object_parameters import read_setting, write_setting
from anytime.streaming.one_by_one import OneByOne, PlanSnapshot
from anytime.streaming.stream_state import StreamState

_SETTINGS = ("learner", "loss", "algorithm", "drift")  # parameters that may be objects of this room


class Checkpoints(OneByOne):
    """A model that can be put down and taken up. Not used by itself."""

    def save(self, path: str | Path, *, learning: bool = True) -> None:
        """Write the model to an ``.anytime`` file; ``anytime.load`` reads it back.

        Parameters
        ----------
        path : str or path
        learning : bool, default=True
            Keep all that learning needs: what is loaded goes on, bit for bit, as if it had never been away. False: the plan
            alone, which is smaller and does not learn any more.
        """
        check_is_fitted(self, "plan_")
        if learning:
            super().save(path)
            return
        frozen = copy.copy(self)
        frozen.plan_ = self.plan_
        super(Checkpoints, frozen).save(path)

    def _file_state(self) -> dict[str, Any]:
        learning = self._learning
        return {
            **super()._file_state(),
            "numbers": None if learning is not None else self._numbers.state(),
            "learning": None if learning is None else learning.state(),
            "places": self._places,
            "open": None if self._open is None else self._open.state(),
            "position": self.position_,
            "source": self.source_,
            "settings": {name: write_setting(getattr(self, name)) for name in _SETTINGS},
        }

    def _restore_file_state(self, state: Mapping[str, Any]) -> None:
        super()._restore_file_state(state)
        plan = self.plan_
        for name in _SETTINGS:
            if state["settings"][name] is not None:
                setattr(self, name, read_setting(state["settings"][name]))
        self._places = self._checked_places(state["places"])
        self.position_ = int(state["position"])
        self.source_ = _checked_source(state.get("source"))
        self._restore_open(state["open"])
        if state["learning"] is None:
            self._numbers = CategoryNumbers.from_state(state["numbers"], self.n_features_in_)
            return
        learning = self._restored(state["learning"], plan)
        self._learning, self._numbers = learning, learning.categories
        reading = self._reading = PlanSnapshot(plan)
        reading.moment = self._moment(learning)

    def _restored(self, state: Mapping[str, Any], plan: Plan) -> StreamState:
        """What a file says was learned, tried out on a copy: a stranger may have written what cannot continue."""
        try:
            learning, trial = StreamState.from_state(state), StreamState.from_state(state)
            bank = learning.boosting.bank
            if (bank.n_features, bank.n_outputs) != (self.n_features_in_, plan.n_outputs):
                raise ValueError("the learners are not those of the plan")
            if learning.boosting.loss.link != plan.link or (learning.target is None) != hasattr(
                self, "classes_"
            ):
                raise ValueError("the loss is not one for this model")
            rows = np.zeros((2, self.n_features_in_))
            rows[1] = np.nan
            with np.errstate(all="ignore"):
                trial.learn(rows, np.zeros(2), None)
                self._plan_of(trial)
        except Exception as error:
            raise ValueError(f"learning cannot continue from this file: {error!r}") from error
        return learning

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if state.get("_learning") is not None:
            with suppress(TypeError):  # learners of one's own have no state: they are pickled as they are
                state["_learning"] = state["_learning"].state()
                state.pop("_numbers", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if isinstance(self.__dict__.get("_learning"), dict):
            self._learning = StreamState.from_state(self.__dict__["_learning"])
            self._numbers = self._learning.categories


def _checked_source(source: Any) -> dict[str, Any] | None:
    kinds = {"name": str, "n_rows": int, "digest": str}
    if source is not None and (
        not isinstance(source, dict)
        or {name: type(value) for name, value in source.items()} != kinds
        or source["n_rows"] < 1
    ):
        raise ValueError("the record that identifies the stream cannot be read")
    return source
