"""Boosting on data streams: models that learn from rows as they come and can be read at any moment."""
