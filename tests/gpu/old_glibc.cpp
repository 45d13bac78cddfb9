// For programs that are made here and run where glibc is older: what the compiler's static
// libraries ask of glibc 2.35 and 2.36, by means that 2.34 has. Linked into the packed programs
// alone.
#include <cstdint>
#include <cstdlib>

#include <dlfcn.h>
#include <link.h>
#include <sys/random.h>

#if __GLIBC_PREREQ(2, 35)

namespace {

struct Search {
  std::uintptr_t address;
  dl_find_object* found;
};

// The object whose segments hold the address, and where its unwind tables begin.
int look(dl_phdr_info* object, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  std::uintptr_t first = UINTPTR_MAX, last = 0;
  void* tables = nullptr;
  bool inside = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    const std::uintptr_t begin = object->dlpi_addr + part.p_vaddr, end = begin + part.p_memsz;
    if (part.p_type == PT_GNU_EH_FRAME) tables = reinterpret_cast<void*>(begin);
    if (part.p_type != PT_LOAD) continue;
    first = begin < first ? begin : first;
    last = end > last ? end : last;
    inside = inside || (begin <= search.address && search.address < end);
  }
  if (!inside || tables == nullptr) return 0;
  *search.found = {};
  search.found->dlfo_map_start = reinterpret_cast<void*>(first);
  search.found->dlfo_map_end = reinterpret_cast<void*>(last);
  search.found->dlfo_eh_frame = tables;
  return 1;
}

}  // namespace

extern "C" {

// Whoever catches an exception asks this for the tables of each function on its way.
[[gnu::visibility("hidden")]] int _dl_find_object(void* address, dl_find_object* result) noexcept {
  Search search{reinterpret_cast<std::uintptr_t>(address), result};
  return dl_iterate_phdr(look, &search) == 1 ? 0 : -1;
}

[[gnu::visibility("hidden")]] std::uint32_t arc4random() noexcept {
  std::uint32_t bits = 0;
  if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits)) std::abort();
  return bits;
}

// Of glibc 2.35 is a faster one; both round within an ulp.
double old_hypot(double x, double y) noexcept;
__asm__(".symver old_hypot, hypot@GLIBC_2.2.5");
double hypot(double x, double y) noexcept { return old_hypot(x, y); }

}  // extern "C"

#endif
