// What the native tests share: a check that tells where it failed, and chance with a seed.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <random>

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                \
    }                                                                              \
  } while (false)

using Random = std::mt19937_64;

inline double normal(Random& random) { return std::normal_distribution<double>()(random); }

void test_bandit();             // test_bandit.cpp
void test_class_grow();         // test_class_grow.cpp
void test_grow();               // test_grow.cpp
void test_linear();             // test_linear.cpp
void test_margins();            // test_margins.cpp
void test_neighbours();         // test_neighbours.cpp
void test_prune();              // test_prune.cpp
void test_scene();              // test_scene.cpp
void test_scene_descriptors();  // test_scene_descriptors.cpp
void test_stream();             // test_stream.cpp
