"""Which process this is, and its share of the files."""

import re

import pytest

from fanin.checkpoint.ranks import Rank, check_rank, find_rank, share

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "3"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}
MPICH = {"PMI_RANK": "3", "PMI_SIZE": "5"}
SLURM = {"SLURM_PROCID": "4", "SLURM_NTASKS": "6"}
STEP = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize(
    ("environment", "rank", "world_size", "source"),
    [
        ({}, 0, 1, ""),
        (TORCHRUN, 1, 3, "RANK, WORLD_SIZE"),
        (OPEN_MPI, 2, 4, "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE"),
        (MPICH, 3, 5, "PMI_RANK, PMI_SIZE"),
        (SLURM, 4, 6, "SLURM_PROCID, SLURM_NTASKS"),
        (SLURM | STEP, 4, 6, "SLURM_PROCID, SLURM_NTASKS"),
        # mpirun starts its daemons by srun, and torchrun may be started by either.
        (SLURM | STEP | OPEN_MPI, 2, 4, "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE"),
        (SLURM | STEP | OPEN_MPI | TORCHRUN, 1, 3, "RANK, WORLD_SIZE"),
        # A batch script, and a shell in an allocation: nobody was started to share the work.
        ({"SLURM_JOB_ID": "77", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, 0, 1, ""),
        ({"SLURM_JOB_ID": "77", "SLURM_NTASKS": "8"}, 0, 1, ""),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, 0, 1, "SLURM_PROCID, SLURM_NTASKS"),
        ({"RANK": "", "WORLD_SIZE": " "}, 0, 1, ""),
    ],
)
def test_the_launcher_says_which_process_this_is(environment, rank, world_size, source):
    assert find_rank(environment=environment) == Rank(rank, world_size, source)


def test_options_win():
    assert find_rank(0, 2, environment=TORCHRUN) == Rank(0, 2)
    assert find_rank(0, 1, environment={"RANK": "x"}) == Rank()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"RANK": "1"}, "RANK is set and WORLD_SIZE is not"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is set and RANK is not"),
        ({"PMI_RANK": "0"}, "PMI_RANK is set and PMI_SIZE is not"),
        ({"SLURM_PROCID": "0"}, "SLURM_PROCID is set and SLURM_NTASKS is not"),
        ({"RANK": "3", "WORLD_SIZE": "3"}, "RANK must be from 0 to 2, as WORLD_SIZE is 3; got 3"),
        ({"RANK": "-1", "WORLD_SIZE": "3"}, "RANK must be at least 0, got -1"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "WORLD_SIZE must be at least 1, got 0"),
        ({"RANK": "one", "WORLD_SIZE": "3"}, "RANK must be an integer, got 'one'"),
        ({"RANK": "0", "WORLD_SIZE": "2.0"}, "WORLD_SIZE must be an integer, got '2.0'"),
    ],
)
def test_inconsistent_variables_are_named(environment, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}($|: set both or neither)"):
        find_rank(environment=environment)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((1, None), "--rank needs --world-size with it"),
        ((None, 2), "--world-size needs --rank with it"),
        ((2, 2), "--rank must be from 0 to 1, as --world-size is 2; got 2"),
        ((-1, 2), "--rank must be at least 0, got -1"),
        ((0, 0), "--world-size must be at least 1, got 0"),
    ],
)
def test_inconsistent_options_are_named(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        find_rank(*options, environment=TORCHRUN)


def test_a_rank_is_an_integer():
    with pytest.raises(TypeError, match="rank must be an integer"):
        check_rank(1.0, 2)


@pytest.mark.parametrize("processes", [1, 2, 3, 5, 40])
def test_each_item_has_one_process_and_loads_are_even(processes):
    sizes = [7, 1, 9, 9, 3, 4, 4, 8, 2, 6, 5, 9]
    shares = [share(range(len(sizes)), sizes, rank, processes) for rank in range(processes)]
    assert sorted(item for own in shares for item in own) == list(range(len(sizes)))
    assert all(own == sorted(own) for own in shares)
    loads = [sum(sizes[item] for item in own) for own in shares if own]
    assert len(loads) == min(processes, len(sizes))
    # The bound of this rule: 4/3 of the best there can be (Graham 1969).
    best = max(max(sizes), sum(sizes) / processes)
    assert max(loads) <= 4 / 3 * best + 1


def test_bytes_count_and_not_files():
    assert share("abcd", [9, 3, 3, 3], 0, 2) == ["a"]
    assert share("abcd", [9, 3, 3, 3], 1, 2) == ["b", "c", "d"]
