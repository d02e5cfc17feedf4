#include "stream_nets.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "threads.hpp"

namespace anytime {
namespace {

constexpr double kLeak = 0.01;
constexpr int64_t kAlone = 1 << 15;  // multiplications below which threads are not worth calling

double dot(const double* a, const double* b, int64_t n) noexcept {
  double sum = 0.0;
  for (int64_t j = 0; j < n; ++j) sum += a[j] * b[j];
  return sum;
}

void add(double by, const double* from, double* to, int64_t n) noexcept {
  for (int64_t j = 0; j < n; ++j) to[j] += by * from[j];
}

}  // namespace

StreamNets::StreamNets(Activation activation, int64_t hidden, StepMethod method, double step,
                       int64_t n_features, int64_t n_outputs, NetView view)
    : StreamBank(n_features, n_outputs),
      activation_(activation),
      view_(std::move(view)),
      n_places_(1),
      n_hidden_(hidden),
      stepper_(method, step) {
  if (view_.columns.empty()) {
    view_.window = n_features;
  } else {
    n_places_ = static_cast<int64_t>(view_.columns.size()) / view_.window;
  }
  n_units_ = activation == Activation::none ? n_features : n_hidden_ * n_places_;
}

void StreamNets::append(int64_t n) {
  n_learners_ += n;
  parameters_.resize(static_cast<size_t>(n_learners_ * size()));
  stepper_.append(n, size() - frozen());
  means_.append(n, size());
}

void StreamNets::restart(int64_t learner, const double* parameters) noexcept {
  std::copy_n(parameters, size(), parameters_.begin() + learner * size());
  stepper_.restart(learner);
  means_.restart(learner);
}

// What is seen of a row at every place, and a 1 behind each, (places, w + 1). Missing values are 0.
void StreamNets::look(const double* x, double* z) const noexcept {
  const int32_t* columns = view_.columns.empty() ? nullptr : view_.columns.data();
  for (int64_t place = 0; place < n_places_; ++place) {
    for (int64_t j = 0; j < view_.window; ++j) {
      const int64_t column = columns == nullptr ? j : *columns++;
      const double value = column < 0 ? 0.0 : x[column];
      *z++ = std::isnan(value) ? 0.0 : value;
    }
    *z++ = 1.0;
  }
}

// The features of a row and a 1, (k + 1).
void StreamNets::features(int64_t learner, const double* z, double* units) const noexcept {
  const int64_t w = seen();
  if (activation_ == Activation::none) {
    std::copy_n(z, w, units);
    return;
  }
  const double* hidden = parameters_.data() + learner * size();
  for (int64_t h = 0; h < n_hidden_; ++h, hidden += w) {
    for (int64_t place = 0; place < n_places_; ++place) {
      const double sum = dot(hidden, z + place * w, w);
      switch (activation_) {
        case Activation::cosine:
          *units++ = std::cos(sum);
          break;
        case Activation::sigmoid:
          *units++ = 1.0 / (1.0 + std::exp(-sum));
          break;
        default:
          *units++ = sum > 0.0 ? sum : kLeak * sum;
      }
    }
  }
  *units = 1.0;
}

void StreamNets::outputs(int64_t learner, const double* units, double* out) const noexcept {
  const double* w = parameters_.data() + learner * size() + hidden_size();
  for (int64_t o = 0; o < n_outputs(); ++o) out[o] = dot(w + o * (n_units_ + 1), units, n_units_ + 1);
}

void StreamNets::predict(const StreamRows& rows, double* out, Team&) const {
  const int64_t m = n_outputs();
  std::vector<double> z(static_cast<size_t>(n_places_ * seen())), units(static_cast<size_t>(n_units_ + 1));
  for (int64_t row = 0; row < rows.n; ++row) {
    look(rows.x + row * n_features(), z.data());
    for (int64_t i = 0; i < n_learners_; ++i) {
      features(i, z.data(), units.data());
      outputs(i, units.data(), out + (i * rows.n + row) * m);
    }
  }
}

void StreamNets::answer(const StreamRows& rows, double* out, Team& team) {
  const int64_t m = n_outputs(), k = n_units_ + 1, view = n_places_ * seen();
  rows_.resize(static_cast<size_t>(rows.n * view));
  for (int64_t row = 0; row < rows.n; ++row) look(rows.x + row * n_features(), rows_.data() + row * view);
  units_.resize(static_cast<size_t>(n_learners_ * rows.n * k));
  team.each(n_learners_, n_learners_ * rows.n * size() >= kAlone, [&](int64_t i, size_t) noexcept {
    for (int64_t row = 0; row < rows.n; ++row) {
      double* units = units_.data() + (i * rows.n + row) * k;
      features(i, rows_.data() + row * view, units);
      outputs(i, units, out + (i * rows.n + row) * m);
    }
  });
}

void StreamNets::update(const StreamRows& rows, const double* targets, Team& team) {
  std::vector<double> unused(static_cast<size_t>(n_learners_ * rows.n * n_outputs()));
  answer(rows, unused.data(), team);
  learn(rows, targets, team);
}

// Of 1/2 |target - h|^2, the mean over the rows, in all parameters; room for m numbers behind them.
void StreamNets::gradient(int64_t learner, const StreamRows& rows, const double* targets, const double* units,
                          double* out) const noexcept {
  const int64_t m = n_outputs(), k = n_units_ + 1, w = seen();
  const double* readout = parameters_.data() + learner * size() + hidden_size();
  double* miss = out + size();
  std::fill(out, out + size(), 0.0);
  double total = 0.0;
  for (int64_t row = 0; row < rows.n; ++row) total += rows.weight_of(row);
  for (int64_t row = 0; row < rows.n; ++row, units += k, targets += m) {
    const double share = rows.weight_of(row) / total;
    if (share == 0.0) continue;
    const double* z = rows_.data() + row * n_places_ * w;
    for (int64_t o = 0; o < m; ++o) {
      miss[o] = share * (dot(readout + o * k, units, k) - targets[o]);
      add(miss[o], units, out + hidden_size() + o * k, k);
    }
    if (!learns_hidden()) continue;
    for (int64_t h = 0, u = 0; h < n_hidden_; ++h) {
      for (int64_t place = 0; place < n_places_; ++place, ++u) {
        double pull = 0.0;
        for (int64_t o = 0; o < m; ++o) pull += miss[o] * readout[o * k + u];
        const double unit = units[u];
        const double slope = activation_ == Activation::sigmoid ? unit * (1.0 - unit)
                             : unit > 0.0                       ? 1.0
                                                                : kLeak;
        add(pull * slope, z + place * w, out + h * w, w);
      }
    }
  }
}

void StreamNets::learn(const StreamRows& rows, const double* targets, Team& team) {
  const int64_t m = n_outputs(), k = n_units_ + 1;
  bool any = false;
  for (int64_t row = 0; row < rows.n; ++row) any = any || rows.weight_of(row) != 0.0;
  if (!any) return;
  const int64_t room = size() + m;
  gradient_.resize(team.size() * static_cast<size_t>(room));
  team.each(n_learners_, n_learners_ * rows.n * size() >= kAlone, [&](int64_t i, size_t part) noexcept {
    double* slopes = gradient_.data() + static_cast<int64_t>(part) * room;
    gradient(i, rows, targets + i * rows.n * m, units_.data() + i * rows.n * k, slopes);
    double* own = parameters_.data() + i * size();
    stepper_.apply(i, own + frozen(), slopes + frozen());
    means_.add(i, own);
  });
}

}  // namespace anytime
