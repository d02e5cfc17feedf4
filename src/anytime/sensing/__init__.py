"""Distributed sensing: each device decides from its own features whether to send, and a receiver adds up the scores."""

from anytime.sensing.sensor_networks import SensorNetworkClassifier, SensorNetworkRegressor, SensorReport
from anytime.sensing.solvers import DirectGates

__all__ = ["DirectGates", "SensorNetworkClassifier", "SensorNetworkRegressor", "SensorReport"]
