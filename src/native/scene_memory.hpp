// Arrays as large as a picture. Clearing one, or giving its memory back page by page, takes longer than an
// interrupt may wait: they are not cleared, and large ones lie on large pages where the system has them.
#pragma once

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace anytime {

struct FreeMemory {
  void operator()(void* memory) const noexcept { std::free(memory); }
};

template <class T>
using PictureArray = std::unique_ptr<T[], FreeMemory>;

template <class T>
PictureArray<T> unfilled(size_t n) {
  size_t bytes = n * sizeof(T);
#ifdef __linux__
  constexpr size_t kPage = size_t{1} << 21;
  if (bytes >= 2 * kPage) {
    bytes = (bytes + kPage - 1) / kPage * kPage;
    void* const memory = std::aligned_alloc(kPage, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    madvise(memory, bytes, MADV_HUGEPAGE);  // a hint: nothing is lost where it is not taken
    return PictureArray<T>(static_cast<T*>(memory));
  }
#endif
  void* const memory = std::malloc(bytes);
  if (memory == nullptr && bytes > 0) throw std::bad_alloc();
  return PictureArray<T>(static_cast<T*>(memory));
}

}  // namespace anytime
