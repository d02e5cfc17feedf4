// The diagonal blocks of a covariance matrix, one per group of columns, side by side in one array: what a
// group would gain.
//
// Group g has the columns start[g] .. start[g + 1] and a symmetric block of that size at place[g], in C
// order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace anytime {

struct Blocks {
  std::span<const int64_t> start;  // (G + 1) first column of each group
  std::span<const int64_t> place;  // (G + 1) where each block begins
};

// gains[i] = half the squared length of b (D, p) over block ``groups[i]``: b' A^-1 b / 2, dependent
// directions left out. A direction is dependent when what is left of its variance is at most ``floor`` (D).
void block_gains(const Blocks& at, std::span<const double> blocks, std::span<const double> b, int64_t p,
                 std::span<const double> floor, std::span<const int64_t> groups, std::span<double> gains);

// Buy the group whose columns begin at ``first``: one step of a block Cholesky factorisation.
//
// ``panel`` (q, d) holds what is left of the group's rows of the covariance matrix and becomes the rows of
// the factor; ``z`` (q, p) becomes the solution of L z = b of the group, and ``b`` (d, p) loses its effect. A
// dependent direction gets a row of zeros with the pivot 1 and z = 0. Where ``blocks`` is not empty, the
// effect is taken out of the blocks of ``left`` too. Returns the number of directions that are not dependent.
int64_t buy_group(const Blocks& at, std::span<double> blocks, std::span<const int64_t> left, double* panel,
                  int64_t q, int64_t first, double* b, int64_t p, const double* floor, double* z);

}  // namespace anytime
