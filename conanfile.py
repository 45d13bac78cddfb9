"""The recipe of Hero for Conan 2: `conan create .` builds, installs and tries it. zlib and nlohmann-json are the system's."""

import re
from pathlib import Path

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy
from conan.tools.system.package_manager import Apt, Dnf, PacMan


class Hero(ConanFile):
    name = "hero"
    license = "MIT"
    description = "Tensors, autograd and sharded training in C++20"
    package_type = "static-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"cuda": [True, False], "mpi": [True, False]}
    default_options = {"cuda": False, "mpi": False}
    exports_sources = (
        "CMakeLists.txt", "LICENSE", "cmake/*", "core/*", "autograd/*", "nn/*", "optim/*", "dist/*", "cuda/*")
    test_package_folder = "tests/install/conan"

    def set_version(self):
        text = (Path(self.recipe_folder) / "core" / "version.h").read_text()
        self.version = re.search(r'kVersion = "(.*)"', text).group(1)

    def system_requirements(self):
        Apt(self).install(["zlib1g-dev", "nlohmann-json3-dev"], check=True)
        Dnf(self).install(["zlib-devel", "json-devel"], check=True)
        PacMan(self).install(["zlib", "nlohmann-json"], check=True)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self, generator="Ninja")
        toolchain.user_presets_path = False
        toolchain.cache_variables.update({
            "HERO_TESTS": False, "HERO_TUTORIALS": False, "HERO_TOOLS": False, "HERO_AVX512": "ON",
            "HERO_CUDA": "ON" if self.options.cuda else "OFF", "HERO_MPI": "ON" if self.options.mpi else "OFF"})
        toolchain.generate()

    def package_id(self):
        self.info.settings.rm_safe("compiler.cppstd")  # the library is C++20 whatever a profile says

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")

    def package_info(self):
        # find_package(hero) reads Hero's own files, which know what it links.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/hero"]
