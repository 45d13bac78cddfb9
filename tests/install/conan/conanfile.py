"""Builds and runs the program of README.md with the package."""

import io
from pathlib import Path

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class Program(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self, build_folder=str(Path(self.recipe_folder).parents[2] / "build" / "conan_program"))

    def generate(self):
        toolchain = CMakeToolchain(self, generator="Ninja")
        toolchain.user_presets_path = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        printed = io.StringIO()
        self.run(f'"{Path(self.build_folder) / self.cpp.build.bindir / "program"}"', stdout=printed, env="conanrun")
        assert "sin is off by 0.0" in printed.getvalue(), printed.getvalue()
