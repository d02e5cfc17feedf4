// What trees of at most 64 leaves say of many rows, by the numbers of their leaves.
//
// A number of 64 bits for each leaf is kept as eight tables of bytes, which vectors look up without memory:
// 64 rows an instruction. Bytes are added up in 16 bits, or joined, and become numbers again when all trees
// have been taken.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scan.hpp"

namespace anytime {

inline constexpr size_t kPlaneLeaves = 64;
inline constexpr size_t kPlaneTrees = 256;  // whose bytes add up in 16 bits

// Of the number of each leaf its first bytes, its second ones, ...
struct alignas(64) Planes {
  uint8_t bytes[8][kPlaneLeaves];
};

struct PlaneKernels {
  void (*fill)(const uint64_t* numbers, size_t leaves, Planes& planes) noexcept;
  // Of the rows, at most kScanRows rounded up to 64, the sum, modulo 2^64, or the union over at most
  // kPlaneTrees trees. `leaves` has kScanRows entries for each tree.
  void (*add)(const Planes* trees, size_t count, const uint8_t* leaves, size_t rows, uint64_t* out) noexcept;
  void (*join)(const Planes* trees, size_t count, const uint8_t* leaves, size_t rows, uint64_t* out) noexcept;
};

// Null where the instruction set, or this machine, has none.
const PlaneKernels* plane_kernels(Vectors vectors) noexcept;

}  // namespace anytime
