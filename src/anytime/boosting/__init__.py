"""Boosting: gradient descent in a space of functions, one weak learner at a time."""
