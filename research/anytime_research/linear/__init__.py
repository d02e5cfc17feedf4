"""Linear models: the best set of groups at every budget, by exhaustion, and what group pursuit is compared with."""
