// What an example has paid for. Prices are whole ticks, so that sums are exact in any order.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace anytime {

// Groups of columns, their prices, and which other groups each one requires (a DAG).
class CostTable {
 public:
  // require[require_start[g] .. require_start[g + 1]) are the direct requirements of group g.
  // Throws std::invalid_argument on a cycle, a bad index, a negative price or a total over 2^62.
  CostTable(std::span<const int64_t> prices, std::span<const int64_t> require_start,
            std::span<const int32_t> require, std::span<const int32_t> column_group);

  int32_t n_groups() const noexcept { return static_cast<int32_t>(prices_.size()); }
  int32_t n_columns() const noexcept { return static_cast<int32_t>(column_group_.size()); }
  int32_t group_of(int32_t column) const noexcept { return column_group_[static_cast<size_t>(column)]; }
  int64_t own_price(int32_t group) const noexcept { return prices_[static_cast<size_t>(group)]; }

  // The group and all it needs, directly or not; ascending. The group must be in range.
  std::span<const int32_t> closure(int32_t group) const noexcept {
    const auto begin = static_cast<size_t>(closure_start_[static_cast<size_t>(group)]);
    const auto end = static_cast<size_t>(closure_start_[static_cast<size_t>(group) + 1]);
    return std::span(closure_).subspan(begin, end - begin);
  }
  // Union of the closures, ascending. Checks the indices.
  std::vector<int32_t> closed_union(std::span<const int32_t> groups) const;
  int64_t price(std::span<const int32_t> groups) const;

  // Ticks for the groups in a word of a bit set, without what they require.
  int64_t price_of(size_t word, uint64_t groups) const noexcept {
    int64_t sum = 0;
    if (byte_prices_.empty()) {
      for (; groups != 0; groups &= groups - 1) {
        sum += prices_[64 * word + static_cast<size_t>(std::countr_zero(groups))];
      }
      return sum;
    }
    const int64_t* prices = byte_prices_.data() + word * 8 * 256;
    for (int byte = 0; byte < 8; ++byte, prices += 256) sum += prices[groups >> (8 * byte) & 0xff];
    return sum;
  }

  void check_group(int64_t group) const;

  std::span<const int64_t> prices() const noexcept { return prices_; }
  std::span<const int64_t> require_start() const noexcept { return require_start_; }
  std::span<const int32_t> require() const noexcept { return require_; }
  std::span<const int32_t> column_group() const noexcept { return column_group_; }

 private:
  static constexpr size_t kMostTabled = 256;  // groups: the prices of eight at a time fill 64 KiB

  void check_arrays() const;
  void build_closures();
  void add_up_bytes();

  std::vector<int64_t> prices_;
  std::vector<int64_t> require_start_;
  std::vector<int32_t> require_;
  std::vector<int32_t> column_group_;
  std::vector<int64_t> closure_start_;
  std::vector<int32_t> closure_;
  std::vector<int64_t>
      byte_prices_;  // (bytes of a bit set, 256): of all sets of eight groups; none where there are many
};

// Per row: the groups bought (each once, with what they require) and the ticks paid.
class Ledger {
 public:
  Ledger(std::shared_ptr<const CostTable> table, int64_t n_rows);
  // Restores a saved state; throws std::invalid_argument unless it is one.
  Ledger(std::shared_ptr<const CostTable> table, std::span<const uint64_t> bits,
         std::span<const int64_t> paid);

  const std::shared_ptr<const CostTable>& table() const noexcept { return table_; }
  int64_t n_rows() const noexcept { return static_cast<int64_t>(paid_.size()); }
  int64_t words_per_row() const noexcept { return words_; }
  std::span<const int64_t> paid() const noexcept { return paid_; }
  std::span<const uint64_t> bits() const noexcept { return bits_; }

  // Checked, for many rows at once. Nothing changes when they throw.
  void buy(std::span<const int32_t> groups, std::span<const int64_t> rows);
  void quote(std::span<const int32_t> groups, std::span<const int64_t> rows, std::span<int64_t> out) const;
  void charge(int64_t ticks, std::span<const int64_t> rows);

  // Unchecked, for the evaluator's inner loop.
  bool has(int64_t row, int32_t group) const noexcept {
    return (word(row, group) >> (static_cast<uint32_t>(group) & 63u) & 1u) != 0;
  }
  // Pays if the row can afford it without exceeding `budget`; says whether it did.
  bool try_buy(int64_t row, int32_t group, int64_t budget) noexcept;
  bool can_buy(int64_t row, int32_t group, int64_t budget) const noexcept;
  bool try_charge(int64_t row, int64_t ticks, int64_t budget) noexcept;
  // Pays `ticks` and for the groups of a bit set that is closed (words_per_row words), if the row can afford
  // all of it.
  bool try_pay(int64_t row, const uint64_t* groups, int64_t ticks, int64_t budget) noexcept {
    int64_t& paid = paid_[static_cast<size_t>(row)];
    if (budget < paid || ticks > budget - paid)
      return false;  // this form cannot overflow: 0 <= paid <= budget
    uint64_t* bits = bits_.data() + static_cast<size_t>(row * words_);
    int64_t price = 0;  // all groups together cost at most 2^62
    for (int64_t w = 0; w < words_; ++w) {
      price += table_->price_of(static_cast<size_t>(w), groups[w] & ~bits[w]);
    }
    if (price > budget - paid - ticks) return false;
    paid += ticks + price;
    for (int64_t w = 0; w < words_; ++w) bits[w] |= groups[w];
    return true;
  }
  // What a row has paid, and the first word of what it has bought: for loops that keep the rules themselves.
  struct Account {
    int64_t& paid;
    uint64_t& bought;
  };
  Account account(int64_t row) noexcept {
    return {paid_[static_cast<size_t>(row)], bits_[static_cast<size_t>(row * words_)]};
  }
  // Takes back a charge that was just made.
  void refund(int64_t row, int64_t ticks) noexcept { paid_[static_cast<size_t>(row)] -= ticks; }
  // The state of a row, and back to the one that was kept last.
  void keep(int64_t row) noexcept;
  void restore(int64_t row) noexcept;

 private:
  uint64_t word(int64_t row, int32_t group) const noexcept {
    return bits_[static_cast<size_t>(row * words_ + (group >> 6))];
  }
  void mark(int64_t row, int32_t group) noexcept {
    bits_[static_cast<size_t>(row * words_ + (group >> 6))] |= uint64_t{1}
                                                               << (static_cast<uint32_t>(group) & 63u);
  }
  int64_t missing_price(int64_t row, std::span<const int32_t> closed) const noexcept;
  void check_rows(std::span<const int64_t> rows) const;

  std::shared_ptr<const CostTable> table_;
  int64_t words_;
  std::vector<uint64_t> bits_;
  std::vector<int64_t> paid_;
  std::vector<uint64_t> kept_bits_;  // words_ of them
  int64_t kept_paid_ = 0;
};

}  // namespace anytime
