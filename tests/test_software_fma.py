"""The baseline's own fused multiply-add rounds as the hardware's, on random and hostile triples."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_software_fma_rounds_once(tmp_path):
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    assert compiler, "a C++ compiler is needed: apt-get install g++"
    program = tmp_path / "software_fma"
    subprocess.run(
        [
            *(compiler, "-std=c++17", "-O2", "-ffp-contract=off", f"-I{ROOT / 'csrc'}"),
            *(ROOT / "tests" / "core" / "software_fma.cpp", "-o", program),
        ],
        check=True,
    )
    run = subprocess.run([program, "10000000"], capture_output=True, text=True)
    assert run.stdout == ""
    assert run.returncode == 0
