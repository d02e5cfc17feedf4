#include "stream_round.hpp"

#include <algorithm>
#include <cmath>

#include "threads.hpp"

namespace anytime {
namespace {

// d loss / d score of one row: scores and gradient (m), truth (width).
void gradient(const RoundRules& rules, const double* scores, const StreamTruth& truth, int64_t row, int64_t m,
              double* out) noexcept {
  const double* y = truth.y + row * truth.width;
  const int64_t own = truth.width == 1 ? 0 : 1;  // does every output have its own number
  switch (rules.loss) {
    case StreamLoss::squared:
      for (int64_t k = 0; k < m; ++k) out[k] = scores[k] - y[k * own];
      break;
    case StreamLoss::absolute:
      for (int64_t k = 0; k < m; ++k) {
        const double off = scores[k] - y[k * own];
        out[k] = static_cast<double>(off > 0.0) - static_cast<double>(off < 0.0);
      }
      break;
    case StreamLoss::logistic:
      out[0] = 1.0 / (1.0 + std::exp(-scores[0])) - (y[0] > 0.0 ? 1.0 : 0.0);
      break;
    case StreamLoss::hinge: {
      const double sign = y[0] > 0.0 ? 1.0 : -1.0;
      out[0] = sign * scores[0] < 1.0 ? -sign : 0.0;
      break;
    }
    case StreamLoss::softmax: {
      const double most = *std::max_element(scores, scores + m);
      double sum = 0.0;
      for (int64_t k = 0; k < m; ++k) sum += out[k] = std::exp(scores[k] - most);
      for (int64_t k = 0; k < m; ++k) out[k] /= sum;
      out[static_cast<int64_t>(y[0])] -= 1.0;
      break;
    }
  }
  if (rules.rho != 0.0) {
    for (int64_t k = 0; k < m; ++k) out[k] += 2.0 * rules.rho * scores[k];
  }
}

// log(1 + exp(x))
double softplus(double x) noexcept { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

// The loss of one row: scores (m), truth (width).
double loss(const RoundRules& rules, const double* scores, const StreamTruth& truth, int64_t row,
            int64_t m) noexcept {
  const double* y = truth.y + row * truth.width;
  const int64_t own = truth.width == 1 ? 0 : 1;
  double sum = 0.0;
  switch (rules.loss) {
    case StreamLoss::squared:
      for (int64_t k = 0; k < m; ++k) sum += 0.5 * (scores[k] - y[k * own]) * (scores[k] - y[k * own]);
      break;
    case StreamLoss::absolute:
      for (int64_t k = 0; k < m; ++k) sum += std::abs(scores[k] - y[k * own]);
      break;
    case StreamLoss::logistic:
      sum = softplus(y[0] > 0.0 ? -scores[0] : scores[0]);
      break;
    case StreamLoss::hinge:
      sum = std::max(0.0, 1.0 - (y[0] > 0.0 ? scores[0] : -scores[0]));
      break;
    case StreamLoss::softmax: {
      const double most = *std::max_element(scores, scores + m);
      for (int64_t k = 0; k < m; ++k) sum += std::exp(scores[k] - most);
      sum = most + std::log(sum) - scores[static_cast<int64_t>(y[0])];
      break;
    }
  }
  if (rules.rho != 0.0) {
    for (int64_t k = 0; k < m; ++k) sum += rules.rho * scores[k] * scores[k];
  }
  return sum;
}

void project(const RoundRules& rules, double* scores, int64_t m) noexcept {
  for (size_t k = 0; k < rules.low.size(); ++k) {
    scores[k] = std::min(std::max(scores[k], rules.low[k]), rules.high[k]);
  }
  if (rules.radius <= 0.0) return;
  double square = 0.0;
  for (int64_t k = 0; k < m; ++k) square += scores[k] * scores[k];
  const double length = std::sqrt(square);
  if (length <= rules.radius) return;
  for (int64_t k = 0; k < m; ++k) scores[k] *= rules.radius / length;
}

// Gates at the start of a round, `seen` rows after the call began.
void set_gates(const RoundRules& rules, const EdgeSums& edges, int64_t seen,
               std::span<double> gates) noexcept {
  const size_t n = gates.size();
  for (size_t i = 0; i < n; ++i) {
    const double missed = edges.recent[i], asked = edges.recent[n + i], product = edges.recent[2 * n + i],
                 given = edges.recent[3 * n + i];
    double gate = 1.0;
    if (rules.gate == Gate::skip) gate = missed < asked ? 1.0 : 0.0;
    if (rules.gate == Gate::shrink) gate = given > 0.0 ? std::clamp(product / given, 0.0, 1.0) : 0.0;
    if (edges.rows[i] + seen < rules.warm_up * static_cast<int64_t>(i + 1)) gate = 0.0;
    gates[i] = rules.open.empty() ? gate : gate * rules.open[i];
  }
}

class Rounds {
 public:
  Rounds(StreamBank& bank, const StreamTruth& truth, const RoundRules& rules, const EdgeSums& edges,
         const PrefixSums& paid, Team& team)
      : bank_(bank),
        truth_(truth),
        rules_(rules),
        edges_(edges),
        paid_(paid),
        team_(team),
        n_(bank.n_learners()),
        m_(bank.n_outputs()),
        outputs_(static_cast<size_t>(n_ * rules.batch * m_)),
        targets_(outputs_.size()),
        scores_(static_cast<size_t>(rules.batch * m_)),
        total_(scores_.size()),
        left_(scores_.size()),
        gates_(static_cast<size_t>(n_)),
        lost_(paid.losses == nullptr ? 0 : static_cast<size_t>(n_ + 1)) {}

  // One round of the rows, of which `first` is the number of the first.
  void run(const StreamRows& rows, int64_t first, double* out, double* prefixes) {
    bank_.answer(rows, outputs_.data(), team_);
    set_gates(rules_, edges_, first, gates_);
    first_ = first;
    descend(rows, out, prefixes);
    bank_.learn(rows, targets_.data(), team_);
  }
  // Answers alone, gates as they stand.
  void read(const StreamRows& rows, double* out, double* prefixes) {
    bank_.predict(rows, outputs_.data(), team_);
    set_gates(rules_, edges_, 0, gates_);
    begin(rows, out, prefixes);
    for (int64_t i = 0; i < n_; ++i) {
      for (int64_t row = 0; row < rows.n; ++row) {
        const double* output = outputs_.data() + (i * rows.n + row) * m_;
        double* scores = scores_.data() + row * m_;
        const double gate = gates_[static_cast<size_t>(i)], step = rules_.steps[static_cast<size_t>(i)];
        for (int64_t k = 0; k < m_; ++k) scores[k] -= step * (output[k] * gate);
        project(rules_, scores, m_);
        answer(i + 1, rows, row, out, prefixes);
      }
    }
  }

 private:
  void descend(const StreamRows& rows, double* out, double* prefixes) noexcept;
  void begin(const StreamRows& rows, double* out, double* prefixes) noexcept;
  void answer(int64_t number, const StreamRows& rows, int64_t row, double* out, double* prefixes) noexcept;
  void pay(const StreamRows& rows, double fading) noexcept;
  void note(int64_t number, const double* scores, double* total, double* out) const noexcept;

  StreamBank& bank_;
  const StreamTruth& truth_;
  const RoundRules& rules_;
  const EdgeSums& edges_;
  const PrefixSums& paid_;
  Team& team_;
  int64_t n_, m_;
  std::vector<double> outputs_, targets_;      // (N, b, m)
  std::vector<double> scores_, total_, left_;  // (b, m): y_i, sums of the averaged, what is left unfitted
  std::vector<double> gates_;
  std::vector<double> lost_;  // (N + 1) losses of the prefixes in this round; empty: nobody asks
  int64_t first_ = 0;         // number of the first row of the round
};

// Takes y_number into the average of a row: the answer of the first `number` learners.
void Rounds::note(int64_t number, const double* scores, double* total, double* out) const noexcept {
  const auto count = static_cast<double>(number);
  for (int64_t k = 0; k < m_; ++k) {
    switch (rules_.averaging) {
      case Averaging::last:
        out[k] = scores[k];
        break;
      case Averaging::theory:  // y_0 to y_(number - 1)
        out[k] = number == 0 ? scores[k] : total[k] / count;
        total[k] += scores[k];
        break;
      case Averaging::post:
        if (number > 0) total[k] += scores[k];
        out[k] = number == 0 ? scores[k] : total[k] / count;
        break;
      case Averaging::all:
        total[k] += scores[k];
        out[k] = total[k] / (count + 1.0);
        break;
    }
  }
}

// What the first `number` learners answer to a row.
void Rounds::answer(int64_t number, const StreamRows& rows, int64_t row, double* out,
                    double* prefixes) noexcept {
  double* const to = prefixes == nullptr ? out + row * m_ : prefixes + (row * (n_ + 1) + number) * m_;
  note(number, scores_.data() + row * m_, total_.data() + row * m_, to);
  if (prefixes != nullptr && number == n_) std::copy_n(to, m_, out + row * m_);
  if (lost_.empty()) return;
  lost_[static_cast<size_t>(number)] += rows.weight_of(row) * loss(rules_, to, truth_, first_ + row, m_);
}

// Takes the losses of the round into those of all rounds.
void Rounds::pay(const StreamRows& rows, double fading) noexcept {
  if (lost_.empty()) return;
  double weight = 0.0;
  for (int64_t row = 0; row < rows.n; ++row) weight += rows.weight_of(row);
  for (size_t i = 0; i < lost_.size(); ++i) {
    paid_.losses[i] = paid_.losses[i] * fading + lost_[i];
    paid_.weights[i] = paid_.weights[i] * fading + weight;
  }
}

// All rows at y_0.
void Rounds::begin(const StreamRows& rows, double* out, double* prefixes) noexcept {
  std::fill(total_.begin(), total_.end(), 0.0);
  for (int64_t row = 0; row < rows.n; ++row) {
    std::copy(rules_.start.begin(), rules_.start.end(), scores_.begin() + row * m_);
    answer(0, rows, row, out, prefixes);
  }
}

void Rounds::descend(const StreamRows& rows, double* out, double* prefixes) noexcept {
  std::fill(lost_.begin(), lost_.end(), 0.0);
  begin(rows, out, prefixes);
  std::fill(left_.begin(), left_.end(), 0.0);
  const double fading = std::pow(edges_.discount, static_cast<double>(rows.n));
  for (int64_t i = 0; i < n_; ++i) {
    double sums[4] = {0.0, 0.0, 0.0, 0.0};
    const double gate = gates_[static_cast<size_t>(i)], step = rules_.steps[static_cast<size_t>(i)];
    for (int64_t row = 0; row < rows.n; ++row) {
      const double* output = outputs_.data() + (i * rows.n + row) * m_;
      double* target = targets_.data() + (i * rows.n + row) * m_;
      double* scores = scores_.data() + row * m_;
      double* left = left_.data() + row * m_;
      gradient(rules_, scores, truth_, first_ + row, m_, target);
      double row_sums[4] = {0.0, 0.0, 0.0, 0.0};
      for (int64_t k = 0; k < m_; ++k) {
        const double h = output[k] * gate;
        if (rules_.residual) {
          const double g = target[k];
          target[k] += left[k];
          left[k] += g - h;
        }
        const double q = target[k], missed = q - output[k];
        row_sums[0] += missed * missed;
        row_sums[1] += q * q;
        row_sums[2] += q * output[k];
        row_sums[3] += output[k] * output[k];
        scores[k] -= step * h;
      }
      const double weight = rows.weight_of(row);
      for (int s = 0; s < 4; ++s) sums[s] += weight * row_sums[s];
      project(rules_, scores, m_);
      answer(i + 1, rows, row, out, prefixes);
    }
    for (int s = 0; s < 4; ++s) {
      edges_.all[s * n_ + i] += sums[s];
      double& recent = edges_.recent[s * n_ + i];
      recent = recent * fading + sums[s];
    }
  }
  pay(rows, fading);
}

}  // namespace

void read_rounds(StreamBank& bank, const StreamRows& rows, const RoundRules& rules, const EdgeSums& edges,
                 Team& team, double* out, double* prefixes) {
  const StreamTruth unknown;
  const PrefixSums nobody;
  Rounds rounds(bank, unknown, rules, edges, nobody, team);
  const int64_t m = bank.n_outputs(), n = bank.n_learners();
  for (int64_t first = 0; first < rows.n; first += rules.batch) {
    const StreamRows some{.x = rows.x + first * bank.n_features(),
                          .n = std::min(rules.batch, rows.n - first)};
    rounds.read(some, out + first * m, prefixes == nullptr ? nullptr : prefixes + first * (n + 1) * m);
  }
}

void run_rounds(StreamBank& bank, const StreamRows& rows, const StreamTruth& truth, const RoundRules& rules,
                const EdgeSums& edges, const PrefixSums& paid, Team& team, double* out, double* prefixes) {
  Rounds rounds(bank, truth, rules, edges, paid, team);
  const int64_t m = bank.n_outputs(), n = bank.n_learners();
  for (int64_t first = 0; first < rows.n; first += rules.batch) {
    const StreamRows some{.x = rows.x + first * bank.n_features(),
                          .weight = rows.weight == nullptr ? nullptr : rows.weight + first,
                          .n = std::min(rules.batch, rows.n - first)};
    rounds.run(some, first, out + first * m, prefixes == nullptr ? nullptr : prefixes + first * (n + 1) * m);
  }
}

}  // namespace anytime
