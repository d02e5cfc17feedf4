// The rows of a binned matrix: which columns share a slot, and filling the slots in.
#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "bins.hpp"
#include "threads.hpp"

namespace anytime {
namespace {

constexpr double kSparse = 0.5;       // a column with at least this share in one bin may join a bundle
constexpr int32_t kSlotValues = 256;  // of a slot of 8 bits
constexpr size_t kBundlesTried = 64;  // per column, so that very wide data stay quick
constexpr int64_t kRowsTogether = 64;

using Bits = std::vector<uint64_t>;  // one per row

bool overlap(const Bits& a, const Bits& b) noexcept {
  for (size_t i = 0; i < a.size(); ++i) {
    if ((a[i] & b[i]) != 0) return true;
  }
  return false;
}

struct Bundle {
  std::vector<int32_t> columns;
  int32_t values = 1;
  Bits away;  // rows that are not all at their common bins
};

// For each of the columns, the rows where it is not at its common bin.
std::vector<Bits> rows_away(const Cuts& cuts, const std::vector<int32_t>& columns, const double* x,
                            int64_t n_rows, Team& team) {
  const auto words = static_cast<size_t>((n_rows + kRowsTogether - 1) / kRowsTogether);
  std::vector<Bits> away(columns.size(), Bits(words));
  team.share(static_cast<int64_t>(words), 64, [&](int64_t first, int64_t last) noexcept {
    uint16_t bins[kRowsTogether];
    for (int64_t word = first; word < last; ++word) {
      const int64_t row = word * kRowsTogether, n = std::min(kRowsTogether, n_rows - row);
      for (size_t c = 0; c < columns.size(); ++c) {
        cuts.find(columns[c], x + row * cuts.n_columns() + columns[c], cuts.n_columns(), n, bins);
        uint64_t bits = 0;
        for (int64_t i = 0; i < n; ++i) bits |= uint64_t{bins[i] != cuts[columns[c]].common} << i;
        away[c][static_cast<size_t>(word)] = bits;
      }
    }
  });
  return away;
}

// Columns that exclude each other together: the fullest first, each to the first bundle that has room for it.
std::vector<Bundle> bundled(const Cuts& cuts, const std::vector<int32_t>& columns, std::vector<Bits> away) {
  std::vector<std::pair<int64_t, size_t>> order;
  for (size_t c = 0; c < columns.size(); ++c) {
    int64_t count = 0;
    for (const uint64_t bits : away[c]) count += std::popcount(bits);
    order.emplace_back(-count, c);
  }
  std::sort(order.begin(), order.end());
  std::vector<Bundle> bundles;
  for (const auto& [count, c] : order) {
    const int32_t more = cuts[columns[c]].n_bins() - 1;
    Bundle* home = nullptr;
    for (size_t b = 0, tried = 0; b < bundles.size() && tried < kBundlesTried && home == nullptr; ++b) {
      if (bundles[b].values + more > kSlotValues) continue;
      ++tried;
      if (!overlap(bundles[b].away, away[c])) home = &bundles[b];
    }
    if (home == nullptr) {
      bundles.push_back({.columns = {columns[c]}, .values = 1 + more, .away = std::move(away[c])});
      continue;
    }
    home->columns.push_back(columns[c]);
    home->values += more;
    for (size_t i = 0; i < away[c].size(); ++i) home->away[i] |= away[c][i];
    Bits().swap(away[c]);
  }
  return bundles;
}

}  // namespace

Bins::Bins(std::shared_ptr<const Cuts> cuts, const double* x, int64_t n_rows, int threads)
    : cuts_(std::move(cuts)), n_rows_(n_rows), wide_(!narrow_enough()) {
  if (wide_) {
    place_apart();
  } else {
    place_columns(x, threads);
  }
  make_room();
  if (wide_) {
    fill(0, x, n_rows, threads, wide_columns_);
  } else {
    fill(0, x, n_rows, threads, narrow_);
  }
}

Bins::Bins(std::shared_ptr<const Cuts> cuts, int64_t n_rows)
    : cuts_(std::move(cuts)), n_rows_(n_rows), wide_(!narrow_enough()) {
  place_apart();
  make_room();
}

void Bins::fill_rows(int64_t first, const double* x, int64_t count, int threads) {
  for (const BinPlace& place : places_) {
    if (place.first >= 0) throw std::invalid_argument("rows with shared slots cannot be filled anew");
  }
  if (wide_) {
    fill(first, x, count, threads, wide_columns_);
  } else {
    fill(first, x, count, threads, narrow_);
  }
}

bool Bins::narrow_enough() const noexcept {
  bool narrow = true;
  for (int32_t j = 0; j < cuts_->n_columns(); ++j) narrow = narrow && (*cuts_)[j].n_bins() <= kSlotValues;
  return narrow;
}

void Bins::place_apart() {
  for (int32_t j = 0; j < cuts_->n_columns(); ++j) {
    places_.push_back({.slot = j});
    slot_size_.push_back((*cuts_)[j].n_bins());
  }
}

// Zero: in a bundle, all columns at their common bins.
void Bins::make_room() {
  const auto size = static_cast<size_t>(n_rows_) * static_cast<size_t>(n_slots());
  if (wide_) {
    wide_columns_.resize(size);
  } else {
    narrow_.resize(size);
    rows_.resize(size);
  }
}

void Bins::place_columns(const double* x, int threads) {
  places_.resize(static_cast<size_t>(cuts_->n_columns()));
  std::vector<int32_t> sparse;
  for (int32_t j = 0; j < cuts_->n_columns(); ++j) {
    const BinColumn& column = (*cuts_)[j];
    if (!column.categorical && column.common_share >= kSparse) sparse.push_back(j);
  }
  Team team(sparse.empty() ? 1 : threads);
  std::vector<uint8_t> placed(places_.size());
  for (const Bundle& bundle : bundled(*cuts_, sparse, rows_away(*cuts_, sparse, x, n_rows_, team))) {
    if (bundle.columns.size() < 2) continue;
    int32_t first = 1;
    for (const int32_t column : bundle.columns) {
      places_[static_cast<size_t>(column)] = {.slot = n_slots(), .first = first};
      placed[static_cast<size_t>(column)] = 1;
      first += (*cuts_)[column].n_bins() - 1;
    }
    slot_size_.push_back(first);
  }
  for (int32_t j = 0; j < cuts_->n_columns(); ++j) {
    if (placed[static_cast<size_t>(j)] != 0) continue;
    places_[static_cast<size_t>(j)] = {.slot = n_slots(), .first = -1};
    slot_size_.push_back((*cuts_)[j].n_bins());
  }
}

template <class Value>
void Bins::fill(int64_t first_row, const double* x, int64_t count, int threads, std::vector<Value>& columns) {
  const auto n = static_cast<size_t>(n_rows_), stride = static_cast<size_t>(n_slots());
  Team team(threads);
  team.share((count + kRowsTogether - 1) / kRowsTogether, 16, [&](int64_t first, int64_t last) noexcept {
    uint16_t bins[kRowsTogether];
    for (int64_t block = first; block < last; ++block) {
      const int64_t from_row = block * kRowsTogether, together = std::min(kRowsTogether, count - from_row);
      const int64_t row = first_row + from_row;
      for (int32_t j = 0; j < cuts_->n_columns(); ++j) {
        cuts_->find(j, x + from_row * cuts_->n_columns() + j, cuts_->n_columns(), together, bins);
        Value* out = columns.data() + static_cast<size_t>(place(j).slot) * n + row;
        if (place(j).first < 0)
          std::copy_n(bins, together, out);
        else
          for (int64_t i = 0; i < together; ++i) out[i] += static_cast<Value>(slot_value(j, bins[i]));
      }
      for (size_t slot = 0; slot < stride && !wide_; ++slot) {
        const Value* from = columns.data() + slot * n + row;
        uint8_t* to = rows_.data() + static_cast<size_t>(row) * stride + slot;
        for (int64_t i = 0; i < together; ++i)
          to[static_cast<size_t>(i) * stride] = static_cast<uint8_t>(from[i]);
      }
    }
  });
}

void Bins::refill(int32_t first, const double* x, int threads) {
  const auto n = static_cast<size_t>(n_rows_), stride = static_cast<size_t>(n_slots());
  const int32_t width = cuts_->n_columns() - first;
  for (int32_t j = 0; j < width; ++j) {
    if (place(first + j).first >= 0)
      throw std::invalid_argument("a column that shares its slot cannot be filled anew");
  }
  Team team(threads);
  team.share((n_rows_ + kRowsTogether - 1) / kRowsTogether, 16, [&](int64_t begin, int64_t end) noexcept {
    uint16_t bins[kRowsTogether];
    for (int64_t block = begin; block < end; ++block) {
      const int64_t row = block * kRowsTogether, count = std::min(kRowsTogether, n_rows_ - row);
      for (int32_t j = 0; j < width; ++j) {
        cuts_->find(first + j, x + row * width + j, width, count, bins);
        const auto slot = static_cast<size_t>(place(first + j).slot);
        if (wide_) {
          std::copy_n(bins, count, wide_columns_.data() + slot * n + row);
          continue;
        }
        std::copy_n(bins, count, narrow_.data() + slot * n + row);
        uint8_t* to = rows_.data() + static_cast<size_t>(row) * stride + slot;
        for (int64_t i = 0; i < count; ++i)
          to[static_cast<size_t>(i) * stride] = static_cast<uint8_t>(bins[i]);
      }
    }
  });
}

template void Bins::fill(int64_t, const double*, int64_t, int, std::vector<uint8_t>&);
template void Bins::fill(int64_t, const double*, int64_t, int, std::vector<uint16_t>&);

}  // namespace anytime
