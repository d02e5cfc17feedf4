#include "costs.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace anytime {
namespace {

constexpr int64_t kMaxTotal = int64_t{1} << 62;
constexpr int64_t kMaxClosure = int64_t{1} << 28;  // a table from a file must not ask for unbounded memory

[[noreturn]] void fail(const std::string& message) { throw std::invalid_argument(message); }

std::string str(int64_t value) { return std::to_string(value); }

}  // namespace

CostTable::CostTable(std::span<const int64_t> prices, std::span<const int64_t> require_start,
                     std::span<const int32_t> require, std::span<const int32_t> column_group)
    : prices_(prices.begin(), prices.end()),
      require_start_(require_start.begin(), require_start.end()),
      require_(require.begin(), require.end()),
      column_group_(column_group.begin(), column_group.end()) {
  check_arrays();
  build_closures();
  add_up_bytes();
}

void CostTable::check_arrays() const {
  constexpr auto kMaxCount = static_cast<size_t>(std::numeric_limits<int32_t>::max()) - 1;
  if (prices_.size() > kMaxCount || column_group_.size() > kMaxCount) fail("too many groups or columns");
  int64_t total = 0;
  for (size_t g = 0; g < prices_.size(); ++g) {
    if (prices_[g] < 0)
      fail("price of group " + str(static_cast<int64_t>(g)) + " is negative: " + str(prices_[g]));
    if (prices_[g] > kMaxTotal - total) fail("prices add up to more than 2**62 ticks");
    total += prices_[g];
  }
  if (require_start_.size() != prices_.size() + 1) {
    fail("require_start has " + str(static_cast<int64_t>(require_start_.size())) + " entries, expected " +
         str(n_groups() + int64_t{1}));
  }
  if (require_start_.front() != 0 || require_start_.back() != static_cast<int64_t>(require_.size())) {
    fail("require_start must begin at 0 and end at the length of require");
  }
  if (!std::is_sorted(require_start_.begin(), require_start_.end())) fail("require_start decreases");
  for (const int32_t g : require_) {
    if (g < 0 || g >= n_groups())
      fail("required group " + str(g) + " is not in [0, " + str(n_groups()) + ")");
  }
  for (size_t j = 0; j < column_group_.size(); ++j) {
    if (column_group_[j] < 0 || column_group_[j] >= n_groups()) {
      fail("column " + str(static_cast<int64_t>(j)) + " names group " + str(column_group_[j]) +
           ", not in [0, " + str(n_groups()) + ")");
    }
  }
}

// Groups are closed in an order in which every requirement comes first (Kahn), each as a union of closed
// lists.
void CostTable::build_closures() {
  const auto n = prices_.size();
  std::vector<int64_t> user_start(n + 1, 0);
  for (const int32_t g : require_) ++user_start[static_cast<size_t>(g) + 1];
  for (size_t g = 0; g < n; ++g) user_start[g + 1] += user_start[g];
  std::vector<int32_t> users(require_.size());
  std::vector<int64_t> fill(user_start.begin(), user_start.end() - 1);
  std::vector<int64_t> waiting(n);
  for (size_t g = 0; g < n; ++g) {
    waiting[g] = require_start_[g + 1] - require_start_[g];
    for (int64_t e = require_start_[g]; e < require_start_[g + 1]; ++e) {
      const auto needed = static_cast<size_t>(require_[static_cast<size_t>(e)]);
      users[static_cast<size_t>(fill[needed]++)] = static_cast<int32_t>(g);
    }
  }
  std::vector<int32_t> order;
  order.reserve(n);
  for (size_t g = 0; g < n; ++g) {
    if (waiting[g] == 0) order.push_back(static_cast<int32_t>(g));
  }
  std::vector<std::vector<int32_t>> closed(n);
  std::vector<uint8_t> seen(n, 0);
  int64_t total = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto g = static_cast<size_t>(order[i]);
    auto& list = closed[g];
    list.push_back(order[i]);
    for (int64_t e = require_start_[g]; e < require_start_[g + 1]; ++e) {
      for (const int32_t other : closed[static_cast<size_t>(require_[static_cast<size_t>(e)])]) {
        if (!seen[static_cast<size_t>(other)]) list.push_back(other);
        seen[static_cast<size_t>(other)] = 1;
      }
    }
    for (const int32_t other : list) seen[static_cast<size_t>(other)] = 0;
    std::sort(list.begin(), list.end());
    total += static_cast<int64_t>(list.size());
    if (total > kMaxClosure) fail("the closures of the requirements hold more than 2**28 groups");
    for (int64_t e = user_start[g]; e < user_start[g + 1]; ++e) {
      const int32_t user = users[static_cast<size_t>(e)];
      if (--waiting[static_cast<size_t>(user)] == 0) order.push_back(user);
    }
  }
  if (order.size() != n) {
    const auto stuck = std::find_if(waiting.begin(), waiting.end(), [](int64_t w) { return w > 0; });
    fail("requirements form a cycle through or below group " + str(stuck - waiting.begin()));
  }
  closure_start_.assign(1, 0);
  closure_.reserve(static_cast<size_t>(total));
  for (const auto& list : closed) {
    closure_.insert(closure_.end(), list.begin(), list.end());
    closure_start_.push_back(static_cast<int64_t>(closure_.size()));
  }
}

void CostTable::add_up_bytes() {
  if (prices_.size() > kMostTabled) return;
  byte_prices_.assign((prices_.size() + 63) / 64 * 8 * 256, 0);
  for (size_t i = 0; i < byte_prices_.size(); ++i) {
    const size_t groups = i % 256, first = i / 256 * 8;
    if (groups == 0) continue;
    const auto group = first + static_cast<size_t>(std::countr_zero(groups));  // all but the first are known
    byte_prices_[i] =
        byte_prices_[i - groups + (groups & (groups - 1))] + (group < prices_.size() ? prices_[group] : 0);
  }
}

void CostTable::check_group(int64_t group) const {
  if (group < 0 || group >= n_groups())
    fail("group " + str(group) + " is not in [0, " + str(n_groups()) + ")");
}

std::vector<int32_t> CostTable::closed_union(std::span<const int32_t> groups) const {
  std::vector<int32_t> all;
  for (const int32_t g : groups) {
    check_group(g);
    const auto one = closure(g);
    all.insert(all.end(), one.begin(), one.end());
    if (groups.size() > 1 && all.size() > 2 * prices_.size() + 64) {  // many groups may share long closures
      std::sort(all.begin(), all.end());
      all.erase(std::unique(all.begin(), all.end()), all.end());
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

int64_t CostTable::price(std::span<const int32_t> groups) const {
  int64_t total = 0;
  for (const int32_t g : closed_union(groups)) total += own_price(g);
  return total;
}

Ledger::Ledger(std::shared_ptr<const CostTable> table, int64_t n_rows)
    : table_(std::move(table)), words_((table_->n_groups() + int64_t{63}) / 64) {
  if (n_rows < 0) fail("n_rows is negative");
  if (words_ > 0 && n_rows > (int64_t{1} << 48) / words_) fail("n_rows is too large");
  bits_.assign(static_cast<size_t>(n_rows * words_), 0);
  paid_.assign(static_cast<size_t>(n_rows), 0);
  kept_bits_.assign(static_cast<size_t>(words_), 0);
}

Ledger::Ledger(std::shared_ptr<const CostTable> table, std::span<const uint64_t> bits,
               std::span<const int64_t> paid)
    : Ledger(std::move(table), static_cast<int64_t>(paid.size())) {
  if (bits.size() != bits_.size()) fail("ledger state does not fit its table");
  const int64_t n_groups = table_->n_groups();
  for (int64_t row = 0; row < n_rows(); ++row) {
    if (paid[static_cast<size_t>(row)] < 0)
      fail("ledger state: row " + str(row) + " has paid less than nothing");
    if (n_groups % 64 != 0) {
      const uint64_t last = bits[static_cast<size_t>((row + 1) * words_ - 1)];
      if (last >> (n_groups % 64) != 0)
        fail("ledger state: row " + str(row) + " owns a group that does not exist");
    }
  }
  std::copy(bits.begin(), bits.end(), bits_.begin());
  std::copy(paid.begin(), paid.end(), paid_.begin());
}

void Ledger::check_rows(std::span<const int64_t> rows) const {
  for (const int64_t row : rows) {
    if (row < 0 || row >= n_rows()) fail("row " + str(row) + " is not in [0, " + str(n_rows()) + ")");
  }
}

int64_t Ledger::missing_price(int64_t row, std::span<const int32_t> closed) const noexcept {
  int64_t price = 0;
  for (const int32_t g : closed) {
    if (!has(row, g)) price += table_->own_price(g);
  }
  return price;
}

void Ledger::buy(std::span<const int32_t> groups, std::span<const int64_t> rows) {
  check_rows(rows);
  const auto closed = table_->closed_union(groups);
  for (const int64_t row : rows) {
    if (missing_price(row, closed) > std::numeric_limits<int64_t>::max() - paid_[static_cast<size_t>(row)]) {
      fail("row " + str(row) + " would pay more than 2**63 ticks");
    }
  }
  for (const int64_t row : rows) {
    paid_[static_cast<size_t>(row)] += missing_price(row, closed);
    for (const int32_t g : closed) mark(row, g);
  }
}

void Ledger::quote(std::span<const int32_t> groups, std::span<const int64_t> rows,
                   std::span<int64_t> out) const {
  check_rows(rows);
  const auto closed = table_->closed_union(groups);
  for (size_t i = 0; i < rows.size(); ++i) out[i] = missing_price(rows[i], closed);
}

void Ledger::charge(int64_t ticks, std::span<const int64_t> rows) {
  if (ticks < 0) fail("cannot charge " + str(ticks) + " ticks: a charge is not negative");
  check_rows(rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    auto& paid = paid_[static_cast<size_t>(rows[i])];
    if (ticks > std::numeric_limits<int64_t>::max() - paid) {
      for (size_t j = 0; j < i; ++j) paid_[static_cast<size_t>(rows[j])] -= ticks;
      fail("row " + str(rows[i]) + " would pay more than 2**63 ticks");
    }
    paid += ticks;
  }
}

bool Ledger::try_charge(int64_t row, int64_t ticks, int64_t budget) noexcept {
  auto& paid = paid_[static_cast<size_t>(row)];
  if (budget < paid || ticks > budget - paid) return false;  // this form cannot overflow: 0 <= paid <= budget
  paid += ticks;
  return true;
}

bool Ledger::can_buy(int64_t row, int32_t group, int64_t budget) const noexcept {
  const int64_t paid = paid_[static_cast<size_t>(row)];
  return paid <= budget && missing_price(row, table_->closure(group)) <= budget - paid;
}

void Ledger::keep(int64_t row) noexcept {
  std::copy_n(bits_.begin() + row * words_, words_, kept_bits_.begin());
  kept_paid_ = paid_[static_cast<size_t>(row)];
}

void Ledger::restore(int64_t row) noexcept {
  std::copy_n(kept_bits_.begin(), words_, bits_.begin() + row * words_);
  paid_[static_cast<size_t>(row)] = kept_paid_;
}

bool Ledger::try_buy(int64_t row, int32_t group, int64_t budget) noexcept {
  const auto closed = table_->closure(group);
  if (!try_charge(row, missing_price(row, closed), budget)) return false;
  for (const int32_t g : closed) mark(row, g);
  return true;
}

}  // namespace anytime
