// Arrays that are not changed any more: owned, or lying in memory that somebody else keeps.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace anytime {

template <class T, class Allocator = std::allocator<T>>
class Frozen {
 public:
  Frozen() = default;
  Frozen(std::vector<T, Allocator>&& values) : own_(std::move(values)), view_(own_) {}  // NOLINT: on purpose
  explicit Frozen(std::span<const T> borrowed) : view_(borrowed) {}
  Frozen(Frozen&& other) noexcept : own_(std::move(other.own_)), view_(std::exchange(other.view_, {})) {}
  Frozen& operator=(Frozen&& other) noexcept {
    own_ = std::move(other.own_);  // which stays where it is
    view_ = std::exchange(other.view_, {});
    return *this;
  }

  size_t size() const noexcept { return view_.size(); }
  bool empty() const noexcept { return view_.empty(); }
  const T* data() const noexcept { return view_.data(); }
  const T& operator[](size_t i) const noexcept { return view_[i]; }
  const T& back() const noexcept { return view_.back(); }
  auto begin() const noexcept { return view_.begin(); }
  auto end() const noexcept { return view_.end(); }
  operator std::span<const T>() const noexcept { return view_; }  // NOLINT: it is one

 private:
  std::vector<T, Allocator> own_;
  std::span<const T> view_;
};

}  // namespace anytime
