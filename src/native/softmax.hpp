// The multinomial loss of many rows: what pulls at their scores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace anytime {

// pull (n_classes, n) = weight * (softmax of each row's scores - 1 at its class), for scores (n_classes, n).
// Class after class in memory, so that rows stand side by side in vectors; each row has the same bits
// whatever instructions the machine has. `classes` are below n_classes.
template <class T>
void softmax_pull(const T* scores, size_t n_classes, std::span<const int64_t> classes,
                  std::span<const T> weight, T* pull);

}  // namespace anytime
