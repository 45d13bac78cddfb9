#pragma once
// The intrinsics of AVX-512, for functions that name their target themselves; empty for other kinds
// of processors.
#if defined(__x86_64__)
// g++ 12 takes what its own intrinsics leave undefined for a mistake (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif
