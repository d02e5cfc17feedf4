"""Streaming boosting: bounds, counter-examples, oracles, regret, certificates of a run, and what it is compared with."""
