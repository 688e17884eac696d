"""`import fanin` is light, and says what is wrong without its core."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fanin


def run(code, *flags):
    result = subprocess.run(
        [sys.executable, *flags, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_import_loads_nothing():
    loaded = run(
        "import sys; before = set(sys.modules); import fanin; fanin.__version__;"
        "print(*set(sys.modules) - before)"
    )
    packages = {name.partition(".")[0] for name in loaded}
    assert packages - sys.stdlib_module_names == {"fanin"}


@pytest.mark.parametrize("use", ["fans((3, 5))", "position(0, 'w')", "gain('relu')"])
def test_scalars_need_no_numpy(use):
    loaded = run(f"import sys, fanin; fanin.{use}; print(*sys.modules)")
    assert not {"numpy", "ml_dtypes", "torch"} & set(loaded)


def test_arrays_do_not_load_torch():
    loaded = run("import sys, fanin; fanin.normal(3, seed=0); print(*sys.modules)")
    assert "torch" not in loaded


def test_every_name_can_be_used():
    for name in fanin.__all__:
        assert getattr(fanin, name) is not None
    assert set(fanin.__all__) <= set(dir(fanin))
    with pytest.raises(AttributeError, match="module 'fanin' has no attribute 'he_norml'"):
        fanin.he_norml  # noqa: B018


def test_star_import():
    assert run("from fanin import *; print(fans((3, 5)), he_normal.__name__)")[-1] == "he_normal"


def test_type_checkers_see_every_name():
    tree = ast.parse(Path(fanin.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.asname for statement in block.body for alias in statement.names}
    assert seen == set(fanin.__all__) - {"__version__"}


@pytest.mark.parametrize(
    "use", ["gain('relu')", "Xorshift64Star(1)", "normal(3, seed=0)", "show_config()", "_core"]
)
def test_without_the_core_the_error_says_what_to_do(tmp_path, use):
    package = tmp_path / "fanin"
    package.mkdir()
    for source in Path(fanin.__file__).parent.rglob("*.py"):
        target = package / source.relative_to(Path(fanin.__file__).parent)
        target.parent.mkdir(exist_ok=True, parents=True)
        target.write_text(source.read_text())
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport fanin\n"
    code += f"try: fanin.{use}\nexcept ImportError as error: print(error)"
    message = " ".join(run(code))
    assert "compiled core cannot be loaded" in message
    assert "pip install ." in message


def test_show_config(capsys):
    fanin.show_config()
    facts = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert facts["fanin"] == fanin.__version__
    assert facts["stream_version"] == str(fanin.STREAM_VERSION)
    assert facts["simd"] in facts["simd_available"].split()
    assert int(facts["threads"]) >= 1


def test_docstrings_may_be_stripped():
    assert run("import fanin; print(fanin.normal(3, seed=0).size)", "-OO") == ["3"]
