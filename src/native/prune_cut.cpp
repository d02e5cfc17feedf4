#include "prune_cut.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace anytime {
namespace {

constexpr int32_t kFar = std::numeric_limits<int32_t>::max();  // no way to the sink

// Push-relabel. Money moves from a split to a pair, where it stays (the sink) or takes the place of what
// another split has paid, which gets it back; to the parent; or back to a child. Labels are lower bounds of
// the number of steps to the sink; money moves to where there is one step less. Highest label first; exact
// labels from time to time.
class Flow {
 public:
  Flow(OpenGraph open, CutWork* work)
      : o_(std::move(open)),
        work_(work),
        flow_(o_.link_pair.size(), 0),
        up_flow_(o_.split.size(), 0),
        cursor_(o_.split.size(), 0),
        label_(o_.split.size(), kFar),
        pair_label_(o_.room.size(), kFar),
        is_waiting_(o_.split.size(), 0) {}

  void run() {
    share_prices();
    search();
    const auto pause = 2 * static_cast<int64_t>(o_.link_pair.size()) + 1000;
    for (int32_t k; (k = highest()) >= 0;) {
      discharge(k);
      if (seen_ > pause) search();
    }
  }
  std::vector<uint8_t> source_side() const;
  const OpenGraph& open() const noexcept { return o_; }

 private:
  OpenGraph o_;
  CutWork* work_;
  std::vector<int64_t> flow_, up_flow_;  // of links, and from splits to their parents
  std::vector<int64_t> cursor_;          // the link of a split to try next
  std::vector<int32_t> label_, pair_label_;
  std::vector<int64_t> count_;                 // of splits and pairs by label
  std::vector<std::vector<int32_t>> waiting_;  // splits with money, by label
  std::vector<uint8_t> is_waiting_;
  int32_t top_ = -1;
  int64_t seen_ = 0;  // links, since the last search

  void share_prices();
  void discharge(int32_t k);
  int64_t pay(int32_t pair, int32_t payer, int64_t offered, bool has_paid);
  void relabel(int32_t k);
  void search();
  void find_labels();

  void receive(int32_t k, int64_t amount) {
    o_.money[k] += amount;
    if (o_.money[k] > 0) wait(k);
  }
  void wait(int32_t k) {
    if (is_waiting_[k] || label_[k] == kFar) return;
    is_waiting_[k] = 1;
    if (static_cast<size_t>(label_[k]) >= waiting_.size()) waiting_.resize(label_[k] + 1);
    waiting_[label_[k]].push_back(k);
    top_ = std::max(top_, label_[k]);
  }
  int32_t highest() {
    for (; top_ >= 0; --top_) {
      if (waiting_[top_].empty()) continue;
      const int32_t k = waiting_[top_].back();
      waiting_[top_].pop_back();
      is_waiting_[k] = 0;
      return k;
    }
    return -1;
  }

  void count(int32_t label) {
    if (label == kFar) return;
    if (static_cast<size_t>(label) >= count_.size()) count_.resize(label + 1, 0);
    ++count_[label];
  }
  void move(int32_t* label, int32_t to) {
    const int32_t from = std::exchange(*label, to);
    count(to);
    if (--count_[from] == 0) cut_off(from);
  }
  // Nobody has this label any more: from above there is no way to the sink. Pairs will find out when they are
  // asked.
  void cut_off(int32_t gap) {
    for (int32_t& label : label_) {
      if (label <= gap || label == kFar) continue;
      --count_[label];
      label = kFar;
    }
  }
};

// A first flow: the price of a pair is shared evenly, as far as the splits have money; what they have left
// goes to the parent.
void Flow::share_prices() {
  std::vector<int64_t> part(o_.room);
  for (int32_t p = 0; p < o_.n_pairs(); ++p) part[p] /= o_.pair_start[p + 1] - o_.pair_start[p];
  for (int32_t k = o_.n_splits(); k-- > 0;) {
    if (o_.money[k] <= 0) continue;
    double asked = 1.0;
    for (int64_t l = o_.link_start[k]; l < o_.link_start[k + 1]; ++l)
      asked += static_cast<double>(part[o_.link_pair[l]]);
    const double share = static_cast<double>(o_.money[k]) / asked;
    for (int64_t l = o_.link_start[k]; l < o_.link_start[k + 1]; ++l) {
      const int64_t full = part[o_.link_pair[l]];
      const int64_t amount = share < 1.0 ? static_cast<int64_t>(share * static_cast<double>(full)) : full;
      flow_[l] = std::min(amount, o_.money[k]);
      o_.room[o_.link_pair[l]] -= flow_[l];
      o_.money[k] -= flow_[l];
    }
    if (share < 1.0 || o_.up[k] < 0) continue;
    up_flow_[k] = std::exchange(o_.money[k], 0);
    o_.money[o_.up[k]] += up_flow_[k];
  }
}

void Flow::discharge(int32_t k) {
  while (o_.money[k] > 0 && label_[k] != kFar) {
    const int32_t below = label_[k] - 1, up = o_.up[k];
    for (int64_t& l = cursor_[k]; l < o_.link_start[k + 1]; ++l) {
      ++seen_;
      if (pair_label_[o_.link_pair[l]] != below) continue;
      const int64_t paid = pay(o_.link_pair[l], k, o_.money[k], flow_[l] > 0);
      flow_[l] += paid;
      o_.money[k] -= paid;
      if (o_.money[k] == 0 || label_[k] == kFar) return;
    }
    if (up >= 0 && label_[up] == below) {
      ++work_->pushes;
      up_flow_[k] += o_.money[k];
      receive(up, std::exchange(o_.money[k], 0));
      return;
    }
    for (const int32_t child : o_.children(k)) {
      if (label_[child] != below || up_flow_[child] == 0) continue;
      ++work_->pushes;
      const int64_t back = std::min(up_flow_[child], o_.money[k]);
      up_flow_[child] -= back;
      o_.money[k] -= back;
      receive(child, back);
      if (o_.money[k] == 0) return;
    }
    relabel(k);
  }
}

// What a pair takes of the money offered: for the sink, or to give it back to splits that have paid and are
// nearer.
int64_t Flow::pay(int32_t pair, int32_t payer, int64_t offered, bool has_paid) {
  ++work_->pushes;
  int64_t left = offered - std::min(offered, o_.room[pair]);
  o_.room[pair] -= offered - left;
  if (left == 0) return offered;
  int32_t lowest = kFar;
  for (int64_t e = o_.pair_start[pair]; e < o_.pair_start[pair + 1]; ++e) {
    const int32_t other = o_.pair_split[e], label = label_[other];
    if (label >= lowest) continue;
    int64_t& flow = flow_[o_.pair_link[e]];
    if (flow > 0 && label == pair_label_[pair] - 1) {
      const int64_t back = std::min(flow, left);
      flow -= back;
      left -= back;
      receive(other, back);
      if (left == 0) return offered;
    }
    if (flow > 0) lowest = label;
  }
  seen_ += o_.pair_start[pair + 1] - o_.pair_start[pair];
  if (has_paid || left < offered) lowest = std::min(lowest, label_[payer]);
  move(&pair_label_[pair], lowest == kFar ? kFar : lowest + 1);
  return offered - left;
}

void Flow::relabel(int32_t k) {
  ++work_->relabels;
  seen_ += o_.link_start[k + 1] - o_.link_start[k];
  int32_t lowest = o_.up[k] >= 0 ? label_[o_.up[k]] : kFar;
  for (const int32_t child : o_.children(k)) {
    if (up_flow_[child] > 0) lowest = std::min(lowest, label_[child]);
  }
  for (int64_t l = o_.link_start[k]; l < o_.link_start[k + 1]; ++l)
    lowest = std::min(lowest, pair_label_[o_.link_pair[l]]);
  cursor_[k] = o_.link_start[k];
  move(&label_[k], lowest == kFar ? kFar : lowest + 1);
}

void Flow::search() {
  ++work_->searches;
  find_labels();
  count_.assign(count_.size(), 0);
  for (const int32_t label : label_) count(label);
  for (const int32_t label : pair_label_) count(label);
  for (auto& level : waiting_) level.clear();
  std::ranges::fill(is_waiting_, uint8_t{0});
  top_ = -1;
  seen_ = 0;
  for (int32_t k = 0; k < o_.n_splits(); ++k) {
    cursor_[k] = o_.link_start[k];
    if (o_.money[k] > 0) wait(k);
  }
}

// Exact labels, from the sink outwards. Splits next to a pair with room are found by looking from the split,
// which ends with the first such pair.
void Flow::find_labels() {
  std::ranges::transform(o_.room, pair_label_.begin(), [](int64_t room) { return room > 0 ? 1 : kFar; });
  std::vector<int32_t> now, next, pairs, next_pairs;
  for (int32_t k = 0; k < o_.n_splits(); ++k) {
    label_[k] = o_.money[k] < 0 ? 1 : kFar;
    if (o_.money[k] < 0) now.push_back(k);
    for (int64_t l = o_.link_start[k]; label_[k] == kFar && l < o_.link_start[k + 1]; ++l) {
      if (pair_label_[o_.link_pair[l]] != 1) continue;
      label_[k] = 2;
      next.push_back(k);
    }
  }
  for (int32_t level = 1; !now.empty() || !pairs.empty() || !next.empty(); ++level) {
    const auto reach = [&](int32_t k) {
      if (label_[k] != kFar) return;
      label_[k] = level + 1;
      next.push_back(k);
    };
    for (const int32_t k : now) {
      for (int64_t l = o_.link_start[k]; l < o_.link_start[k + 1]; ++l) {
        if (flow_[l] == 0 || pair_label_[o_.link_pair[l]] != kFar) continue;
        pair_label_[o_.link_pair[l]] = level + 1;
        next_pairs.push_back(o_.link_pair[l]);
      }
      std::ranges::for_each(o_.children(k), reach);
      if (o_.up[k] >= 0 && up_flow_[k] > 0) reach(o_.up[k]);
    }
    for (const int32_t p : pairs) {
      for (int64_t e = o_.pair_start[p]; e < o_.pair_start[p + 1]; ++e) reach(o_.pair_split[e]);
    }
    now = std::exchange(next, {});
    pairs = std::exchange(next_pairs, {});
  }
}

// Where the money that is left could go: the smallest source side of a minimum cut.
std::vector<uint8_t> Flow::source_side() const {
  std::vector<uint8_t> inside(o_.split.size(), 0), pair_inside(o_.room.size(), 0);
  std::vector<int32_t> pending;
  const auto add = [&](int32_t k) {
    if (!std::exchange(inside[k], uint8_t{1})) pending.push_back(k);
  };
  for (int32_t k = 0; k < o_.n_splits(); ++k) {
    if (o_.money[k] > 0) add(k);
  }
  while (!pending.empty()) {
    const int32_t k = pending.back();
    pending.pop_back();
    if (o_.up[k] >= 0) add(o_.up[k]);
    for (const int32_t child : o_.children(k)) {
      if (up_flow_[child] > 0) add(child);
    }
    for (int64_t l = o_.link_start[k]; l < o_.link_start[k + 1]; ++l) {
      const int32_t p = o_.link_pair[l];
      if (std::exchange(pair_inside[p], uint8_t{1})) continue;
      for (int64_t e = o_.pair_start[p]; e < o_.pair_start[p + 1]; ++e) {
        if (flow_[o_.pair_link[e]] > 0) add(o_.pair_split[e]);
      }
    }
  }
  return inside;
}

}  // namespace

CutWork cut(const PruneGraph& graph, const PruneMoney& money, std::span<Fate> fate) {
  CutWork work;
  Flow flow(open_graph(graph, money, fate), &work);
  flow.run();
  const auto inside = flow.source_side();
  for (size_t k = 0; k < inside.size(); ++k)
    fate[flow.open().split[k]] = inside[k] ? Fate::kInternal : Fate::kPruned;
  work.open_splits = flow.open().n_splits();
  work.open_links = static_cast<int64_t>(flow.open().link_pair.size());
  return work;
}

}  // namespace anytime
