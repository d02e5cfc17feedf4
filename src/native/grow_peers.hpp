// A tree that several processes grow together, each on rows of its own.
//
// All run the same code and decide the same: whatever is decided by sums over rows is decided by sums over
// everyone's rows, which are whole numbers and so do not depend on who holds which. The sums of a histogram
// are not sent to everyone: each peer adds up those of its own columns and tells the others their best
// splits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace anytime {

class Peers {
 public:
  using Bytes = std::vector<std::byte>;

  Peers(int32_t rank, int32_t size) : rank_(rank), size_(size) {}
  virtual ~Peers() = default;

  int32_t rank() const noexcept { return rank_; }
  int32_t size() const noexcept { return size_; }
  // Sends out[i] to peer i; what each of them has sent here. All peers call it at the same point. What it
  // throws, the grower passes on.
  virtual std::vector<Bytes> exchange(const std::vector<std::span<const std::byte>>& out) = 0;

  // The same message to all.
  std::vector<Bytes> gather(std::span<const std::byte> message) {
    return exchange(std::vector<std::span<const std::byte>>(static_cast<size_t>(size_), message));
  }
  std::vector<std::vector<double>> gather_numbers(const std::vector<double>& numbers);
  // Over all peers, in place; everyone gets the sums.
  void sum(std::span<int64_t> numbers);
  // The same, but peer i gets only the sums of numbers[starts[i] .. starts[i + 1]).
  void sum_apart(std::span<int64_t> numbers, std::span<const size_t> starts);

 private:
  int32_t rank_, size_;
};

}  // namespace anytime
