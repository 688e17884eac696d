"""The check of instructions per element can fail, and says what is wrong.

The counting itself takes valgrind and half a minute: `.ci/run` has it as a step of its own.
"""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "bench" / "instructions.py"
KERNEL = "normal bfloat16"


@pytest.fixture
def script(monkeypatch):
    """The script, whose measuring gives exactly the committed budget."""
    specification = importlib.util.spec_from_file_location("instructions", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    budget = json.loads(module.BUDGET.read_text())
    monkeypatch.setattr(
        module, "measure", lambda: (budget["compiler"], budget["instructions an element"])
    )
    return module


def changed_budget(script, folder, factor):
    """A budget in which one kernel's is another."""
    budget = json.loads(script.BUDGET.read_text())
    budget["instructions an element"][KERNEL] *= factor
    path = folder / "budget.json"
    path.write_text(json.dumps(budget))
    return str(path)


def test_every_case_has_a_budget(script):
    _compiler, counts = script.measure()
    assert list(counts) == [case.name for case in script.CASES]


def test_the_committed_budget_is_kept_by_itself(script, capsys):
    assert script.main(["--check"]) == 0
    assert "FAILED" not in capsys.readouterr().out


def test_a_budget_lowered_by_a_tenth_fails(script, tmp_path, capsys):
    assert script.main(["--check", "--budget", changed_budget(script, tmp_path, 0.9)]) == 1
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "FAILED" in line)
    _compiler, counts = script.measure()
    assert line == (
        f"FAILED {KERNEL}: {counts[KERNEL]:.3f} instructions an element, "
        f"budget {0.9 * counts[KERNEL]:.3f} (+11.1%)"
    )


def test_four_percent_more_is_kept(script, tmp_path):
    assert script.main(["--check", "--budget", changed_budget(script, tmp_path, 1 / 1.04)]) == 0


def test_a_budget_that_is_too_large_is_told(script, tmp_path, capsys):
    assert script.main(["--check", "--budget", changed_budget(script, tmp_path, 1.1)]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "below" in line)
    assert KERNEL in line
    assert line.endswith("(-9.1%): tighten it with --write")


def test_another_compiler_is_not_compared(script, monkeypatch, capsys):
    _compiler, counts = script.measure()
    monkeypatch.setattr(script, "measure", lambda: ("clang++ 99", counts))
    assert script.main(["--check"]) == script.NOT_COMPARED == 3
    assert "not compared: the budget is that of g++" in capsys.readouterr().out


def test_a_kernel_without_a_budget_fails(script, monkeypatch, capsys):
    compiler, counts = script.measure()
    monkeypatch.setattr(script, "measure", lambda: (compiler, {**counts, "cauchy float32": 1.0}))
    assert script.main(["--check"]) == 1
    assert "FAILED cauchy float32: not in the budget" in capsys.readouterr().out
