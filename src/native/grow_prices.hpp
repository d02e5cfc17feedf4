// What a growing tree has paid for, and what its columns cost it.
#pragma once

#include <cstdint>
#include <vector>

#include "grow.hpp"

namespace anytime {

class Purse {
 public:
  Purse(const GrowPrices& prices, double penalty, int32_t n_columns)
      : prices_(prices), penalty_(penalty), bought_(prices.bought.begin(), prices.bought.end()) {
    fees_.resize(static_cast<size_t>(n_columns));
    quote();
  }

  // In units of the impurity.
  double fee(int32_t column) const noexcept { return fees_[static_cast<size_t>(column)]; }
  // Whether anything new was bought.
  bool buy(int32_t column) {
    if (prices_.table == nullptr) return false;
    const int64_t before = ticks_;
    bool any = false;
    for (const int32_t group : prices_.table->closure(prices_.table->group_of(column))) {
      uint8_t& has = bought_[static_cast<size_t>(group)];
      if (has != 0) continue;
      has = 1;
      any = true;
      ticks_ += prices_.table->own_price(group);
    }
    if (any) quote();
    return ticks_ != before;
  }
  int64_t ticks() const noexcept { return ticks_; }
  const std::vector<uint8_t>& bought() const noexcept { return bought_; }

 private:
  void quote() {
    if (prices_.table == nullptr || penalty_ == 0.0) return;
    std::vector<double> by_group(static_cast<size_t>(prices_.table->n_groups()));
    for (int32_t group = 0; group < prices_.table->n_groups(); ++group) {
      int64_t ticks = 0;
      for (const int32_t needed : prices_.table->closure(group)) {
        if (bought_[static_cast<size_t>(needed)] == 0) ticks += prices_.table->own_price(needed);
      }
      by_group[static_cast<size_t>(group)] =
          ticks == 0 ? 0.0 : penalty_ * (static_cast<double>(ticks) * prices_.tick);
    }
    for (size_t j = 0; j < fees_.size(); ++j) {
      fees_[j] = by_group[static_cast<size_t>(prices_.table->group_of(static_cast<int32_t>(j)))];
    }
  }

  const GrowPrices& prices_;
  double penalty_;
  std::vector<uint8_t> bought_;
  std::vector<double> fees_;
  int64_t ticks_ = 0;
};

}  // namespace anytime
