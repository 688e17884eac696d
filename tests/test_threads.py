"""How many threads a call uses: argument, environment, affinity, control group."""

import os

import numpy as np
import pytest

import fanin
from fanin import threads
from fanin.threads import thread_count


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    monkeypatch.delenv("FANIN_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def test_the_argument_comes_first(monkeypatch):
    monkeypatch.setenv("FANIN_NUM_THREADS", "5")
    assert thread_count(3) == 3
    assert thread_count(np.int64(4)) == 4


def test_then_the_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", " 3,2,1")
    assert thread_count() == 3
    monkeypatch.setenv("FANIN_NUM_THREADS", "")
    assert thread_count() == 3
    monkeypatch.setenv("FANIN_NUM_THREADS", " 5 ")
    assert thread_count() == 5


@pytest.fixture
def quotas_read_again():
    """The quotas are read once a second: none from before the test, none of its own after it."""
    threads._whole_quotas.cache_clear()
    yield
    threads._whole_quotas.cache_clear()


@pytest.mark.usefixtures("quotas_read_again")
def test_then_the_cpus_of_the_process(monkeypatch):
    monkeypatch.setattr(threads, "_cgroup_quotas", lambda: iter([2.5, 100.0]))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert thread_count() == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {7})
    assert thread_count() == 1


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "99999"])
def test_a_bad_environment(monkeypatch, value):
    monkeypatch.setenv("FANIN_NUM_THREADS", value)
    message = f"FANIN_NUM_THREADS must be an integer from 1 to 4096, got '{value}'"
    with pytest.raises(ValueError, match=message):
        thread_count()


@pytest.mark.parametrize("value", ["0", "-1", "x", ""])
def test_openmp_values_that_openmp_ignores(monkeypatch, value):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert thread_count() == threads.available_cpus()


@pytest.mark.parametrize("value", [0, -1, 4097])
def test_threads_out_of_range(value):
    with pytest.raises(ValueError, match=f"threads must be from 1 to 4096, got {value}"):
        fanin.normal(3, seed=0, threads=value)


@pytest.mark.parametrize("value", [True, 2.0, "2"])
def test_threads_are_integers(value):
    with pytest.raises(TypeError, match="threads must be an integer"):
        fanin.normal(3, seed=0, threads=value)


def quotas(tmp_path, groups, files):
    for path, text in {"proc/self/cgroup": groups, **files}.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return list(threads._cgroup_quotas(tmp_path))


def test_quotas_of_version_2_include_the_groups_above(tmp_path):
    files = {
        "sys/fs/cgroup/a/b/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/a/cpu.max": "max 100000\n",
        "sys/fs/cgroup/cpu.max": "400000 100000\n",
        "sys/fs/cpu.max": "1 100000\n",
    }
    assert quotas(tmp_path, "0::/a/b\n", files) == [1.5, 4.0]


def test_quotas_of_version_1(tmp_path):
    files = {
        "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "250000\n",
        "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    }
    assert quotas(tmp_path, "5:cpuacct,cpu:/job\n2:memory:/job\n", files) == [2.5]


def test_a_container_that_does_not_see_its_own_path(tmp_path):
    files = {"sys/fs/cgroup/cpu.max": "200000 100000"}
    assert quotas(tmp_path, "0::/docker/1234", files) == [2.0]


def test_no_control_groups(tmp_path):
    assert list(threads._cgroup_quotas(tmp_path)) == []


def test_this_process():
    assert 1 <= threads.available_cpus() <= (os.cpu_count() or 1)
