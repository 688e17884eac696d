"""A file is there whole or not at all, whatever ends its writer."""

import os
import subprocess
import sys

import pytest

from fanin.checkpoint.partial_file import partial_file, remove_stale


def test_appears_when_whole(tmp_path):
    path = tmp_path / "model.safetensors"
    with partial_file(path) as descriptor:
        os.write(descriptor, b"half")
        assert not path.exists()
        (temporary,) = tmp_path.iterdir()
        assert temporary.suffix != ".safetensors"
        assert temporary.name.startswith(".")
        os.write(descriptor, b" whole")
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]
    assert path.read_bytes() == b"half whole"


def test_permissions_are_those_of_any_new_file(tmp_path):
    with partial_file(tmp_path / "model.safetensors"):
        pass
    (tmp_path / "plain").touch()
    modes = {file.stat().st_mode for file in tmp_path.iterdir()}
    assert len(modes) == 1


@pytest.mark.parametrize("problem", [KeyboardInterrupt, SystemExit, ValueError])
def test_nothing_remains_of_an_unfinished_file(tmp_path, problem):
    def write_half():
        with partial_file(tmp_path / "model.safetensors") as descriptor:
            os.write(descriptor, b"half")
            raise problem

    with pytest.raises(problem):
        write_half()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fsync", [True, False])
def test_the_bytes_are_on_the_disk_before_the_name(tmp_path, monkeypatch, fsync):
    calls = []
    for name in ("fsync", "rename"):
        call = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *a, name=name, call=call: (calls.append(name), call(*a))
        )
    with partial_file(tmp_path / "model.safetensors", fsync=fsync):
        pass
    assert calls == (["fsync", "rename", "fsync"] if fsync else ["rename"])  # file, name, folder


def test_an_old_file_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("old")
    with pytest.raises(KeyError), partial_file(path):
        raise KeyError
    assert path.read_text() == "old"
    with partial_file(path) as descriptor:
        os.write(descriptor, b"new")
    assert path.read_text() == "new"


def test_errors_name_the_file_and_not_the_temporary_one(tmp_path):
    path = tmp_path / "absent" / "model.safetensors"
    with pytest.raises(FileNotFoundError) as error, partial_file(path):
        pass
    assert error.value.filename == str(path)
    with pytest.raises(OSError, match="No space left") as error, partial_file(tmp_path / "model"):
        raise OSError(28, "No space left on device")
    assert error.value.filename == str(tmp_path / "model")


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    path = tmp_path / "model.safetensors"
    with partial_file(path) as one, partial_file(path) as other:
        os.write(one, b"one")
        os.write(other, b"other")
    assert path.read_bytes() == b"one"  # the outer block ended last
    assert len(list(tmp_path.iterdir())) == 1


def test_what_a_killed_writer_leaves_is_removed_and_nothing_else(tmp_path):
    code = """
import os, pathlib, signal, sys
from fanin.checkpoint.partial_file import partial_file
with partial_file(pathlib.Path(sys.argv[1]) / "model-00001-of-00002.safetensors") as descriptor:
    os.write(descriptor, b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    (left,) = tmp_path.iterdir()
    others = [".model.tmp", ".model.safetensors.backup", "notes.fanin-partial", ".gitignore"]
    for name in others:
        (tmp_path / name).touch()
    with partial_file(tmp_path / "model-00002-of-00002.safetensors"):
        remove_stale(tmp_path)  # the second file is being written
    assert not left.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*others, "model-00002-of-00002.safetensors"]
    )
