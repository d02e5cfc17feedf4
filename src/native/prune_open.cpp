#include "prune_open.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace anytime {
namespace {

class Settling {
 public:
  Settling(const PruneGraph& graph, const PruneMoney& money, std::span<Fate> fate)
      : graph_(graph), money_(money), fate_(fate), paid_(graph.n_pairs(), 0) {
    for (const int64_t gain : money.gain) total_ += std::max<int64_t>(gain, 0);
    for (int32_t s = 0; s < graph.n_splits(); ++s) {
      if (fate_[s] == Fate::kInternal) pay(s);
    }
  }

  void prune_useless();
  void keep_profitable();
  OpenGraph rest() const;

 private:
  const PruneGraph& graph_;
  const PruneMoney& money_;
  std::span<Fate> fate_;
  std::vector<uint8_t> paid_;  // pairs that a settled split needs
  int64_t total_ = 0;

  size_t pair(int32_t group, int32_t row) const noexcept {
    return static_cast<size_t>(group) * graph_.n_rows() + row;
  }
  // Nobody can pay more than there is.
  int64_t price(int32_t group, int32_t row) const noexcept {
    const double price = std::ceil(money_.rate[group] * graph_.weight()[row]);
    return price < static_cast<double>(total_) ? static_cast<int64_t>(price) : total_ + 1;
  }
  void pay(int32_t split) {
    graph_.each_pair(split, [&](int32_t group, int32_t row) { paid_[pair(group, row)] = 1; });
  }
  int64_t price_alone(int32_t split, int64_t enough) const;
  void add_splits(OpenGraph* out) const;
  std::vector<int32_t> add_pairs(OpenGraph* out) const;
};

// A split below which nothing is gained even if all pairs are free.
void Settling::prune_useless() {
  std::vector<int64_t> worth(money_.gain.begin(), money_.gain.end());
  for (int32_t s = graph_.n_splits(); s-- > 0;) {
    if (fate_[s] == Fate::kOpen && worth[s] <= 0) fate_[s] = Fate::kPruned;
    if (fate_[s] != Fate::kPruned && graph_.up()[s] >= 0) worth[graph_.up()[s]] += worth[s];
  }
  for (int32_t s = 0; s < graph_.n_splits(); ++s) {
    const int32_t up = graph_.up()[s];
    if (up >= 0 && fate_[up] == Fate::kPruned) fate_[s] = Fate::kPruned;
  }
}

// What a tree would keep if it had to pay for everything alone is kept in company too; what it needs is then
// free for all others, which may find that they can pay the rest alone.
void Settling::keep_profitable() {
  std::vector<int64_t> worth(money_.gain.size());
  for (bool changed = true; changed;) {
    changed = false;
    std::ranges::copy(money_.gain, worth.begin());
    for (int32_t s = graph_.n_splits(); s-- > 0;) {
      if (fate_[s] != Fate::kOpen || worth[s] <= 0) continue;
      worth[s] -= price_alone(s, worth[s]);
      if (worth[s] > 0 && graph_.up()[s] >= 0) worth[graph_.up()[s]] += worth[s];
    }
    for (int32_t s = 0; s < graph_.n_splits(); ++s) {
      const int32_t up = graph_.up()[s];
      if (fate_[s] != Fate::kOpen || worth[s] <= 0 || (up >= 0 && fate_[up] != Fate::kInternal)) continue;
      fate_[s] = Fate::kInternal;
      pay(s);
      changed = true;
    }
  }
}

// What a split's own pairs cost that nobody pays yet. Counting stops at `enough`.
int64_t Settling::price_alone(int32_t split, int64_t enough) const {
  int64_t sum = 0;
  for (const int32_t block : graph_.blocks_of_split(split)) {
    const int32_t group = graph_.blocks()[block].group;
    for (const int32_t row : graph_.rows(split)) {
      if (paid_[pair(group, row)]) continue;
      sum += price(group, row);
      if (sum >= enough) return sum;
    }
  }
  return sum;
}

void Settling::add_splits(OpenGraph* out) const {
  std::vector<int32_t> number(fate_.size(), -1);
  for (int32_t s = 0; s < graph_.n_splits(); ++s) {
    if (fate_[s] != Fate::kOpen) continue;
    number[s] = out->n_splits();
    out->split.push_back(s);
    out->up.push_back(graph_.up()[s] >= 0 ? number[graph_.up()[s]] : -1);
    out->money.push_back(money_.gain[s]);
  }
  out->child_start.assign(out->split.size() + 1, 0);
  for (const int32_t up : out->up) {
    if (up >= 0) ++out->child_start[up + 1];
  }
  std::partial_sum(out->child_start.begin(), out->child_start.end(), out->child_start.begin());
  out->child.resize(out->child_start.back());
  std::vector<int32_t> next(out->child_start.begin(), out->child_start.end() - 1);
  for (int32_t k = 0; k < out->n_splits(); ++k) {
    if (out->up[k] >= 0) out->child[next[out->up[k]]++] = k;
  }
}

// Pairs that at least two open splits need. Returns the number of every pair, -1 if it has none.
std::vector<int32_t> Settling::add_pairs(OpenGraph* out) const {
  std::vector<int32_t> needs(paid_.size(), 0);
  for (const int32_t s : out->split)
    graph_.each_pair(s, [&](int32_t group, int32_t row) { ++needs[pair(group, row)]; });
  out->pair_start.push_back(0);
  for (int32_t group = 0; group < graph_.n_groups(); ++group) {
    for (int32_t row = 0; row < graph_.n_rows(); ++row) {
      const size_t p = pair(group, row);
      const int32_t n = std::exchange(needs[p], -1);
      if (paid_[p] || n < 2) continue;
      needs[p] = out->n_pairs();
      out->room.push_back(price(group, row));
      out->pair_start.push_back(out->pair_start.back() + n);
    }
  }
  return needs;
}

OpenGraph Settling::rest() const {
  OpenGraph out;
  add_splits(&out);
  const std::vector<int32_t> number = add_pairs(&out);
  const int64_t n_links = out.pair_start.back();
  if (n_links > std::numeric_limits<uint32_t>::max())
    throw std::invalid_argument("more than 2^32 links are open; use fewer cost rows");
  out.link_pair.reserve(n_links);
  out.pair_split.resize(n_links);
  out.pair_link.resize(n_links);
  std::vector<int64_t> next(out.pair_start.begin(), out.pair_start.end() - 1);
  out.link_start.push_back(0);
  for (int32_t k = 0; k < out.n_splits(); ++k) {
    graph_.each_pair(out.split[k], [&](int32_t group, int32_t row) {
      const size_t p = pair(group, row);
      if (paid_[p]) return;
      if (number[p] < 0) {  // the only one to need it
        out.money[k] = std::max(out.money[k] - price(group, row), -total_ - 1);
        return;
      }
      const int64_t at = next[number[p]]++;
      out.pair_split[at] = k;
      out.pair_link[at] = static_cast<uint32_t>(out.link_pair.size());
      out.link_pair.push_back(number[p]);
    });
    out.link_start.push_back(static_cast<int64_t>(out.link_pair.size()));
  }
  return out;
}

}  // namespace

OpenGraph open_graph(const PruneGraph& graph, const PruneMoney& money, std::span<Fate> fate) {
  Settling settling(graph, money, fate);
  settling.prune_useless();
  settling.keep_profitable();
  return settling.rest();
}

}  // namespace anytime
