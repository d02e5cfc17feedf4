"""Distributed sensing: devices that decide from what they see alone whether to speak, and a cloud that adds up what they say."""

from anytime.sensing.sensor_networks import SensorNetworkClassifier, SensorNetworkRegressor, SensorReport
from anytime.sensing.solvers import DirectGates

__all__ = ["DirectGates", "SensorNetworkClassifier", "SensorNetworkRegressor", "SensorReport"]
