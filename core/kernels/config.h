#pragma once

// The one macro of the library: the functors and the arithmetic below them are compiled for the
// host and, in .cu files, for the device too; no language feature says that.
#if defined(__CUDACC__)
#define HERO_HD __host__ __device__
#else
#define HERO_HD
#endif
