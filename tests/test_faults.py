"""The tests of the tests: a core with a planted fault, on which other tests here must fail.

The core is built with all faults of csrc/faults.h in it, into a copy of the installed package; the
environment names the one to plant.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pybind11
import pytest

import fanin

ROOT = Path(__file__).parents[1]

# Each fault with a test that must see it.
FAULTS = {
    "radius_of_24_bits": "test_distributions.py::test_tails",
    "radius_without_half": "test_accuracy.py::test_float32_normals_at_extreme_draws",
    "sine_sign": "test_distributions.py::test_normal[float32]",
    "upper_tail_from_below": "test_distributions.py::test_bounds_of_1000_sigma[float32]",
    "lanes_overlap": "test_distributions.py::test_uniform[float32]",
    "bfloat16_cut": "test_distributions.py::test_rounded_normal[bfloat16]",
    "no_clamp": "test_distributions.py::test_rounded_uniform[0.0-1.0-float16]",
    "ln_coefficient": "test_distributions.py::test_normal[float32]",
    "multiplier_bit": "test_values.py::test_uniform_has_the_known_bits",
    "name_ignored": "test_distributions.py::test_streams_are_unrelated",
    "missing_last_sign": "test_orthogonal.py::test_corner_entries[2-2]",
    "ascending_reflectors": "test_orthogonal.py::test_angles_of_rotations_in_space",
    "stale_panel": "test_orthogonal.py::test_corner_entries[192-192]",
}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder with a copy of the package, its core built for faults."""
    cmake, ninja = shutil.which("cmake"), shutil.which("ninja")
    assert cmake, "cmake is needed: apt-get install cmake"
    assert ninja, "ninja is needed: apt-get install ninja-build"
    folder = tmp_path_factory.mktemp("package")
    build = tmp_path_factory.mktemp("build")
    for command in (
        [
            *(cmake, "-GNinja", "-S", ROOT, "-B", build, "-DFANIN_FAULTS=ON"),
            *("-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1"),
            f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
            f"-DPython_EXECUTABLE={sys.executable}",
        ],
        [cmake, "--build", build, "--parallel", "2"],
    ):
        run = subprocess.run(command, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    without_core = shutil.ignore_patterns("_core*.so", "__pycache__")
    shutil.copytree(Path(fanin.__file__).parent, folder / "fanin", ignore=without_core)
    (core,) = build.glob("_core*.so")
    shutil.copy(core, folder / "fanin")
    return folder


def run_tests(package, fault, *tests):
    """Run tests on the package, with a fault ("" for none); return the exit status and output."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=line", *tests],
        env={**os.environ, "PYTHONPATH": str(package), "FANIN_FAULT": fault},
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
    )
    return run.returncode, run.stdout + run.stderr


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault, package):
    status, output = run_tests(package, fault, FAULTS[fault])
    assert status == pytest.ExitCode.TESTS_FAILED, output
    assert "1 failed" in output
    assert re.search(r"^E +(assert|AssertionError)\b", output, re.MULTILINE), output


def test_without_a_fault_the_bits_are_right(package):
    status, output = run_tests(package, "", "test_same_bits.py::test_threads[2]")
    assert status == pytest.ExitCode.OK, output


def test_every_fault_is_tried():
    listed = (ROOT / "csrc" / "faults.h").read_text().split("#pragma once")[0]
    assert list(FAULTS) == [
        line.split()[1] for line in listed.splitlines() if line.startswith("//   ")
    ]
