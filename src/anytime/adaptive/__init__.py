"""Cheap or costly: models that know when an expensive one is worth asking."""
