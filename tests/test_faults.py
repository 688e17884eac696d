"""The tests of the tests: cores with a planted fault, on which the statistical checks must be red.

Each fault of csrc/faults.h is built into a copy of the installed package, outside of it, and the
checks that should see it run there in a process of their own.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pybind11
import pytest

import distribution_checks
import fanin

ROOT = Path(__file__).parents[1]

# Each fault with a check that must see it.
FAULTS = {
    "radius_of_24_bits": "normal_extremes",
    "sine_sign": "normal_float32",
    "upper_tail_from_below": "truncated_normal",
    "lanes_overlap": "uniform_float32",
    "bfloat16_cut": "bfloat16_is_rounded",
    "no_clamp": "uniform_narrow",
    "ln_coefficient": "normal_float32",
    "name_ignored": "streams_are_unrelated",
}


def run(command, **options):
    result = subprocess.run(command, capture_output=True, text=True, **options)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


@pytest.fixture(scope="module")
def build_folder(tmp_path_factory):
    """One build tree for all: only the files with faults are compiled again."""
    folder = tmp_path_factory.mktemp("faults")
    cmake = shutil.which("cmake")
    assert cmake, "cmake is needed: apt-get install cmake"
    run(
        [
            *(cmake, "-GNinja", "-S", ROOT, "-B", folder),
            *("-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1"),
            f"-Dpybind11_DIR={pybind11.get_cmake_dir()}",
            f"-DPython_EXECUTABLE={sys.executable}",
        ]
    )
    return folder


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package, without its core."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(
        Path(fanin.__file__).parent, folder / "fanin", ignore=shutil.ignore_patterns("_core*.so")
    )
    return folder


def verdicts(check, build_folder, package, fault):
    """Build the core with a fault ("" for none) and return what a check says of it."""
    run(["cmake", f"-DFANIN_FAULT={fault}", build_folder])
    run(["cmake", "--build", build_folder, "--parallel", "2"])
    (core,) = build_folder.glob("_core*.so")
    shutil.copy(core, package / "fanin" / core.name)
    environment = {**os.environ, "PYTHONPATH": f"{package}:{ROOT / 'tests'}"}
    code = (
        f"import fanin; print(fanin.__file__); import distribution_checks as d; d.report(d.{check})"
    )
    where, verdict = run([sys.executable, "-c", code], env=environment, cwd=package).splitlines()
    assert Path(where).parent == package / "fanin"
    return verdict


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(fault, build_folder, package):
    verdict = verdicts(FAULTS[fault], build_folder, package, fault)
    assert verdict.startswith(f"{FAULTS[fault]}: red"), verdict


@pytest.mark.parametrize("check", sorted(set(FAULTS.values())))
def test_no_fault_is_green(check, build_folder, package):
    assert verdicts(check, build_folder, package, "") == f"{check}: green"


def test_every_fault_is_tried():
    listed = (ROOT / "csrc" / "faults.h").read_text().split("#pragma once")[0]
    assert set(FAULTS) == {
        line.split()[1] for line in listed.splitlines() if line.startswith("//   ")
    }
    assert {check.__name__ for check in distribution_checks.CHECKS} >= set(FAULTS.values())
