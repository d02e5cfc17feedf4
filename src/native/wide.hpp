// Functions that are compiled for wider vectors too, and chosen when the program is loaded. No fused
// operations, so the bits are the same.
#pragma once

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define ANYTIME_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define ANYTIME_WIDE
#endif
