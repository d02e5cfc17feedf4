// The best pruning, exactly: a minimum cut.
//
// A split that stays internal gains money, needs its parent, and needs its pairs (group, row), each of which
// costs its price once, whoever pays. Who pays how much of what is a flow from splits to pairs; splits where
// money is left that no pair will take stay internal. All amounts are whole numbers: the answer has no
// rounding in it and does not depend on the order of the work.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "prune.hpp"
#include "prune_open.hpp"

namespace anytime {

struct CutWork {
  int64_t open_splits = 0, open_links = 0, pushes = 0, relabels = 0, searches = 0;
};

// Settles the fate of every split: of all best prunings, the one with the fewest splits. What `fate` says
// already must be true of it. Positive gains must add up to less than 2^61.
CutWork cut(const PruneGraph& graph, const PruneMoney& money, std::span<Fate> fate);

}  // namespace anytime
