"""What a second run does with a folder: keep, finish, refuse, or replace."""

import json
import os

import pytest

from fanin.checkpoint import CheckpointError, recipe, resume, write
from fanin.checkpoint.files import checkpoint_files
from tiny_models import CONFIGS, tiny_plan

SHARD = 13_000  # bytes; three files of the tiny GPT-2


def _files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _identities(folder):
    stats = {path.name: path.stat() for path in folder.iterdir()}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in stats.items()}


@pytest.fixture
def one_file(tmp_path):
    write(tiny_plan(), tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture
def three_files(tmp_path):
    report = write(tiny_plan(), tmp_path / "out", max_shard_size=SHARD)
    assert [file.name for file in report.files] == [
        "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
        "config.json",
        "model.safetensors.index.json",
    ]
    return tmp_path / "out"


def test_a_finished_folder_is_not_touched(three_files):
    before = _identities(three_files)
    report = write(tiny_plan(), three_files, max_shard_size=SHARD)
    assert all(file.kept for file in report.files)
    assert _identities(three_files) == before


@pytest.mark.parametrize(
    "missing",
    [
        ["model-00002-of-00003.safetensors"],
        ["model-00001-of-00003.safetensors", "model.safetensors.index.json"],
        ["config.json"],
        ["model.safetensors.index.json"],
    ],
)
def test_what_is_missing_is_written_and_the_rest_is_not_touched(three_files, missing):
    content, before = _files(three_files), _identities(three_files)
    for name in missing:
        (three_files / name).unlink()
    report = write(tiny_plan(), three_files, max_shard_size=SHARD)
    assert {file.name for file in report.files if not file.kept} == set(missing)
    assert _files(three_files) == content
    after = _identities(three_files)
    assert {name for name in after if after[name] == before[name]} == set(after) - set(missing)


def _truncate(path):
    os.truncate(path, path.stat().st_size - 1)


def _lengthen(path):
    os.truncate(path, path.stat().st_size + 1)


def _empty(path):
    os.truncate(path, 0)


def _spoil_header(path):
    with open(path, "r+b") as file:
        file.write(b"\xff" * 20)


def _spoil_and_cut(path):
    _spoil_header(path)
    os.truncate(path, 1000)


@pytest.mark.parametrize("damage", [_truncate, _lengthen, _empty, _spoil_header, _spoil_and_cut])
def test_a_damaged_file_is_written_again(three_files, damage):
    content = _files(three_files)
    damage(three_files / "model-00002-of-00003.safetensors")
    report = write(tiny_plan(), three_files, max_shard_size=SHARD)
    assert [file.name for file in report.files if not file.kept] == [
        "model-00002-of-00003.safetensors"
    ]
    assert _files(three_files) == content


@pytest.mark.parametrize("damage", [_truncate, _empty, _spoil_header])
def test_a_damaged_only_file_is_written_again(one_file, damage):
    content = _files(one_file)
    damage(one_file / "model.safetensors")
    write(tiny_plan(), one_file)
    assert _files(one_file) == content


def _flip_last_bit(path):
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        (byte,) = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([byte ^ 1]))


def test_whole_files_are_sampled_again(three_files):
    content, before = _files(three_files), _identities(three_files)
    name = "model-00002-of-00003.safetensors"
    _flip_last_bit(three_files / name)
    seen = []
    report = write(
        tiny_plan(), three_files, max_shard_size=SHARD, progress=lambda *done: seen.append(done)
    )
    assert [file.name for file in report.files if not file.kept] == [name]
    assert report.notes[0].startswith(f"{name} is written again: transformer.")
    assert _files(three_files) == content
    after = _identities(three_files)
    assert [key for key in after if after[key] != before[key]] == [name]
    plan = tiny_plan()
    assert seen[0][1] == plan.num_bytes  # to compare, and then one file more to write
    assert seen[-1][0] == seen[-1][1] > plan.num_bytes
    assert seen == sorted(seen)


def test_whole_files_are_trusted_on_request(three_files):
    _flip_last_bit(three_files / "model-00002-of-00003.safetensors")
    before = _identities(three_files)
    seen = []
    write(
        tiny_plan(),
        three_files,
        max_shard_size=SHARD,
        check=False,
        progress=lambda *done: seen.append(done),
    )
    assert _identities(three_files) == before
    assert not seen


def test_a_dry_run_finds_what_is_damaged(three_files):
    name = "model-00002-of-00003.safetensors"
    _flip_last_bit(three_files / name)
    before = _identities(three_files)
    report = write(tiny_plan(), three_files, max_shard_size=SHARD, dry_run=True)
    assert [file.name for file in report.files if not file.kept] == [name]
    assert _identities(three_files) == before


@pytest.mark.parametrize("name", ["model.safetensors.index.json", "config.json"])
def test_an_empty_text_is_written_again(three_files, name):
    content = _files(three_files)
    (three_files / name).write_bytes(b"")
    write(tiny_plan(), three_files, max_shard_size=SHARD)
    assert _files(three_files) == content


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"seed": 1}, "model.safetensors has seed 0 there, 1 here"),
        ({"scheme": "xavier"}, "has scheme auto there, xavier here"),
        ({"dtype": "float16"}, "has dtype float32 there, float16 here"),
        (
            {"overrides": [("*.wpe.weight", "zeros")]},
            "has overrides none there, *.wpe.weight=zeros here",
        ),
        ({"seed": 1, "dtype": "float16"}, "has seed 0 there, 1 here, dtype float32 there, float16"),
        ({"fields": {"initializer_range": 0.01}}, "initializer_range None there, 0.01 here"),
        ({"fields": {"vocab_size": 48}}, "has another model config"),
        ({"name": "llama"}, "has model type gpt2 there, llama here"),
    ],
)
def test_another_recipe_is_refused_and_the_difference_named(one_file, options, difference):
    before = _identities(one_file)
    with pytest.raises(CheckpointError) as error:
        write(tiny_plan(**options), one_file)
    assert difference in str(error.value)
    assert "--overwrite" in str(error.value)
    assert _identities(one_file) == before


@pytest.mark.parametrize("field", ["fanin", "stream_version"])
def test_another_version_is_refused(one_file, monkeypatch, field):
    attribute = {"fanin": "__version__", "stream_version": "STREAM_VERSION"}[field]
    monkeypatch.setattr(recipe, attribute, "next")
    with pytest.raises(CheckpointError, match=r"version .* there, next here"):
        write(tiny_plan(), one_file)


def test_another_cut_is_refused(three_files, tmp_path):
    before = _identities(three_files)
    for size in ("5GB", 10_000, SHARD + 1000):  # one file, more files, three other files
        with pytest.raises(CheckpointError, match="is cut by another max_shard_size"):
            write(tiny_plan(), three_files, max_shard_size=size)
    assert _identities(three_files) == before


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("model.safetensors", b"version https://git-lfs...", "model.safetensors is not a safetens"),
        ("model.safetensors", b"\x02\0\0\0\0\0\0\0{}", "model.safetensors was not written"),
        ("model-00001-of-00002.safetensors", b"", "was not written by fanin"),
        ("model.fp16.safetensors", b"x", "model.fp16.safetensors was not written by fanin"),
        ("model.safetensors.index.json", b"{}", "index.json is of another checkpoint"),
        ("config.json", b'{"model_type": "gpt2"}', "config.json has dtype None there, float32"),
        ("config.json", b"[1]", "config.json is not a JSON object"),
        ("config.json", b"#!", "config.json is not a JSON object"),
    ],
)
def test_foreign_files_are_refused_and_replaced_only_on_request(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError) as error:
        write(tiny_plan(), tmp_path)
    assert f"{tmp_path} holds something else: " in str(error.value)
    assert reason in str(error.value)
    assert _files(tmp_path) == {name: content}
    write(tiny_plan(), tmp_path, overwrite=True)
    assert set(_files(tmp_path)) == {"config.json", "model.safetensors"}


def test_a_foreign_index_of_several_files(tmp_path):
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {}}')
    with pytest.raises(CheckpointError, match=r"index\.json is of another checkpoint"):
        write(tiny_plan(), tmp_path, max_shard_size=SHARD)


@pytest.mark.parametrize("metadata", [None, {}, {"fanin": "{"}, {"fanin": "[]"}])
def test_metadata_that_is_no_recipe(tmp_path, metadata):
    header = json.dumps({"__metadata__": metadata}).encode()
    content = len(header).to_bytes(8, "little") + header
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match="was not written by fanin"):
        write(tiny_plan(), tmp_path)


def test_other_files_are_left_alone(tmp_path):
    others = {"README.md": b"mine", "pytorch_model.bin": b"mine", "tokenizer.json": b"{}"}
    for name, content in others.items():
        (tmp_path / name).write_bytes(content)
    write(tiny_plan(), tmp_path)
    write(tiny_plan(seed=1), tmp_path, overwrite=True)
    assert {name: _files(tmp_path)[name] for name in others} == others


def test_replacing_leaves_nothing_of_the_old_checkpoint(three_files, tmp_path):
    write(tiny_plan(seed=1), three_files, overwrite=True)
    write(tiny_plan(seed=1), tmp_path / "fresh")
    assert _files(three_files) == _files(tmp_path / "fresh")


def test_replacing_begins_by_removing_the_old(three_files):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(tiny_plan(seed=1), three_files, max_shard_size=SHARD, overwrite=True, progress=stop)
    assert set(_files(three_files)) == {"config.json"}


def test_replacing_keeps_what_is_of_this_recipe(three_files):
    before = _identities(three_files)
    write(tiny_plan(), three_files, max_shard_size=SHARD, overwrite=True)
    assert _identities(three_files) == before


def test_a_pipe_or_a_folder_in_the_way(tmp_path):
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="was not written by fanin"):
        write(tiny_plan(), tmp_path)
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(IsADirectoryError, match="a folder is in the way"):
        write(tiny_plan(), tmp_path, overwrite=True)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json"])
@pytest.mark.parametrize("size", [13_000, "5GB"])
def test_a_text_that_is_no_file_or_has_no_end(tmp_path, name, size):
    path, own = tmp_path / name, {"max_shard_size": size}
    write(tiny_plan(), tmp_path, **own)
    content = _files(tmp_path)
    path.unlink(missing_ok=True)
    for put in (
        lambda: os.mkfifo(path),
        lambda: path.symlink_to("nowhere"),
        lambda: (path.touch(), os.truncate(path, 2**42)),
    ):
        put()
        # An index that differs and is a file is ours, damaged, where there is to be one.
        if name == "config.json" or size == "5GB" or not path.is_file():
            with pytest.raises(CheckpointError, match=f"holds something else: {name} is "):
                write(tiny_plan(), tmp_path, **own)
        write(tiny_plan(), tmp_path, **own, overwrite=True)
        assert _files(tmp_path) == content
        path.unlink(missing_ok=True)


def test_a_file_that_another_process_removes_meanwhile_is_no_conflict(three_files, monkeypatch):
    path = three_files / "model-00002-of-00003.safetensors"

    def late(*arguments):
        path.unlink(missing_ok=True)
        return original(*arguments)

    original = resume.is_whole
    monkeypatch.setattr(resume, "is_whole", late)
    path.touch()
    found = resume.survey(three_files, checkpoint_files(tiny_plan(), SHARD))
    assert not found.conflicts
    assert path.name not in found.whole | found.damaged


def test_a_file_that_is_taken_away_meanwhile_is_an_error(three_files):
    (three_files / "model-00003-of-00003.safetensors").unlink()
    first = three_files / "model-00001-of-00003.safetensors"

    def take(done, total):
        first.unlink(missing_ok=True)

    with pytest.raises(CheckpointError, match=f"removed or replaced {first.name} meanwhile"):
        write(tiny_plan(), three_files, max_shard_size=SHARD, check=False, progress=take)


def test_a_link_is_read_through_and_replaced_without_touching_what_it_names(one_file, tmp_path):
    target = tmp_path / "elsewhere"
    (one_file / "model.safetensors").rename(target)
    (one_file / "model.safetensors").symlink_to(target)
    before = target.read_bytes()
    assert all(file.kept for file in write(tiny_plan(), one_file).files)
    write(tiny_plan(seed=1), one_file, overwrite=True)
    assert not (one_file / "model.safetensors").is_symlink()
    assert target.read_bytes() == before
    (one_file / "model.safetensors").unlink()
    (one_file / "model.safetensors").symlink_to(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="was not written by fanin"):
        write(tiny_plan(), one_file)


def test_the_folder_of_the_config_may_be_the_output(tmp_path):
    given = {**CONFIGS["gpt2"], "torch_dtype": "float32", "comment": "kept"}
    (tmp_path / "config.json").write_text(json.dumps(given))
    fields = {"torch_dtype": "float32", "comment": "kept"}
    write(tiny_plan(fields=fields, dtype="bfloat16"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del given["torch_dtype"]
    assert config == given | {"dtype": "bfloat16"}
