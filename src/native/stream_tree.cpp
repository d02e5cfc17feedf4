#include "stream_tree.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "class_grow_random.hpp"

namespace anytime {
namespace {

constexpr double kLeast = 5.0;  // the least weight of a side of a split
// How many leaves of a tree have bins at a time, of `size` numbers each: what fits into 128 kilobytes; eight
// if they fit into 512; two in any case.
constexpr size_t slots_of(size_t size) noexcept {
  return std::max({size_t{2}, (size_t{1} << 15) / size, std::min(size_t{8}, (size_t{1} << 17) / size)});
}
constexpr int32_t kMostBins = 256;
constexpr double kPatience = 20.0;  // looks in vain after which a leaf leaves its slot to one that waits

}  // namespace

StreamTree::StreamTree(const StreamTreeSettings& settings, int64_t n_columns, int64_t n_outputs,
                       uint64_t number, int64_t sleep)
    : settings_(settings),
      n_outputs_(n_outputs),
      entry_(static_cast<size_t>(1 + n_outputs)),
      column_size_(static_cast<size_t>(settings.n_bins + 1) * entry_),
      sleep_(sleep),
      added_(entry_),
      scratch_(3 * entry_) {
  RandomStream random(settings.seed, number);
  Sampler sampler(n_columns, settings.width, random);
  for (int32_t column = 0; column < n_columns; ++column) {
    if (sampler.take()) columns_.push_back(column);
  }
  restart();
  sleep_ = sleep;
}

void StreamTree::restart() {
  nodes_.assign(1, {});
  leaves_.assign(1, {});
  values_.assign(static_cast<size_t>(n_outputs_), 0.0);
  early_.clear();
  pool_.clear();
  free_.clear();
  sleep_ = 0;
  wanted_ = false;
}

// Empty bins for the leaf; false when there is no room.
bool StreamTree::take_slot(Leaf& leaf) {
  if (free_.empty()) {
    const size_t taken = pool_.size() / slot_size();
    if (taken >= slots_of(slot_size())) return false;
    free_.push_back(static_cast<int32_t>(taken));
    pool_.resize(pool_.size() + slot_size());
  }
  leaf.slot = free_.back();
  leaf.since = 0;
  leaf.square = 0.0;
  free_.pop_back();
  std::fill_n(pool_.begin() + leaf.slot * static_cast<int64_t>(slot_size()), slot_size(), 0.0f);
  return true;
}

// mean += weight (1 + fade) / (count + fade) * (target - mean): polynomial decay, a plain mean without fade.
// A count beyond the memory is cut to it.
void StreamTree::move_mean(int32_t leaf, const double* target, double weight) noexcept {
  double& count = leaves_[static_cast<size_t>(leaf)].count;
  count += weight;
  if (settings_.memory > 0.0) count = std::min(count, std::max(settings_.memory, weight));
  const double step = std::min(1.0, weight * (1.0 + settings_.fade) / (count + settings_.fade));
  double* mean = values_.data() + leaf * n_outputs_;
  for (int64_t k = 0; k < n_outputs_; ++k) mean[k] += step * (target[k] - mean[k]);
}

void StreamTree::remember(const double* target, double weight) {
  if (sleep_ > 0) {
    --sleep_;
    return;
  }
  move_mean(0, target, weight);
  early_.push_back(weight);
  early_.insert(early_.end(), target, target + n_outputs_);
}

void StreamTree::recall(const StreamBins& bins) {
  const auto n = static_cast<int64_t>(early_.size() / entry_);
  std::vector<uint8_t> codes(static_cast<size_t>(bins.n_columns()));
  if (n > 0) take_slot(leaves_[0]);
  for (int64_t row = std::max<int64_t>(n - bins.n_kept(), 0); row < n; ++row) {
    const double* known = early_.data() + static_cast<size_t>(row) * entry_;
    bins.codes(bins.kept(n - 1 - row), codes.data());
    count(0, codes.data(), known + 1, known[0]);
  }
  early_.clear();
  early_.shrink_to_fit();
  if (n > 0 && leaves_[0].since >= settings_.grace) look_for_split(0, bins);
}

void StreamTree::learn(int32_t leaf, const uint8_t* codes, const double* target, double weight,
                       const StreamBins& bins) {
  if (sleep_ > 0) {
    --sleep_;
    return;
  }
  move_mean(leaf, target, weight);
  Leaf& at = leaves_[static_cast<size_t>(leaf)];
  if (at.slot < 0) {
    if (!open(at)) return;
    if (!take_slot(at)) {
      wanted_ = true;
      return;
    }
  }
  count(leaf, codes, target, weight);
  if (at.since >= settings_.grace) look_for_split(leaf, bins);
}

void StreamTree::count(int32_t leaf, const uint8_t* codes, const double* target, double weight) noexcept {
  Leaf& at = leaves_[static_cast<size_t>(leaf)];
  float* bins = pool_.data() + static_cast<size_t>(at.slot) * slot_size();
  double square = 0.0;
  for (int64_t k = 0; k < n_outputs_; ++k) square += target[k] * target[k];
  at.square += weight * square;
  ++at.since;
  if (n_outputs_ == 1) {
    const auto mass = static_cast<float>(weight), sum = static_cast<float>(weight * target[0]);
    for (const int32_t column : columns_) {
      float* bin = bins + 2 * static_cast<size_t>(codes[column]);
      bin[0] += mass;
      bin[1] += sum;
      bins += column_size_;
    }
    return;
  }
  added_[0] = static_cast<float>(weight);
  for (size_t k = 1; k < entry_; ++k) added_[k] = static_cast<float>(weight * target[k - 1]);
  for (const int32_t column : columns_) {
    float* bin = bins + entry_ * static_cast<size_t>(codes[column]);
    for (size_t k = 0; k < entry_; ++k) bin[k] += added_[k];
    bins += column_size_;
  }
}

// |sum left|^2 / weight left + |sum right|^2 / weight right - |sum|^2 / weight, in one fraction; 0 when a
// side is too small.
double StreamTree::gain(const double* left, const double* total) const noexcept {
  const double right = total[0] - left[0];
  if (left[0] < kLeast || right < kLeast) return 0.0;
  double square = 0.0;
  for (size_t k = 1; k < entry_; ++k) {
    const double apart = total[0] * left[k] - left[0] * total[k];
    square += apart * apart;
  }
  return square / (total[0] * left[0] * right);
}

// The same for one output and all cuts at once: a loop that turns into vectors.
double StreamTree::best_cut_of_one(const float* bins, int32_t n_cuts, Split& best) const noexcept {
  double weights[kMostBins], sums[kMostBins], gains[kMostBins];
  double weight = 0.0, sum = 0.0;
  for (int32_t bin = 0; bin <= n_cuts; ++bin) {
    weights[bin] = weight += static_cast<double>(bins[2 * bin]);
    sums[bin] = sum += static_cast<double>(bins[2 * bin + 1]);
  }
  for (int32_t bin = 0; bin < n_cuts; ++bin) {
    const double apart = weight * sums[bin] - weights[bin] * sum, right = weight - weights[bin];
    const double found = apart * apart / (weight * weights[bin] * right);
    gains[bin] = weights[bin] < kLeast || right < kLeast ? 0.0 : found;
  }
  double most = 0.0;
  for (int32_t bin = 0; bin < n_cuts; ++bin) {
    if (gains[bin] <= most) continue;
    most = gains[bin];
    best.bin = bin;
  }
  best.missing_left = best.bin >= 0 && 2.0 * weights[best.bin] > weight;
  return most;
}

// The best cut of one column: what it gains. Its bin and the side of missing values go to `best`.
double StreamTree::best_cut(const float* bins, int32_t n_cuts, Split& best) const noexcept {
  const float* const missing = bins + static_cast<size_t>(settings_.n_bins) * entry_;
  const bool none = !(missing[0] > 0.0f);
  if (none && n_outputs_ == 1) return best_cut_of_one(bins, n_cuts, best);
  double* const total = scratch_.data();
  double* const left = total + entry_;
  double* const other = left + entry_;  // missing values are on the left too
  std::fill(total, total + entry_, 0.0);
  for (int32_t bin = 0; bin <= n_cuts; ++bin) {
    const float* own = bins + static_cast<size_t>(bin) * entry_;
    for (size_t k = 0; k < entry_; ++k) total[k] += static_cast<double>(own[k]);
  }
  for (size_t k = 0; k < entry_; ++k) {
    total[k] += static_cast<double>(missing[k]);
    left[k] = 0.0;
    other[k] = static_cast<double>(missing[k]);
  }
  double most = 0.0;
  for (int32_t bin = 0; bin < n_cuts; ++bin, bins += entry_) {
    for (size_t k = 0; k < entry_; ++k) left[k] += static_cast<double>(bins[k]);
    if (const double found = gain(left, total); found > most) {
      most = found;
      best.bin = bin;
      best.missing_left = none && 2.0 * left[0] > total[0];  // later ones go to the larger side
    }
    if (none) continue;
    for (size_t k = 0; k < entry_; ++k) other[k] += static_cast<double>(bins[k]);
    if (const double found = gain(other, total); found > most) {
      most = found;
      best.bin = bin;
      best.missing_left = true;
    }
  }
  return most;
}

StreamTree::Split StreamTree::best_split(const float* bins, const StreamBins& all) const noexcept {
  Split best;
  for (size_t place = 0; place < columns_.size(); ++place, bins += column_size_) {
    Split here;
    const double gain = best_cut(bins, all.n_cuts(columns_[place]), here);
    if (gain > best.gain) {
      here.gain = gain;
      here.second = best.gain;
      here.place = place;
      best = here;
    } else {
      best.second = std::max(best.second, gain);
    }
  }
  return best;
}

void StreamTree::look_for_split(int32_t leaf, const StreamBins& bins) {
  Leaf& at = leaves_[static_cast<size_t>(leaf)];
  at.since = 0;
  const float* const own = bins_of(at.slot);
  const Split best = best_split(own, bins);
  double weight = 0.0, squares = 0.0;
  int64_t candidates = 0;
  for (const int32_t column : columns_) candidates += bins.n_cuts(column);
  std::fill(scratch_.begin(), scratch_.begin() + static_cast<int64_t>(entry_), 0.0);
  for (size_t i = 0; i < column_size_; ++i) scratch_[i % entry_] += static_cast<double>(own[i]);
  weight = scratch_[0];
  for (size_t k = 1; k < entry_; ++k) squares += scratch_[k] * scratch_[k] / weight;

  // The gain of a useless cut is a variance times chi squared over its degrees of freedom, one per output; of
  // so many cuts the best comes this far by a small chance only (Laurent and Massart 2000).
  const double variance = std::max(at.square - squares - best.gain, 0.0) / weight;
  const double rare = std::log(static_cast<double>(candidates + 1) / settings_.confidence);
  const double freedom = static_cast<double>(n_outputs_);
  const double noise = std::min(2.0 * rare, 1.0 + 2.0 * std::sqrt(rare / freedom) + 2.0 * rare / freedom);
  const double bound = std::sqrt(std::log(1.0 / settings_.confidence) / (2.0 * weight));
  const bool clear = best.second < best.gain * (1.0 - bound) || bound < settings_.tie;
  if (best.gain > 0.0 && best.gain > variance * noise && clear) {
    split(leaf, best, bins);
  } else if (wanted_ && weight >= kPatience * settings_.grace) {
    free_.push_back(at.slot);
    at.slot = -1;
    wanted_ = false;
  } else {
    forget(leaf, weight);
  }
}

// What was counted in bins is kept to the weight of the memory.
void StreamTree::forget(int32_t leaf, double weight) noexcept {
  if (settings_.memory <= 0.0 || weight <= settings_.memory) return;
  Leaf& at = leaves_[static_cast<size_t>(leaf)];
  const double share = settings_.memory / weight;
  at.square *= share;
  float* bins = pool_.data() + static_cast<size_t>(at.slot) * slot_size();
  for (size_t i = 0; i < slot_size(); ++i) bins[i] *= static_cast<float>(share);
}

// Children begin at the leaf's mean, moved by how far their bins' means lie from that of all bins.
void StreamTree::split(int32_t leaf, const Split& how, const StreamBins& bins) {
  const Leaf old = leaves_[static_cast<size_t>(leaf)];
  const int32_t column = columns_[how.place];
  const float* own = bins_of(old.slot) + how.place * column_size_;
  double* const total = scratch_.data();
  double* const left = total + entry_;
  std::fill(total, total + 2 * entry_, 0.0);
  for (int32_t bin = 0; bin <= settings_.n_bins; ++bin, own += entry_) {
    const bool to_left = bin == settings_.n_bins ? how.missing_left : bin <= how.bin;
    for (size_t k = 0; k < entry_; ++k) {
      total[k] += static_cast<double>(own[k]);
      if (to_left) left[k] += static_cast<double>(own[k]);
    }
  }
  const auto first = static_cast<int32_t>(nodes_.size());
  Node& node = nodes_[static_cast<size_t>(leaf)];
  node.threshold = bins.cut(column, how.bin);
  node.column = column;
  node.left = first;
  node.missing_left = how.missing_left ? 1 : 0;
  nodes_.resize(nodes_.size() + 2);
  leaves_.resize(leaves_.size() + 2);
  values_.resize(values_.size() + 2 * static_cast<size_t>(n_outputs_));
  const double* mean = value(leaf);
  for (int32_t side = 0; side < 2; ++side) {
    const double weight = side == 0 ? left[0] : total[0] - left[0];
    Leaf& child = leaves_[static_cast<size_t>(first + side)];
    child.depth = old.depth + 1;
    child.count = settings_.memory > 0.0 ? std::min(weight, settings_.memory) : weight;
    double* value = values_.data() + (first + side) * n_outputs_;
    for (int64_t k = 0; k < n_outputs_; ++k) {
      const double sum = side == 0 ? left[1 + k] : total[1 + k] - left[1 + k];
      value[k] = mean[k] + (sum / weight - total[1 + k] / total[0]);
    }
  }
  free_.push_back(old.slot);
  leaves_[static_cast<size_t>(leaf)].slot = -1;
  if (full()) {  // nobody can be split any more
    for (Leaf& other : leaves_) other.slot = -1;
    free_.clear();
    pool_.clear();
    pool_.shrink_to_fit();
  }
}

void StreamTree::rebin(const Rebinned& changed) {
  const auto found = std::lower_bound(columns_.begin(), columns_.end(), changed.column);
  if (found == columns_.end() || *found != changed.column) return;
  const auto place = static_cast<size_t>(found - columns_.begin());
  const auto n_bins = static_cast<size_t>(settings_.n_bins);
  std::vector<float> moved(n_bins * entry_);
  for (const Leaf& leaf : leaves_) {
    if (leaf.slot < 0) continue;
    float* bins = pool_.data() + static_cast<size_t>(leaf.slot) * slot_size() + place * column_size_;
    std::fill(moved.begin(), moved.end(), 0.0f);
    for (size_t from = 0; from < n_bins; ++from) {
      if (!(bins[from * entry_] > 0.0f)) continue;
      for (size_t to = 0; to < n_bins; ++to) {
        const float share = changed.share[from * n_bins + to];
        if (share == 0.0f) continue;
        for (size_t k = 0; k < entry_; ++k) moved[to * entry_ + k] += share * bins[from * entry_ + k];
      }
    }
    std::copy(moved.begin(), moved.end(), bins);
  }
}

void StreamTree::load(std::vector<Node> nodes, std::vector<Leaf> leaves, std::vector<double> values,
                      std::vector<double> early, int64_t sleep, bool wanted, std::span<const float>& bins) {
  const auto wrong = [](const char* what) {
    throw std::invalid_argument(std::string("a stream's tree: ") + what);
  };
  const size_t n = nodes.size();
  if (n % 2 == 0 || leaves.size() != n || values.size() != n * static_cast<size_t>(n_outputs_) ||
      static_cast<int64_t>(n / 2) + 1 > settings_.max_leaves || early.size() % entry_ != 0 || sleep < 0) {
    wrong("its arrays do not fit together");
  }
  size_t next = 1;  // children come in pairs, each once
  std::vector<uint8_t> named(n);
  for (size_t i = 0; i < n; ++i) {
    if (nodes[i].column < 0) continue;
    const auto left = static_cast<size_t>(nodes[i].left);
    if (left <= i || left % 2 == 0 || left + 1 >= n || named[left] != 0 ||
        !std::binary_search(columns_.begin(), columns_.end(), nodes[i].column)) {
      wrong("a node has children or a column that it cannot have");
    }
    named[left] = 1;
    next += 2;
  }
  if (next != n) wrong("a node is nobody's child");
  nodes_ = std::move(nodes);
  leaves_ = std::move(leaves);
  values_ = std::move(values);
  early_ = std::move(early);
  sleep_ = sleep;
  wanted_ = wanted;
  pool_.clear();
  free_.clear();
  for (size_t i = 0; i < n; ++i) {
    if (leaves_[i].slot < 0) continue;
    const Leaf saved = leaves_[i];
    if (nodes_[i].column >= 0 || !open(saved) || bins.size() < slot_size() || !take_slot(leaves_[i])) {
      wrong("its bins do not fit its leaves");
    }
    leaves_[i].since = saved.since;
    leaves_[i].square = saved.square;
    std::copy_n(bins.begin(), slot_size(),
                pool_.begin() + leaves_[i].slot * static_cast<int64_t>(slot_size()));
    bins = bins.subspan(slot_size());
  }
}

}  // namespace anytime
