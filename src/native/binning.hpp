// Values to ranks: see layout.hpp for what a rank is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout.hpp"

namespace anytime {

// The ranks of a pack: those of its first kHalf rows, column after column, and those of the others.
template <class Rank>
struct PackRanks {
  Rank* low;
  Rank* high;
  size_t stride;  // from a column to the next: kHalf, or kScanRows where trees may be scanned
};

// The rows of a pack, and where their ranks are to stand.
template <class Rank>
struct PackRows {
  const double* row[kLanes];
  PackRanks<Rank> ranks;
};

// Searches of which the stages before some end test few thresholds (see Early), by neighbouring columns of X:
// those of a row are compared together.
class FewTests {
 public:
  static constexpr int kColumns = 8;

  FewTests() = default;  // none
  FewTests(const Layout& layout, int32_t end);

  bool has(int32_t search) const noexcept {
    return static_cast<size_t>(search) < has_.size() && has_[static_cast<size_t>(search)] != 0;
  }

  struct Test {
    const Search* search;  // null: nothing is asked of the column
    int count;
    uint32_t rank[kFew];  // of what is above each of the thresholds but not the next
  };
  struct Columns {
    int32_t first;  // in X
    int most = 0;   // tests of one of them
    Test tests[kColumns] = {};
    double thresholds[kFew][kColumns];  // infinity where there is none
    // bits, by column: those that are read; in which zero is missing, NaN goes right
    uint8_t read = 0, zero_is_missing = 0, nan_last = 0;
    double missing[kColumns] = {};
    int64_t fix_up[kColumns] = {};  // what the instruction of this name makes of a NaN: 0, or nothing
  };
  std::span<const Columns> columns() const noexcept { return columns_; }

 private:
  std::vector<uint8_t> has_;
  std::vector<Columns> columns_;
};

// Packs that are best taken together: their rows stay in the first cache, and what a search reads serves them
// all.
inline constexpr size_t kBinTogether = 4;

// Searches [from, to) of the layout for the rows of some packs; with search 0 come all of the few tests.
template <class Rank>
void bin_packs(const Layout& layout, bool float32_input, std::span<const PackRows<Rank>> packs, int32_t from,
               int32_t to, const FewTests& few) noexcept;

// One search, by comparisons of doubles (or categories) alone.
template <class Rank>
void bin_by_doubles(const Layout& layout, bool float32_input, const Search& search,
                    std::span<const PackRows<Rank>> packs) noexcept;

// The same for one row, whose ranks stand in the first lane.
template <class Rank>
void bin_row(const Layout& layout, bool float32_input, const double* row, int32_t from, int32_t to,
             Rank* ranks) noexcept;

}  // namespace anytime
