"""README and docs: examples run, links lead somewhere, commands are those of the package."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def test_there_are_documents():
    names = {path.name for path in DOCUMENTS}
    assert names >= {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "design.md", "guide.md"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_examples(path):
    results = doctest.testfile(str(path), module_relative=False)
    assert results.failed == 0
    if path.name in ("README.md", "guide.md"):
        assert results.attempted > 3


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links(path):
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_no_path_of_one_machine(path):
    assert not re.findall(r"(?<![\w.])/(?:home|root|work|Users|tmp)/[\w.-]*", path.read_text())


def test_contributing_names_what_there_is():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    tree = text.split("```")[1]
    for name in re.findall(r"[\w/]+\.(?:py|cpp|h|inl|txt|toml)\b", tree):
        assert list(ROOT.rglob(name)), name


def test_commands_install_from_this_tree():
    text = (ROOT / "README.md").read_text()
    init, test = (
        re.search(rf"<!-- {name} -->\n```sh\n(.*)\n```\n<!-- end -->", text).group(1)
        for name in ("init", "test")
    )
    assert init.endswith("fanin init gpt2 ./gpt2-init --dtype bfloat16 --seed 0")
    assert "pip install . --group test && pytest -n 2" in test
    assert init.split("pip install .")[0].replace("python3-dev", "") in test.replace(
        "python3-dev libsimde-dev qemu-user g++-aarch64-linux-gnu", ""
    )
