"""The examples in the docstrings of all modules run."""

import doctest
import importlib
import pkgutil

import pytest

import fanin

MODULES = [
    module.name
    for module in pkgutil.walk_packages(fanin.__path__, "fanin.")
    if module.name not in ("fanin.__main__", "fanin._core")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


def test_every_public_name_has_an_example():
    for name in fanin.__all__:
        value = getattr(fanin, name)
        if callable(value) and not isinstance(value, type):
            assert ">>> " in value.__doc__, name
