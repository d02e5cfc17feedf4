#include "blocks.hpp"

#include <algorithm>
#include <cmath>

#include "products.hpp"

namespace anytime {
namespace {

// Factor a block (q, q) in place: lower triangle L with A = L L', ones and zeros in dependent directions.
void factor(double* block, int64_t q, const double* floor, uint8_t* kept) noexcept {
  for (int64_t j = 0; j < q; ++j) {
    double* row = block + j * q;
    for (int64_t i = 0; i < j; ++i) {
      const double* other = block + i * q;
      row[i] = kept[i] ? (row[i] - dot(row, other, i)) / other[i] : 0.0;
    }
    const double left = row[j] - dot(row, row, j);
    kept[j] = left > floor[j];
    row[j] = kept[j] ? std::sqrt(left) : 1.0;
  }
}

void take_out(double* from, const double* what, double times, int64_t n) noexcept {
  for (int64_t i = 0; i < n; ++i) from[i] -= times * what[i];
}

// The block of each group named loses P_g' P_g, where P (q, d) is the new part of the factor.
void deflate(const Blocks& at, std::span<double> blocks, std::span<const int64_t> groups, const double* panel,
             int64_t q) noexcept {
  const int64_t d = at.start.back();
  for (const int64_t group : groups) {
    const auto g = static_cast<size_t>(group);
    const int64_t first = at.start[g], size = at.start[g + 1] - first;
    for (int64_t r = 0; r < q; ++r) {
      const double* row = panel + r * d + first;
      for (int64_t i = 0; i < size; ++i) take_out(blocks.data() + at.place[g] + i * size, row, row[i], size);
    }
  }
}

}  // namespace

void block_gains(const Blocks& at, std::span<const double> blocks, std::span<const double> b, int64_t p,
                 std::span<const double> floor, std::span<const int64_t> groups, std::span<double> gains) {
  std::vector<double> block, solved;
  std::vector<uint8_t> kept;
  for (size_t n = 0; n < groups.size(); ++n) {
    const auto g = static_cast<size_t>(groups[n]);
    const int64_t first = at.start[g], q = at.start[g + 1] - first;
    block.assign(blocks.begin() + at.place[g], blocks.begin() + at.place[g + 1]);
    kept.resize(static_cast<size_t>(q));
    factor(block.data(), q, floor.data() + first, kept.data());
    solved.resize(static_cast<size_t>(q));
    double gain = 0.0;
    for (int64_t c = 0; c < p; ++c) {
      for (int64_t j = 0; j < q; ++j) {
        const double* row = block.data() + j * q;
        const double left = b[static_cast<size_t>((first + j) * p + c)] - dot(row, solved.data(), j);
        solved[static_cast<size_t>(j)] = kept[static_cast<size_t>(j)] ? left / row[j] : 0.0;
      }
      gain += dot(solved.data(), solved.data(), q);
    }
    gains[n] = 0.5 * gain;
  }
}

int64_t buy_group(const Blocks& at, std::span<double> blocks, std::span<const int64_t> left, double* panel,
                  int64_t q, int64_t first, double* b, int64_t p, const double* floor, double* z) {
  const int64_t d = at.start.back();
  std::vector<double> own(static_cast<size_t>(q * q));
  std::vector<uint8_t> kept(static_cast<size_t>(q));
  for (int64_t j = 0; j < q; ++j) std::copy_n(panel + j * d + first, q, own.data() + j * q);
  factor(own.data(), q, floor + first, kept.data());
  std::copy_n(b + first * p, q * p, z);
  for (int64_t j = 0; j < q; ++j) {
    double* row = panel + j * d;
    if (kept[static_cast<size_t>(j)]) {
      const double* weights = own.data() + j * q;
      for (int64_t i = 0; i < j; ++i) {
        take_out(row, panel + i * d, weights[i], d);
        take_out(z + j * p, z + i * p, weights[i], p);
      }
      for (int64_t i = 0; i < d; ++i) row[i] /= weights[j];
      for (int64_t c = 0; c < p; ++c) z[j * p + c] /= weights[j];
    } else {
      std::fill_n(row, d, 0.0);
      std::fill_n(z + j * p, p, 0.0);
    }
    for (int64_t i = 0; i < q; ++i)
      row[first + i] = i < j ? 0.0 : own[static_cast<size_t>(i * q + j)];  // exactly
  }
  for (int64_t j = 0; j < q; ++j) {
    const double* row = panel + j * d;
    for (int64_t i = 0; i < d; ++i) take_out(b + i * p, z + j * p, row[i], p);
  }
  std::fill_n(b + first * p, q * p, 0.0);
  if (!blocks.empty()) deflate(at, blocks, left, panel, q);
  return std::count(kept.begin(), kept.end(), uint8_t{1});
}

}  // namespace anytime
