"""Runs any plan within a budget, before a deadline, or until it is interrupted.

``Session`` answers for one raw example and computes features on demand; ``BatchSession`` takes many through the stages together.
"""

from anytime._native import StopFlag
from anytime.runtime.account import Account
from anytime.runtime.batch import BatchSession
from anytime.runtime.session import Session
from anytime.runtime.timing import Timings
from anytime.runtime.trace import Event, ReplayError, Trace, replay

__all__ = [
    "Account",
    "BatchSession",
    "Event",
    "ReplayError",
    "Session",
    "StopFlag",
    "Timings",
    "Trace",
    "replay",
]
