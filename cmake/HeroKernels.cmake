# The kernels that chapters 1 to 6 do not need, and the table of all: a library of their own, which comes along with
# hero_core. A program whose target has the property HERO_BASIC_KERNELS is linked, and built, without it; there the
# calls that BasicKernels (core/cpu/cpu_backend.h) does not declare are Errors.

# hero_comes_along(library function properties...): whoever links hero_core links the library, too, unless its target
# has one of the properties. Nothing but a weak symbol of level.cpp refers to the library's table, so the linker takes
# it along because the function that gives it, here by its mangled name, is asked for.
function(hero_comes_along library function)
  target_link_options(${library} INTERFACE LINKER:--undefined=${function})
  set(consumer "$<TARGET_PROPERTY:TYPE>") # archives and objects are not linked: they need not wait for it
  set(without "$<STREQUAL:${consumer},STATIC_LIBRARY>,$<STREQUAL:${consumer},OBJECT_LIBRARY>")
  foreach(property IN LISTS ARGN)
    string(APPEND without ",$<BOOL:$<TARGET_PROPERTY:${property}>>")
  endforeach()
  target_link_libraries(hero_core INTERFACE "$<$<NOT:$<OR:${without}>>:$<TARGET_NAME:${library}>>")
endfunction()

add_library(hero_cpu_kernels STATIC ${hero_other_kernels})
set_target_properties(hero_cpu_kernels PROPERTIES EXPORT_NAME cpu_kernels)
target_link_libraries(hero_cpu_kernels PUBLIC hero_core)
hero_standard_headers(hero_cpu_kernels)
hero_batches_of(hero_cpu_kernels)
set(hero_kernels_table _ZN4hero4core3cpu10kernels_v3Ev)
hero_comes_along(hero_cpu_kernels ${hero_kernels_table} HERO_BASIC_KERNELS)
