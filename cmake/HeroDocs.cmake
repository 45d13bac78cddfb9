# The API reference, by Doxygen: cmake --build --preset release --target docs. Warnings are errors.
find_package(Doxygen QUIET)
if(NOT DOXYGEN_FOUND)
  add_custom_target(docs COMMAND ${CMAKE_COMMAND} -E echo "docs: install doxygen first"
                    COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
  return()
endif()
set(DOXYGEN_PROJECT_NAME Hero)
set(DOXYGEN_PROJECT_BRIEF "Tensors, automatic differentiation and sharded training in C++20")
set(DOXYGEN_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/docs)
set(DOXYGEN_GENERATE_LATEX NO)
set(DOXYGEN_QUIET YES)
set(DOXYGEN_WARN_AS_ERROR FAIL_ON_WARNINGS)
set(DOXYGEN_EXTRACT_ALL YES)
set(DOXYGEN_JAVADOC_AUTOBRIEF YES)
set(DOXYGEN_STRIP_CODE_COMMENTS NO) # code on pages keeps its comments
set(DOXYGEN_FILE_PATTERNS *.h *.md *.dox)
# What users include lies at the top of a folder; below it, but for these, is how that works.
set(DOXYGEN_EXCLUDE_PATTERNS */core/cpu/* */core/io/* */core/json/* */core/meta/* */core/kernels/*
    */autograd/ops/detail/* */autograd/ops/elementwise/elementwise_list.h */cuda/runtime/* */dist/checkpoint/* */dist/backends/* */dist/data_parallel/*
    */dist/parallel/* */dist/simulation/* */dist/plan/* */dist/trainer/* */nn/data/bpe/* */nn/models/*
    */nn/training/report/*)
set(DOXYGEN_EXCLUDE_SYMBOLS hero::detail hero::core::detail)
set(DOXYGEN_MACRO_EXPANSION YES)
set(DOXYGEN_EXPAND_ONLY_PREDEF YES)
set(DOXYGEN_PREDEFINED "HERO_HD=" "HERO_FORWARD(Type,function)=" "HERO_PREDICATE2(Type,label,expression)=")
set(DOXYGEN_STRIP_FROM_INC_PATH ${hero_include_dir})
set(DOXYGEN_STRIP_FROM_PATH ${hero_include_dir}/hero ${PROJECT_SOURCE_DIR})
set(DOXYGEN_USE_MATHJAX YES)
# MathJax draws the formulas. Debian's (libjs-mathjax) is copied beside the pages, which then need no
# network; its SVG output needs no fonts.
find_path(hero_mathjax MathJax.js PATHS /usr/share/javascript/mathjax)
if(hero_mathjax)
  set(DOXYGEN_MATHJAX_RELPATH mathjax)
  set(DOXYGEN_MATHJAX_FORMAT SVG)
endif()
file(GLOB hero_figures LIST_DIRECTORIES YES RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/docs/figures/*)
set(DOXYGEN_IMAGE_PATH docs ${hero_figures})
# The examples that headers name by \\snippet are cases of the tests.
set(DOXYGEN_EXAMPLE_PATH tests/autograd/reference tests/nn/reference tests/optim/reference
    tests/dist/reference)
set(DOXYGEN_EXAMPLE_PATTERNS test_examples_*.cpp)
# Debian's doxygen-awesome-css, where it is installed; without it the pages have Doxygen's own looks.
find_path(hero_doxygen_theme doxygen-awesome.css PATHS /usr/share/doxygen-awesome-css)
if(hero_doxygen_theme)
  set(DOXYGEN_HTML_EXTRA_STYLESHEET ${hero_doxygen_theme}/doxygen-awesome.css
      ${hero_doxygen_theme}/doxygen-awesome-sidebar-only.css)
  set(DOXYGEN_GENERATE_TREEVIEW YES)
  set(DOXYGEN_DISABLE_INDEX NO)
  set(DOXYGEN_FULL_SIDEBAR NO)
  set(DOXYGEN_HTML_COLORSTYLE LIGHT)
endif()
list(APPEND DOXYGEN_HTML_EXTRA_STYLESHEET docs/reference/pages.css)
set(DOXYGEN_EXCLUDE docs/README.md)
set(DOXYGEN_FILTER_PATTERNS "*.md=sed -E -f cmake/doxygen_markdown.sed"
                            "*.h=cmake/doxygen_header")
set(DOXYGEN_USE_MDFILE_AS_MAINPAGE README.md)
set(hero_documented README.md docs)
foreach(component IN LISTS hero_components)
  list(APPEND hero_documented ${hero_include_dir}/hero/${component})
endforeach()
doxygen_add_docs(docs ${hero_documented} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                 COMMENT "Writing the API reference to docs/html")
if(hero_mathjax)
  foreach(part IN ITEMS extensions jax/element jax/input/TeX jax/output/SVG/autoload jax/output/SVG/fonts/TeX)
    list(APPEND copy_mathjax COMMAND ${CMAKE_COMMAND} -E copy_directory ${hero_mathjax}/${part}
                                     ${PROJECT_BINARY_DIR}/docs/html/mathjax/${part})
  endforeach()
  foreach(part IN ITEMS . jax/output/SVG)
    file(GLOB scripts ${hero_mathjax}/${part}/*.js)
    list(APPEND copy_mathjax COMMAND ${CMAKE_COMMAND} -E copy ${scripts}
                                     ${PROJECT_BINARY_DIR}/docs/html/mathjax/${part})
  endforeach()
else()
  set(copy_mathjax COMMAND ${CMAKE_COMMAND} -E echo
                   "docs: formulas will be shown only with a network; install libjs-mathjax")
endif()
add_custom_command(TARGET docs POST_BUILD ${copy_mathjax} COMMENT "Copying MathJax" VERBATIM)
add_custom_command(TARGET docs POST_BUILD
                   COMMAND ${PROJECT_SOURCE_DIR}/docs/check_reference
                           ${PROJECT_BINARY_DIR}/Doxyfile.docs
                   COMMAND ${PROJECT_SOURCE_DIR}/docs/check_html ${PROJECT_BINARY_DIR}/docs/html
                   COMMENT "Looking for functions without a text, and for links without an end" VERBATIM)
