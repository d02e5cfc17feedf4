#include "grow_peers.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace anytime {
namespace {

// Calls use(i, number) for the numbers of a message.
template <class T, class Use>
void each_number(const Peers::Bytes& message, size_t count, Use&& use) {
  if (message.size() != count * sizeof(T))
    throw std::runtime_error("a peer has sent a message of another size");
  for (size_t i = 0; i < count; ++i) {
    T number;
    std::memcpy(&number, message.data() + i * sizeof(T), sizeof(T));
    use(i, number);
  }
}

}  // namespace

std::vector<std::vector<double>> Peers::gather_numbers(const std::vector<double>& numbers) {
  std::vector<std::vector<double>> out;
  for (const Bytes& message : gather(std::as_bytes(std::span(numbers)))) {
    std::vector<double>& theirs = out.emplace_back(numbers.size());
    each_number<double>(message, numbers.size(), [&](size_t i, double number) { theirs[i] = number; });
  }
  return out;
}

void Peers::sum(std::span<int64_t> numbers) {
  const std::vector<Bytes> messages = gather(std::as_bytes(numbers));
  std::fill(numbers.begin(), numbers.end(), 0);
  for (const Bytes& message : messages)
    each_number<int64_t>(message, numbers.size(), [&](size_t i, int64_t number) { numbers[i] += number; });
}

void Peers::sum_apart(std::span<int64_t> numbers, std::span<const size_t> starts) {
  std::vector<std::span<const std::byte>> out;
  for (size_t peer = 0; peer + 1 < starts.size(); ++peer) {
    const bool own = static_cast<int32_t>(peer) == rank_;  // what stays here needs no message
    out.push_back(std::as_bytes(numbers.subspan(starts[peer], own ? 0 : starts[peer + 1] - starts[peer])));
  }
  const std::vector<Bytes> messages = exchange(out);
  const auto mine = static_cast<size_t>(rank_);
  const std::span<int64_t> own = numbers.subspan(starts[mine], starts[mine + 1] - starts[mine]);
  for (size_t peer = 0; peer < messages.size(); ++peer) {
    if (peer == mine) continue;
    each_number<int64_t>(messages[peer], own.size(), [&](size_t i, int64_t number) { own[i] += number; });
  }
}

}  // namespace anytime
