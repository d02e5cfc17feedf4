// The Python face of the rounds of EXP3.G.
#include <nanobind/stl/optional.h>

#include <optional>
#include <string>

#include "arrays.hpp"
#include "bandit.hpp"

using namespace nanobind::literals;

namespace anytime {
namespace {

template <class T>
using Cube = nb::ndarray<T, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Doubles = Vector<const double>;
using Losses = std::optional<Matrix<const double>>;

Rounds rounds_of(Doubles chance, Doubles learning, Doubles exploration, const Losses& losses, size_t k) {
  const size_t n = chance.size();
  check_length(learning.size(), n, "learning");
  check_length(exploration.size(), n, "exploration");
  for (const double u : span_of(chance)) {
    if (!(u >= 0.0 && u < 1.0)) throw std::invalid_argument("chance has to lie in [0, 1)");
  }
  for (const double gamma : span_of(exploration)) {
    if (!(gamma >= 0.0 && gamma <= 1.0)) throw std::invalid_argument("exploration has to lie in [0, 1]");
  }
  if (losses) {
    check_length(losses->shape(0), n, "losses");
    check_length(losses->shape(1), k, "a row of losses");
  }
  if (k == 0) throw std::invalid_argument("totals is empty: there is no expert");
  return {.chance = span_of(chance),
          .learning = span_of(learning),
          .exploration = span_of(exploration),
          .losses = losses ? losses->data() : nullptr};
}

// Every row of marks (rows, k) has one.
void check_marked(const bool* marks, size_t rows, size_t k, const char* what) {
  for (size_t t = 0; t < rows; ++t, marks += k) {
    if (std::none_of(marks, marks + k, [](bool mark) { return mark; })) {
      throw std::invalid_argument(std::string(what) + " " + std::to_string(t));
    }
  }
}

nb::tuple requests(Vector<double> totals, Matrix<const bool> asks, Losses losses, Doubles chance,
                   Doubles learning, Doubles exploration, double charged) {
  const size_t n = chance.size(), k = totals.size();
  Rounds rounds = rounds_of(chance, learning, exploration, losses, k);
  check_length(asks.shape(0), n, "asks");
  check_length(asks.shape(1), k, "a row of asks");
  check_marked(asks.data(), n, k, "no expert asks in round");
  double* seen;
  nb::object played = new_array<int32_t>({n}, &rounds.played), seen_array = new_array<double>({n}, &seen);
  {
    const nb::gil_scoped_release unlocked;
    play_requests(rounds, asks.data(), charged, span_of(totals), seen);
  }
  return nb::make_tuple(played, seen_array);
}

nb::object graphs(Vector<double> totals, Cube<const bool> shows, Matrix<const bool> explorers,
                  Vector<const int32_t> which, Losses losses, Doubles chance, Doubles learning,
                  Doubles exploration) {
  const size_t n = chance.size(), k = totals.size(), count = shows.shape(0);
  Rounds rounds = rounds_of(chance, learning, exploration, losses, k);
  check_length(shows.shape(1), k, "a graph");
  check_length(shows.shape(2), k, "a row of a graph");
  check_length(explorers.shape(0), count, "explorers");
  check_length(explorers.shape(1), k, "a row of explorers");
  check_length(which.size(), n, "which");
  check_marked(explorers.data(), count, k, "nobody explores in graph");
  for (const int32_t g : span_of(which)) {
    if (g < 0 || static_cast<size_t>(g) >= count) throw std::invalid_argument("which names no graph");
  }
  nb::object played = new_array<int32_t>({n}, &rounds.played);
  {
    const nb::gil_scoped_release unlocked;
    play_graphs(rounds, span_of(which), shows.data(), explorers.data(), span_of(totals));
  }
  return played;
}

}  // namespace

void bind_bandit(nb::module_& m) {
  m.def("play_requests", &requests, "totals"_a.noconvert(), "asks"_a.noconvert(),
        "losses"_a.noconvert().none(), "chance"_a.noconvert(), "learning"_a.noconvert(),
        "exploration"_a.noconvert(), "charged"_a = -1.0,
        "Rounds of experts who show all losses when they ask and none otherwise; totals follow.");
  m.def("play_graphs", &graphs, "totals"_a.noconvert(), "shows"_a.noconvert(), "explorers"_a.noconvert(),
        "which"_a.noconvert(), "losses"_a.noconvert().none(), "chance"_a.noconvert(),
        "learning"_a.noconvert(), "exploration"_a.noconvert(),
        "Rounds of EXP3.G on general feedback graphs; totals follow.");
}

}  // namespace anytime
