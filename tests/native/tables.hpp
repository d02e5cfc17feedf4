// Tables to grow trees on.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "bins.hpp"
#include "checking.hpp"

using anytime::Bins, anytime::CutOptions, anytime::Cuts;

struct Table {
  int64_t n;
  int32_t d;
  std::vector<double> x;
  std::vector<uint8_t> categorical;
};

// Dense, sparse, one-hot, categorical columns; some values are missing.
inline Table random_table(Random& random, int64_t n, int32_t d) {
  Table table{n, d, std::vector<double>(static_cast<size_t>(n * d)),
              std::vector<uint8_t>(static_cast<size_t>(d))};
  const int32_t hot = d / 2;  // columns from here on exclude each other
  for (int64_t i = 0; i < n; ++i) {
    double* row = table.x.data() + i * d;
    for (int32_t j = 0; j < hot; ++j) {
      row[j] = j % 3 == 1 ? static_cast<double>(random() % 7) : normal(random);
      if (j % 4 == 3 && random() % 5 == 0) row[j] = std::numeric_limits<double>::quiet_NaN();
    }
    row[hot + static_cast<int32_t>(random() % static_cast<uint64_t>(d - hot))] =
        1.0 + static_cast<double>(random() % 3);
  }
  for (int32_t j = 1; j < hot; j += 6) table.categorical[static_cast<size_t>(j)] = 1;
  return table;
}

inline Bins binned(const Table& table, bool exact, int threads) {
  auto cuts = std::make_shared<const Cuts>(table.x.data(), table.n, table.d, table.categorical,
                                           CutOptions{.exact = exact, .sample = 3000, .threads = threads});
  return Bins(std::move(cuts), table.x.data(), table.n, threads);
}
