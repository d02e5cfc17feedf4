"""Theory of budgeted trees and of pruning: the linear program and its network, exact optima of small trees, baselines."""
