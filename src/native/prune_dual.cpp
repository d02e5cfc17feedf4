#include "prune_dual.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "threads.hpp"

namespace anytime {
namespace {

constexpr int64_t kMostPrecise = int64_t{1} << 22;  // links up to which multipliers are doubles
constexpr double kSeen = 16.0;                      // iterations that a warm start counts for
constexpr int64_t kLookEvery = 5;                   // iterations of kShares between prunings that are valued
constexpr double kLevels[] = {0.2, 0.4, 0.6, 0.8};  // wanted so often, a split is kept
constexpr double kRounding = 1e-13;                 // of a value

// What the rows that need a group would pay for it; `used` is scratch, one entry per row.
double use_of(const PruneGraph& graph, int32_t group, std::span<const uint8_t> kept,
              std::span<uint8_t> used) noexcept {
  std::ranges::fill(used, uint8_t{0});
  for (const PruneBlock& block : graph.blocks_of_group(group)) {
    if (!kept[block.split]) continue;
    for (const int32_t row : graph.rows(block.split)) used[row] = 1;
  }
  double sum = 0.0;
  for (int32_t row = 0; row < graph.n_rows(); ++row) sum += used[row] ? graph.weight()[row] : 0.0;
  return sum * graph.price()[group];
}

// What all step rules share: charges of the splits, the answers of the trees, the best of both sides.
class Dual {
 public:
  Dual(const PruneGraph& graph, const DualTask& task)
      : graph_(graph),
        task_(task),
        team_(task.threads),
        kept_(graph.n_splits(), 0),
        charge_(graph.n_splits(), 0.0),
        block_charge_(graph.blocks().size(), 0.0),
        used_(static_cast<size_t>(graph.n_rows()) * team_.size()),
        group_sum_(graph.n_groups(), 0.0) {
    best_.kept = kept_;
    best_.value = task.all_pruned;
    best_.bound = -std::numeric_limits<double>::infinity();
  }
  virtual ~Dual() = default;

  DualAnswer run() {
    while (best_.iterations < task_.max_iterations && !is_close()) {
      ++best_.iterations;
      std::ranges::fill(charge_, 0.0);
      for (size_t b = 0; b < block_charge_.size(); ++b) charge_[graph_.blocks()[b].split] += block_charge_[b];
      dual_ = task_.all_pruned - prune_trees(graph_, task_.gain, charge_, kept_) + unsold();
      best_.bound = std::max(best_.bound, dual_);
      value_prunings();
      if (best_.iterations < task_.max_iterations && !is_close()) step();
    }
    best_.state = state();
    return std::move(best_);
  }

 protected:
  const PruneGraph& graph_;
  const DualTask& task_;
  Team team_;
  Kept kept_;
  std::vector<double> charge_, block_charge_;
  std::vector<uint8_t> used_;
  std::vector<double> group_sum_;
  DualAnswer best_;
  double dual_ = 0.0;

  virtual double unsold() const { return 0.0; }  // sum over pairs of min(0, price - sum beta)
  virtual void value_prunings() { value(kept_); }
  virtual void step() = 0;
  virtual std::vector<double> state() const = 0;

  bool is_close() const {
    return best_.value - best_.bound <= task_.tolerance * best_.value + kRounding * task_.all_pruned;
  }
  double price(int32_t group) const { return task_.lam * graph_.price()[group] / graph_.n_cost(); }

  // work(group, part) for every group; each group is one thread's, so that sums have one order.
  template <class Work>
  void each_group(Work&& work) {
    team_.each(graph_.n_groups(), graph_.n_links() > 10000,
               [&](int64_t group, size_t part) noexcept { work(static_cast<int32_t>(group), part); });
  }
  double sum_of_groups() const {
    double sum = 0.0;
    for (const double v : group_sum_) sum += v;
    return sum;
  }

  void value(const Kept& kept) {
    each_group([&](int32_t group, size_t part) noexcept {
      group_sum_[group] =
          use_of(graph_, group, kept, {used_.data() + part * graph_.n_rows(), size_t(graph_.n_rows())});
    });
    double value = task_.all_pruned + task_.lam * sum_of_groups() / graph_.n_cost();
    for (int32_t s = 0; s < graph_.n_splits(); ++s) value -= kept[s] ? task_.gain[s] : 0.0;
    if (value >= best_.value) return;
    best_.value = value;
    best_.kept = kept;
  }
};

// Dual averaging with entropies. The multipliers of a pair are its price in parts that add up to one, so that
// nothing is left unsold; the part of a split grows with exp(sharpness * how often it wanted to stay). Splits
// have one number each and links none. The prunings that are valued keep the splits that wanted to stay often
// enough.
template <class Real>
class Shares : public Dual {
 public:
  Shares(const PruneGraph& graph, const DualTask& task)
      : Dual(graph, task), often_(graph.n_splits(), 0.5), pull_(graph.n_splits()), part_(used_.size()) {
    if (!task.start.empty()) {
      std::ranges::copy(task.start, often_.begin());
      seen_ = kSeen;
    }
    // Parts may add up to more than one by a rounding error per tree.
    const auto trees = std::ranges::count(graph.up(), -1);
    safe_ = 1.0 - static_cast<double>(trees + 2) * std::numeric_limits<Real>::epsilon();
    charge_blocks();
  }

 private:
  std::vector<double> often_;  // mean over the iterations of whether a split wanted to stay
  std::vector<Real> pull_, part_;
  double seen_ = 0.0, safe_ = 1.0;

  void step() override {
    seen_ += 1.0;
    for (size_t s = 0; s < often_.size(); ++s) often_[s] += (kept_[s] - often_[s]) / seen_;
    charge_blocks();
  }
  std::vector<double> state() const override { return often_; }

  void charge_blocks() {
    const double sharpness =
        std::min(4.0 * task_.first * std::sqrt(seen_ + 1.0), 150.0);  // a float holds exp(75)
    for (size_t s = 0; s < often_.size(); ++s)
      pull_[s] = static_cast<Real>(std::exp(sharpness * (often_[s] - 0.5)));
    each_group([&](int32_t group, size_t which) noexcept {
      const std::span part(part_.data() + which * graph_.n_rows(), graph_.n_rows());
      std::ranges::fill(part, Real{0});
      for (const PruneBlock& block : graph_.blocks_of_group(group)) {
        for (const int32_t row : graph_.rows(block.split)) part[row] += pull_[block.split];
      }
      for (int32_t row = 0; row < graph_.n_rows(); ++row)
        part[row] = part[row] > Real{0} ? static_cast<Real>(graph_.weight()[row]) / part[row] : Real{0};
      for (const PruneBlock& block : graph_.blocks_of_group(group)) {
        double sum = 0.0;
        for (const int32_t row : graph_.rows(block.split)) sum += part[row];
        block_charge_[&block - graph_.blocks().data()] = safe_ * price(group) * sum * pull_[block.split];
      }
    });
  }

  void value_prunings() override {
    const bool is_end = best_.iterations == 1 || best_.iterations == task_.max_iterations;
    if (!is_end && best_.iterations % kLookEvery != 0) return;
    value(kept_);
    if (best_.iterations == 1 && task_.start.empty()) return;
    Kept often(kept_.size());
    for (const double level : kLevels) {
      for (int32_t s = 0; s < graph_.n_splits(); ++s) {
        const int32_t up = graph_.up()[s];
        often[s] = often_[s] >= level && (up < 0 || often[up]);
      }
      value(often);
    }
  }
};

// Subgradient steps on every multiplier: beta <- max(0, beta + length (w_tree - w)).
template <class Real>
class Subgradient : public Dual {
 public:
  Subgradient(const PruneGraph& graph, const DualTask& task)
      : Dual(graph, task), beta_(graph.n_links(), Real{0}), left_(graph.n_pairs()) {
    double mean = 0.0;
    for (int32_t group = 0; group < graph.n_groups(); ++group) mean += price(group) / graph.n_groups();
    first_ = task.first * mean;
    for (size_t l = 0; l < task.start.size(); ++l) beta_[l] = static_cast<Real>(task.start[l] * task.lam);
    update(0.0);
  }

 private:
  std::vector<Real> beta_;
  std::vector<double> left_;  // of pairs: price - sum beta
  double first_ = 0.0;

  double unsold() const override { return sum_of(left_); }
  static double sum_of(std::span<const double> left) {
    double sum = 0.0;
    for (const double v : left) sum += std::min(v, 0.0);
    return sum;
  }
  std::vector<double> state() const override {
    std::vector<double> out(beta_.begin(), beta_.end());
    for (double& beta : out) beta /= task_.lam > 0.0 ? task_.lam : 1.0;
    return out;
  }

  void step() override {
    switch (task_.step) {
      case DualStep::kSqrt:
        return update(first_ /
                      std::sqrt(static_cast<double>(best_.iterations) + (task_.start.empty() ? 0.0 : kSeen)));
      case DualStep::kPolyak: {
        const double norm = subgradient_norm();
        return update(norm > 0.0 ? task_.first * (best_.value - dual_) / norm : 0.0);
      }
      default:
        return update(first_);
    }
  }

  // Its entries are -1, 0 and 1.
  double subgradient_norm() {
    each_group([&](int32_t group, size_t) noexcept {
      const double* left = left_.data() + int64_t{group} * graph_.n_rows();
      int64_t sum = 0;
      for (const PruneBlock& block : graph_.blocks_of_group(group)) {
        for (const int32_t row : graph_.rows(block.split))
          sum += (left[row] < 0.0) != (kept_[block.split] != 0);
      }
      group_sum_[group] = static_cast<double>(sum);
    });
    return sum_of_groups();
  }

  void update(double length) {
    const auto by = static_cast<Real>(length);
    each_group([&](int32_t group, size_t part) noexcept {
      double* left = left_.data() + int64_t{group} * graph_.n_rows();
      const std::span taken(used_.data() + part * graph_.n_rows(), graph_.n_rows());
      const double one = price(group);
      for (int32_t row = 0; row < graph_.n_rows(); ++row) {
        taken[row] = left[row] < 0.0;
        left[row] = one * graph_.weight()[row];
      }
      for (const PruneBlock& block : graph_.blocks_of_group(group)) {
        Real* beta = beta_.data() + block.link;
        double sum = 0.0;
        for (const int32_t row : graph_.rows(block.split)) {
          const Real now = std::max(Real{0}, *beta + by * static_cast<Real>(kept_[block.split] - taken[row]));
          *beta++ = now;
          sum += now;
          left[row] -= now;
        }
        block_charge_[&block - graph_.blocks().data()] = sum;
      }
    });
  }
};

}  // namespace

DualAnswer prune_dual(const PruneGraph& graph, const DualTask& task) {
  const bool shares = task.step == DualStep::kShares;
  const auto expected = shares ? static_cast<int64_t>(graph.n_splits()) : graph.n_links();
  if (!task.start.empty() && static_cast<int64_t>(task.start.size()) != expected)
    throw std::invalid_argument("the start is that of another problem or another step rule");
  const bool precise = graph.n_links() <= kMostPrecise;
  if (shares) return precise ? Shares<double>(graph, task).run() : Shares<float>(graph, task).run();
  return precise ? Subgradient<double>(graph, task).run() : Subgradient<float>(graph, task).run();
}

double feature_cost(const PruneGraph& graph, std::span<const uint8_t> kept, int threads) {
  Team team(threads);
  const size_t n = graph.n_rows();
  std::vector<uint8_t> used(n * team.size());
  std::vector<double> sums(graph.n_groups());
  team.each(graph.n_groups(), true, [&](int64_t group, size_t part) noexcept {
    sums[group] = use_of(graph, static_cast<int32_t>(group), kept, {used.data() + part * n, n});
  });
  double sum = 0.0;
  for (const double v : sums) sum += v;
  return sum / graph.n_cost();
}

std::vector<double> charges(const PruneGraph& graph, std::span<const uint8_t> kept,
                            std::span<const uint8_t> paid, double power, int threads) {
  Team team(threads);
  const size_t n = graph.n_rows();
  std::vector<double> parts(n * team.size()), owed(graph.blocks().size(), 0.0);
  team.each(graph.n_groups(), true, [&](int64_t group, size_t which) noexcept {
    const std::span part(parts.data() + which * n, n);
    const auto blocks = graph.blocks_of_group(static_cast<int32_t>(group));
    std::ranges::fill(part, 0.0);
    for (const PruneBlock& block : blocks) {
      if (!kept[block.split] && !paid[block.split]) continue;
      const double by = paid[block.split] ? std::numeric_limits<double>::infinity() : 1.0;
      for (const int32_t row : graph.rows(block.split)) part[row] += by;
    }
    for (size_t row = 0; row < n; ++row)
      part[row] = std::isinf(part[row]) ? 0.0 : graph.weight()[row] * std::pow(part[row], -power);
    for (const PruneBlock& block : blocks) {
      if (!kept[block.split]) continue;
      double sum = 0.0;
      for (const int32_t row : graph.rows(block.split)) sum += part[row];
      owed[&block - graph.blocks().data()] = sum * graph.price()[group] / graph.n_cost();
    }
  });
  std::vector<double> out(graph.n_splits(), 0.0);
  for (size_t b = 0; b < owed.size(); ++b) out[graph.blocks()[b].split] += owed[b];
  return out;
}

double prune_trees(const PruneGraph& graph, std::span<const double> gain, std::span<const double> charge,
                   std::span<uint8_t> kept) {
  std::vector<double> worth(gain.begin(), gain.end());
  double sum = 0.0;
  for (int32_t s = graph.n_splits(); s-- > 0;) {
    worth[s] -= charge[s];
    if (worth[s] > 0.0) (graph.up()[s] >= 0 ? worth[graph.up()[s]] : sum) += worth[s];
  }
  for (int32_t s = 0; s < graph.n_splits(); ++s)
    kept[s] = worth[s] > 0.0 && (graph.up()[s] < 0 || kept[graph.up()[s]]);
  return sum;
}

}  // namespace anytime
