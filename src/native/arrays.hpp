// NumPy arrays at the door: contiguous, typed, their lengths checked.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>

namespace anytime {

namespace nb = nanobind;

template <class T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<T> span_of(const Vector<T>& array) {
  return {array.data(), array.size()};
}

template <class T>
nb::object new_array(std::initializer_list<size_t> shape, T** data) {
  size_t size = 1;
  for (const size_t n : shape) size *= n;
  T* memory = new T[size == 0 ? 1 : size];
  nb::capsule owner(memory, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  *data = memory;
  return nb::cast(nb::ndarray<nb::numpy, T>(memory, shape.size(), shape.begin(), owner));
}

template <class T>
nb::object array_of(std::span<const T> values) {
  T* data;
  nb::object array = new_array<T>({values.size()}, &data);
  std::copy(values.begin(), values.end(), data);
  return array;
}

inline void check_length(size_t found, size_t expected, const char* name) {
  if (found == expected) return;
  throw std::invalid_argument(std::string(name) + " has " + std::to_string(found) + " entries, expected " +
                              std::to_string(expected));
}

class GrownTree;
nb::dict tree_arrays(const GrownTree& tree);  // the fields of TreeArrays; bind_grow.cpp

void bind_answers(nb::module_& m);       // bind_answers.cpp
void bind_bandit(nb::module_& m);        // bind_bandit.cpp
void bind_class_grow(nb::module_& m);    // bind_class_grow.cpp
void bind_coded(nb::module_& m);         // bind_coded.cpp
void bind_grow(nb::module_& m);          // bind_grow.cpp
void bind_lasso(nb::module_& m);         // bind_lasso.cpp
void bind_linear(nb::module_& m);        // bind_linear.cpp
void bind_margins(nb::module_& m);       // bind_margins.cpp
void bind_neighbours(nb::module_& m);    // bind_neighbours.cpp
void bind_prune(nb::module_& m);         // bind_prune.cpp
void bind_scene(nb::module_& m);         // bind_scene.cpp
void bind_stream(nb::module_& m);        // bind_stream.cpp
void bind_stream_banks(nb::module_& m);  // bind_stream_banks.cpp

}  // namespace anytime
