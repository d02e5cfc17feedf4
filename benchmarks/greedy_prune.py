"""BudgetPrune against GreedyPrune and cost-complexity pruning, all on the same rows (three methods of figure 4.3, Nan 2018).

``forest_pruning.py`` once gave the two baselines 500 rows that pay and BudgetPrune 5,000. Here every method has the same
forest of 40 entropy trees and the same validation rows. Neither baseline looks at what rows pay (GreedyPrune ranks by error,
``cost_penalty=0``), so that its figures must not depend on how many there are: this is the check.

    python benchmarks/greedy_prune.py [--data DIR] [--sets a:10,b] [--keep DIR]
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from _forest_curves import against, frontier, kept, summed
from _forest_prunings import COST_ROWS, N_PRUNINGS, base, budget_prune, complexity, one_by_one
from _forest_sets import SETS, asked
from common import write

METHODS = {"BudgetPrune": lambda b: budget_prune(b)[0], "CCP": complexity, "GreedyPrune": one_by_one}


def one_repeat(name: str, seed: int, folder: str, keep: Path | None) -> dict[str, Any]:
    """Test frontiers of the three methods on one draw."""

    def computed() -> dict[str, Any]:
        began = time.process_time()
        forest = base(SETS[name].split(name, folder, seed), seed, "entropy")
        found = {method: frontier({"entropy": prune(forest)}) for method, prune in METHODS.items()}
        return {"frontiers": found, "seconds": time.process_time() - began}

    return kept(keep, f"{name}/{seed}/same-rows", computed)


def main() -> None:
    """Run what is asked for."""
    options, wanted = asked(__doc__)
    sets = {}
    for name, repeats in wanted.items():
        runs = [one_repeat(name, seed, options.data, options.keep) for seed in repeats]
        frontiers = [run["frontiers"] for run in runs]
        sets[name] = {
            "repeats": len(runs),
            "processor seconds": sum(run["seconds"] for run in runs),
            "BudgetPrune against": {
                peer: summed([against(found["BudgetPrune"], found[peer]) for found in frontiers])
                for peer in ("CCP", "GreedyPrune")
            },
        }
        print(name, sets[name], flush=True)
    if not options.quick:
        write(
            "greedy_prune",
            {"prunings on a path": N_PRUNINGS, "rows that pay, at most": COST_ROWS, "sets": sets},
        )


if __name__ == "__main__":
    main()
