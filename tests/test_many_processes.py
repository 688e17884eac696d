"""Several processes that write one checkpoint, without a word to each other."""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from fanin.checkpoint import CheckpointError, partial_file, write, writing
from tiny_models import CONFIGS, tiny_plan

SHARD = 13_000  # bytes; three files of the tiny GPT-2
INDEX = "model.safetensors.index.json"
NAMES = [f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)]


def _files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The files that a single process writes."""
    folder = tmp_path_factory.mktemp("alone")
    write(tiny_plan(), folder, max_shard_size=SHARD)
    return _files(folder)


def _write(folder, rank, world_size, plan=None, **options):
    return write(
        plan or tiny_plan(),
        folder,
        max_shard_size=SHARD,
        rank=rank,
        world_size=world_size,
        **options,
    )


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_the_last_to_end_writes_the_index(tmp_path, alone, order):
    done = set()
    for rank in order:
        report = _write(tmp_path, rank, 3)
        (own,) = [file.name for file in report.files if file.name in NAMES]
        done.add(own)
        assert report.missing == tuple(name for name in NAMES if name not in done)
        assert (INDEX in _files(tmp_path)) == (not report.missing)
        assert [file.name for file in report.files][1:] == (
            ["config.json"] if report.missing else ["config.json", INDEX]
        )
    assert _files(tmp_path) == alone


def test_at_once(tmp_path, alone):
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        with ThreadPoolExecutor(4) as pool:
            reports = list(pool.map(lambda rank: _write(folder, rank, 4), range(4)))  # noqa: B023
        assert _files(folder) == alone
        assert any(not report.missing for report in reports)


def test_two_that_find_all_files_at_once_write_the_same_index(tmp_path, alone, monkeypatch):
    # Both have looked, and neither has written, when the first goes on.
    reports = []

    def meet(*arguments):
        monkeypatch.undo()
        reports.append(_write(tmp_path, 1, 3))
        return original(*arguments)

    _write(tmp_path, 2, 3)
    original = writing._finish
    _write(tmp_path, 1, 3)
    monkeypatch.setattr(writing, "_finish", meet)
    reports.append(_write(tmp_path, 0, 3))
    assert [report.missing for report in reports] == [(), ()]
    assert _files(tmp_path) == alone


def test_idle_processes_say_so(tmp_path):
    report = _write(tmp_path, 3, 4)
    assert [file.name for file in report.files] == ["config.json"]
    assert report.missing == tuple(NAMES)
    assert report.notes == (
        "nothing to write for this process: there are 3 files for 4 processes;"
        " a smaller max_shard_size makes more",
    )
    report = write(tiny_plan(), tmp_path / "one", rank=1, world_size=2)
    assert "there is 1 file for 2 processes" in report.notes[0]
    assert not write(tiny_plan(), tmp_path / "one", rank=0, world_size=2).missing


def test_dry_runs_tell_the_share(tmp_path):
    reports = [_write(tmp_path, rank, 2, dry_run=True) for rank in range(2)]
    shares = [{file.name for file in report.files if file.name in NAMES} for report in reports]
    assert shares[0] | shares[1] == set(NAMES)
    assert not shares[0] & shares[1]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("rank", "world_size", "message"),
    [
        (2, 2, "rank must be from 0 to 1, as world_size is 2; got 2"),
        (-1, 2, "rank"),
        (0, 0, "world"),
    ],
)
def test_a_rank_that_is_none(tmp_path, rank, world_size, message):
    with pytest.raises(ValueError, match=message):
        _write(tmp_path / "out", rank, world_size)
    assert not (tmp_path / "out").exists()


def test_processes_of_two_recipes(tmp_path):
    _write(tmp_path, 0, 3)
    with pytest.raises(CheckpointError, match="has seed 0 there, 1 here"):
        _write(tmp_path, 1, 3, tiny_plan(seed=1))
    with pytest.raises(CheckpointError, match="is cut by another max_shard_size"):
        write(tiny_plan(), tmp_path, max_shard_size=SHARD + 3000, rank=1, world_size=3)


def test_processes_of_two_recipes_that_meet_in_the_end_leave_no_index(tmp_path, monkeypatch):
    def other(*arguments):
        monkeypatch.undo()
        for rank in (1, 2):
            # They began when the folder was empty.
            shutil.copy(tmp_path / "other" / own[rank], tmp_path / "out" / own[rank])
        return original(*arguments)

    own = {}
    for rank in (1, 2):
        report = _write(tmp_path / "other", rank, 3, tiny_plan(seed=1))
        own[rank] = report.files[0].name
    original = writing._finish
    monkeypatch.setattr(writing, "_finish", other)
    with pytest.raises(CheckpointError, match="has seed 1 there, 0 here"):
        _write(tmp_path / "out", 0, 3)
    assert not (tmp_path / "out" / INDEX).exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_finished_checkpoint_of_another_recipe_is_not_mixed_with(tmp_path, alone, overwrite):
    def other(done, total):  # it began when the folder was empty, and ends while this one writes
        if not tmp_path.joinpath(INDEX).exists():
            write(tiny_plan(), tmp_path, max_shard_size=SHARD, overwrite=overwrite)

    with pytest.raises(CheckpointError, match=f"another process has written another {NAMES[0]}"):
        write(
            tiny_plan(seed=1),
            tmp_path,
            max_shard_size=SHARD,
            overwrite=overwrite,
            progress=other,
        )
    assert _files(tmp_path) == alone


@pytest.mark.parametrize("before", [{"seed": 1}, {"name": "llama"}])
def test_replacing_leaves_what_the_others_have_just_written(tmp_path, alone, before):
    for order in [(0, 1, 2), (2, 1, 0)]:
        folder = tmp_path / str(order)
        write(tiny_plan(**before), folder, max_shard_size=SHARD)
        for rank in order:
            _write(folder, rank, 3, overwrite=True)
        assert _files(folder) == alone


def test_replacing_by_one_who_looked_before_the_others_wrote(tmp_path, alone, monkeypatch):
    write(tiny_plan(seed=1), tmp_path, max_shard_size=SHARD)

    def late(*arguments):
        monkeypatch.undo()
        for rank in (1, 2):
            _write(tmp_path, rank, 3, overwrite=True)
        return original(*arguments)

    original = writing._check_room
    monkeypatch.setattr(writing, "_check_room", late)  # after the look, before the removal
    report = _write(tmp_path, 0, 3, overwrite=True)
    assert not report.missing
    assert _files(tmp_path) == alone


def test_the_old_index_goes_before_any_old_file(tmp_path):
    write(tiny_plan(seed=1), tmp_path, max_shard_size=SHARD)
    report = _write(tmp_path, 1, 3, overwrite=True)
    assert len(report.missing) == 2
    assert INDEX not in _files(tmp_path)


def test_temporary_files_of_others_are_theirs(tmp_path):
    temporary = {name: tmp_path / f".{name}.0123abcd.fanin-partial" for name in NAMES}
    for path in temporary.values():
        path.touch()
    (own,) = [f.name for f in _write(tmp_path, 1, 3).files if f.name in NAMES]
    assert [name for name in NAMES if not temporary[name].exists()] == [own]
    foreign = tmp_path / ".model-00001-of-00009.safetensors.0123abcd.fanin-partial"
    foreign.touch()
    _write(tmp_path, 2, 3)
    assert foreign.exists()
    _write(tmp_path, 0, 3)  # which takes away what is nobody's
    assert not any(path.exists() for path in (*temporary.values(), foreign))


def test_a_temporary_file_at_work_is_never_removed(tmp_path):
    with partial_file.partial_file(tmp_path / NAMES[0]) as descriptor:
        write(tiny_plan(), tmp_path, max_shard_size=SHARD)
        os.write(descriptor, b"still there")
        assert len(list(tmp_path.glob(".model*"))) == 1


def _command(tmp_path, *options):
    config = tmp_path / "given.json"
    config.write_text(json.dumps(CONFIGS["gpt2"]))
    return ["init", str(config), str(tmp_path / "out"), "--max-shard-size", "13KB", *options]


def test_three_plain_processes(tmp_path, alone):
    command = [sys.executable, "-m", "fanin", *_command(tmp_path)]
    processes = [
        subprocess.Popen(
            [*command, "--rank", str(rank), "--world-size", "3"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    results = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    for rank, (out, err) in enumerate(results):
        assert err == ""
        assert f"process {rank} of 3, numbered from 0" in out
    assert any("out is complete" in out for out, _ in results)
    assert _files(tmp_path / "out") == alone


def test_torchrun(tmp_path, alone):
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", "3", "-m", "fanin"]
    run = subprocess.run(
        [sys.executable, "-m", *launcher, *_command(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    for rank in range(3):
        assert f"fanin: note: process {rank} of 3, by RANK, WORLD_SIZE" in run.stderr
    assert _files(tmp_path / "out") == alone
