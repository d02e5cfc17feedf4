// A small tree for many rows at once, without a branch and without a look-up.
//
// Every row begins at the leftmost leaf. The inner nodes are taken from the root down, each before its
// children: the rows that stand at the leftmost leaf of its left side and whose rank is above the node's move
// to the leftmost leaf of its right side. When all nodes have been taken, each row stands at the leaf that a
// walk would have found. Every node looks at every row, but at 16 to 64 of them in one instruction.
#pragma once

#include <cstddef>
#include <cstdint>

namespace anytime {

inline constexpr size_t kScanRows = 256;  // whose ranks stand side by side, column after column

// Leaves are named by their numbers within the tree.
template <class Rank>
struct ScanNode {
  Rank column;
  Rank rank;
  Rank from;  // the leftmost leaf of the left side
  Rank to;    // the leftmost leaf of the right side
};

// The rows' leaves, for `rows` rows (at most kScanRows, rounded up to whole vectors): in `leaf` come the
// numbers of their leaves, and something behind them up to a whole vector. `first` is the leftmost leaf of
// the tree.
template <class Rank>
using ScanTree = void (*)(const ScanNode<Rank>* nodes, size_t count, const Rank* ranks, size_t rows,
                          Rank first, Rank* leaf) noexcept;

// Instruction sets for which the scan is compiled.
enum class Vectors : uint8_t { kPortable, kAvx2, kAvx512 };
inline constexpr Vectors kAllVectors[] = {Vectors::kPortable, Vectors::kAvx2, Vectors::kAvx512};

const char* name_of(Vectors vectors) noexcept;
bool is_supported(Vectors vectors) noexcept;
// What runs use: the widest that this machine has, until something else is asked for (by tests; every choice
// gives the same bits). Throws std::invalid_argument if the machine does not have it.
Vectors vectors_in_use() noexcept;
void use_vectors(Vectors vectors);

template <class Rank>
ScanTree<Rank> scan_for(Vectors vectors) noexcept;

}  // namespace anytime
