"""The AVX-512 kernels, compiled as for a release and disassembled: no vector is spilled.

A kernel's hot loop should keep what it computes in the 32 registers. One kernel does not: a
truncated normal of eight bits takes eight draws for a vector of output and works on two at a time,
so that some wait, beside the constants of its polynomials.
"""

import json
import platform
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import disassembly

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the compiler of this machine knows no AVX-512"
)

# Vectors stored to the stack in the hot loop, by transform and output; a format of eight bits is
# ToNarrow<...>. Far intervals, which no one starts from, are left to the compiler.
SPILLED = {
    ("UniformF32", "ToFloat32"): 0,
    ("UniformF32", "ToBfloat16"): 0,
    ("UniformF32", "ToFloat16"): 0,
    ("UniformF32", "ToNarrow"): 0,
    ("UniformF64", "ToFloat64"): 0,
    ("NormalF32", "ToFloat32"): 0,
    ("NormalF32", "ToBfloat16"): 0,
    ("NormalF32", "ToFloat16"): 0,
    ("NormalF32", "ToNarrow"): 0,
    ("NormalF64", "ToFloat64"): 0,
    ("TruncatedNormalF32<false>", "ToFloat32"): 0,
    ("TruncatedNormalF32<false>", "ToBfloat16"): 0,
    ("TruncatedNormalF32<false>", "ToFloat16"): 0,
    ("TruncatedNormalF32<false>", "ToNarrow"): 7,
    ("TruncatedNormalF64", "ToFloat64"): 0,
}


def program(name, package):
    """Find a program, or say which Debian package has it."""
    path = shutil.which(name)
    assert path, f"{name} is needed: apt-get install {package}"
    return path


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The functions of kernels_avx512.cpp, compiled by the command that CMake would run."""
    program("objdump", "binutils")
    folder = tmp_path_factory.mktemp("kernels")
    configure = [program("cmake", "cmake"), "-GNinja", "-S", ROOT / "tests" / "core", "-B", folder]
    subprocess.run(
        [*configure, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"], check=True, capture_output=True
    )
    (entry,) = (
        entry
        for entry in json.loads((folder / "compile_commands.json").read_text())
        if Path(entry["file"]).name == "kernels_avx512.cpp"
    )
    command = shlex.split(entry["command"])
    assert "-mavx512f" in command
    assert "-O3" in command
    object_file = folder / "kernels_avx512.o"
    command[command.index("-o") + 1] = str(object_file)
    subprocess.run(command, cwd=entry["directory"], check=True)
    return disassembly.functions(object_file)


@pytest.mark.parametrize("kernel", SPILLED, ids="-".join)
def test_kernels_spill_no_vector(kernel, kernels):
    transform, output = kernel
    found = [
        function for name, function in kernels.items() if f"sample<{transform}, {output}" in name
    ]
    assert len(found) == (2 if output == "ToNarrow" else 1)
    for function in found:
        loop = disassembly.hot_loop(function)
        assert sum(i.is_arithmetic for i in loop) >= 20, "this is not the hot loop"
        spills = disassembly.spills(function)
        stores = sum(i.is_store for i in spills)
        assert stores <= SPILLED[kernel], "\n".join(f"{i.name} {i.operands}" for i in spills)


# A loop in a loop. Nothing survives the clobber in a register.
SOURCE = """
#include <immintrin.h>
void sum(float* values, long rows, long columns) {
  for (long row = 0; row < rows; ++row, values += columns) {
    __m512 total = _mm512_loadu_ps(values), product = total;
    for (long i = 16; i < columns; i += 16) {
      const __m512 value = _mm512_loadu_ps(values + i);
      total = _mm512_fmadd_ps(value, value, total);
      product = _mm512_mul_ps(_mm512_add_ps(product, value), value);
      CLOBBER
    }
    _mm512_storeu_ps(values, _mm512_add_ps(total, product));
  }
}
"""
ALL_VECTORS = ", ".join(f'"xmm{i}"' for i in range(32))


@pytest.mark.parametrize(
    ("clobber", "spilled"), [("", 0), (f'__asm__ volatile("" ::: {ALL_VECTORS});', 2)]
)
def test_the_parser_sees_spills(clobber, spilled, tmp_path):
    source = tmp_path / "sum.cpp"
    source.write_text(SOURCE.replace("CLOBBER", clobber))
    command = [program("g++", "g++"), "-c", "-O2", "-mavx512f", "-o", tmp_path / "sum.o", source]
    subprocess.run(command, check=True)
    (function,) = disassembly.functions(tmp_path / "sum.o").values()
    assert len(disassembly.innermost_loops(function)) == 1
    assert any("vfmadd" in i.name for i in disassembly.hot_loop(function))
    spills = disassembly.spills(function)
    assert sum(i.is_store for i in spills) == spilled
    assert len(spills) >= 2 * spilled  # each is reloaded
