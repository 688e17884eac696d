"""`fanin bench`: all who take part do the same, how time is taken, what is printed and drawn."""

import json
import math
import sys
from importlib import metadata
from itertools import count
from pathlib import Path

import jax
import numpy as np
import pytest
import torch

import fanin
from fanin import cli
from fanin.bench import axes, errors, machine, measuring, peers, plot, report, suite
from fanin.bench.peers import mkl
from fanin.bench.results import Contestant, Results, Row
from fanin.initializers import parse
from fanin.output import numpy_dtype

ROOT = Path(__file__).parents[1]
QUICK = ["--sizes", "2^10", "--threads", "1", "--rounds", "1", "--no-errors"]


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(measuring, "SHORTEST", 1e-5)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def run(capsys):
    """Run `fanin bench` in this process; returns exit code, stdout and stderr."""

    def run(*arguments):
        code = cli.main(["bench", *(str(argument) for argument in arguments)])
        return code, *capsys.readouterr()

    return run


def results(*rows):
    facts = {
        "cpu": "Z80",
        "cores": 2,
        "simd": "baseline",
        "python": "3",
        "versions": {"fanin": "0"},
    }
    return Results("fanin bench", 1, facts, list(rows))


def row(section="fills", what="normal", shape=(1000,), threads=1, **seconds):
    contestants = {
        name: Contestant(value, 2 * value, 1, threads) for name, value in seconds.items()
    }
    return Row(section, what, "float32", shape, threads, contestants)


def installed():
    return [peer.name for peer in peers.load(peers.CHOICES)[0]]


def test_every_section_with_whoever_is_installed(run):
    options = ["--dtypes", "float32", "--distributions", "normal,uniform"]
    code, out, err = run(*QUICK, *options, "--functions", "normal_,ones_", "--json")
    assert code == 0
    record = json.loads(out)
    assert set(record) == {"command", "rounds", "machine", "rows", "errors"}
    assert record["command"] == (
        "fanin bench --sizes 2^10 --dtypes float32 --distributions normal,uniform"
        " --functions normal_,ones_ --threads 1 --rounds 1 --no-errors"
    )
    assert {row["section"] for row in record["rows"]} == {"fills", "functions", "fresh"}
    for row in record["rows"]:
        assert set(row) == {"section", "what", "dtype", "shape", "threads", "contestants"}
        assert {"fanin", "torch"} <= set(row["contestants"])
        for contestant in row["contestants"].values():
            assert contestant["seconds"] > 0
            size = math.prod(row["shape"])
            assert contestant["million_elements_per_second"] == pytest.approx(
                size / contestant["seconds"] / 1e6
            )
            assert contestant["fanin_is_faster_by"] == pytest.approx(
                contestant["seconds"] / row["contestants"]["fanin"]["seconds"]
            )
    normal, uniform = record["rows"][:2]
    assert (normal["what"], uniform["what"]) == ("normal", "uniform")
    assert list(normal["contestants"]) == installed()
    if "MKL" in installed():
        assert normal["contestants"]["MKL"]["way"].split(",")[0] in mkl.GENERATORS
    missing = set(peers.CHOICES) - set(installed())
    assert err.count("is left out") == len(missing)


@pytest.mark.parametrize("distribution", axes.DISTRIBUTIONS)
def test_peers_draw_from_the_same_distribution(distribution):
    case = axes.Case(distribution, "float32", 2**15, 1)
    init = parse(axes.DISTRIBUTIONS[distribution])
    wanted = init.fill(np.empty(case.size, np.float32), seed=1, name="w")
    for peer in peers.load(peers.CHOICES)[0]:
        if peer.name == "memory":
            continue
        out = np.full(case.size, np.nan, np.float32)
        for name, way in [*peer.fill(case, out).items(), *peer.fresh(case).items()]:
            values = np.asarray(way())
            assert values.size == case.size
            assert values.std() == pytest.approx(wanted.std(), rel=0.03), (peer.name, name)
            assert values.mean() == pytest.approx(wanted.mean(), abs=0.03 * float(wanted.std()))
            assert values.max() == pytest.approx(wanted.max(), rel=0.35)
            if distribution == "truncated_normal":
                assert np.abs(values).max() <= 2


@pytest.mark.parametrize("dtype", axes.DTYPES)
def test_peers_fill_all_of_the_buffer_in_its_dtype(dtype):
    case = axes.Case("normal", dtype, 1000, 1)
    for peer in peers.load(peers.CHOICES)[0]:
        out = np.full(case.size, np.nan, numpy_dtype(dtype))
        for name, way in peer.fill(case, out).items():
            returned = way()
            values = np.asarray(returned) if peer.name == "JAX" else out
            assert values.dtype == out.dtype
            assert np.isfinite(values.astype(np.float32)).all(), (peer.name, name)


def test_float64_is_float64_in_jax():
    way = peers.load(["JAX"])[0][-1].fresh(axes.Case("uniform", "float64", 8, 1))["threefry"]
    assert way().dtype == np.float64
    assert not jax.config.jax_enable_x64


def test_functions_are_all_of_torch_nn_init():
    init = torch.nn.init
    there = {name for name in dir(init) if name.endswith("_") and not name.startswith("_")}
    later = {
        "dirac_": "dirac",
        "eye_": "identity",
        "orthogonal_": "orthogonal",
        "sparse_": "sparse",
    }
    missing = {name for name, own in later.items() if not hasattr(fanin, own)}
    assert set(axes.FUNCTIONS) == there - missing


@pytest.mark.parametrize("name", axes.FUNCTIONS)
def test_functions_mean_the_same(name):
    pair = axes.FUNCTIONS[name]
    shape = tuple(min(size, 512) for size in pair.shape)
    theirs = torch.empty(shape)
    getattr(torch.nn.init, name)(theirs, **pair.torch_arguments)
    own = getattr(fanin, pair.fanin)(shape, **pair.fanin_arguments, seed=0)
    theirs, std = theirs.numpy(), float(own.std())
    assert std == pytest.approx(theirs.std(), rel=0.03)
    assert own.mean() == pytest.approx(theirs.mean(), abs=0.02 * max(std, 1e-6))
    assert (own == 0).mean() == pytest.approx((theirs == 0).mean(), abs=0.01)


def test_without_the_peers(run, monkeypatch):
    def no_files(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.setattr(mkl.metadata, "files", no_files)
    mkl.load.cache_clear()
    code, out, err = run(*QUICK, "--functions", "normal_", "--json")
    mkl.load.cache_clear()
    assert code == 0
    assert err.splitlines() == [
        "fanin: note: torch is left out (import of torch halted; None in sys.modules):"
        ' pip install "fanin[torch]"',
        "fanin: note: JAX is left out (import of jax halted; None in sys.modules):"
        ' pip install "fanin[jax]"',
        "fanin: note: MKL is left out (No module named 'mkl'): pip install mkl",
    ]
    seen = {name for row in json.loads(out)["rows"] for name in row["contestants"]}
    assert seen == {"fanin", "NumPy", "memory"}


def test_errors_need_scipy_and_mpmath(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    options = ["--distributions", "truncated_normal", "--dtypes", "float32", "--peers", "NumPy"]
    code, out, err = run("fills", *QUICK[:-1], *options, "--json")
    assert (code, json.loads(out)["errors"]) == (0, [])
    assert err.startswith("fanin: note: some errors are left out (")
    assert err.endswith("): pip install scipy mpmath\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["speed"], "SECTION 'speed' is unknown: choose from fills, functions, fresh"),
        (["--sizes", "big"], "size 'big' is not a number of elements from 1 to 2^34"),
        (["--sizes", "2^35"], "size '2^35' is not a number of elements from 1 to 2^34"),
        (["--sizes", "0"], "size '0' is not a number"),
        (["--sizes", ""], "size '' is not a number"),
        (["--dtypes", "float32,int8"], "dtype 'int8' is unknown: choose from float32, bfloat16"),
        (["--distributions", "cauchy"], "distribution 'cauchy' is unknown: choose from normal"),
        (["--functions", "normal"], "function 'normal' is unknown: choose from uniform_"),
        (["--peers", "cupy"], "peer 'cupy' is unknown: choose from torch, NumPy, JAX, MKL, memory"),
        (["--threads", "1,0"], "threads must be from 1 to 4096, got '0'"),
        (["--rounds", "none"], "rounds must be from 1 to 4096, got 'none'"),
    ],
)
def test_wrong_usage(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("usage: fanin bench")
    assert message in err.splitlines()[-1]


def test_too_large_a_size_is_refused_before_anything_is_measured(run, monkeypatch):
    monkeypatch.setattr(machine, "available_bytes", lambda: 10**9)
    monkeypatch.setattr(suite, "in_turn", lambda *_: pytest.fail("measured"))
    code, out, err = run(
        "fresh", "--sizes", "1000,2^30", "--peers", "memory", "--dtypes", "float64"
    )
    assert (code, out) == (1, "")
    assert err.startswith("fanin: error: 1073741824 elements of float64 need 8.6 GB of memory")
    assert "only 1.0 GB are available: choose smaller --sizes" in err


def test_lists_and_all():
    parser = cli._parser()
    chosen = parser.parse_args(
        ["bench", "fills", "--sizes", "1000,2**20,2^20", "--peers", "numpy,mkl", "--dtypes", "all"]
    )
    assert chosen.sizes == (1000, 2**20)
    assert chosen.peers == ("NumPy", "MKL")
    assert chosen.dtypes == axes.DTYPES
    assert parser.parse_args(["bench", "--sizes", "all"]).sizes[-1] == 2**30


def test_contestants_take_turns_and_medians_count(monkeypatch):
    order = []
    took = {"a": iter([9.0, 1.0, 3.0, 2.0]), "b": iter([0.5] * 4)}
    now = [0.0]
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(measuring.time, "process_time", lambda: 2 * now[0])
    monkeypatch.setattr(measuring, "PATIENCE", 100.0)

    def contestant(name):
        def run():
            order.append(name)
            now[0] += next(took[name])

        return run

    timings = measuring.in_turn({name: contestant(name) for name in took}, rounds=3)
    assert order == list("abababab")
    assert timings["a"] == measuring.Timing(seconds=2.0, cpu_seconds=4.0, rounds=3)


def test_patience_ends_with_who_is_slow(monkeypatch):
    now = count(step=1.5)  # each look at the clock is 1.5 seconds later
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: next(now))
    monkeypatch.setattr(measuring, "PATIENCE", 2.0)
    calls = []
    timing = measuring.in_turn({"slow": lambda: calls.append(1)}, rounds=9)["slow"]
    assert (timing.seconds, timing.rounds, len(calls)) == (1.5, 2, 3)
    monkeypatch.setattr(measuring, "PATIENCE", 1.0)
    calls.clear()
    timing = measuring.in_turn({"slow": lambda: calls.append(1)}, rounds=9)["slow"]
    assert (timing.seconds, timing.rounds, len(calls)) == (1.5, 1, 1)


def test_what_a_run_returns_is_freed_after_the_clock_has_stopped(monkeypatch):
    freed = []

    class Kept:
        def __del__(self):
            freed.append(clock[0])

    clock = [0]

    def look():
        clock[0] += 1
        return float(clock[0])

    monkeypatch.setattr(measuring.time, "perf_counter", look)
    measuring._clock(Kept, 1)
    assert freed == [2]


def test_the_fastest_way_takes_part():
    assert measuring.fastest({"slow": lambda: sum(range(10**5)), "quick": lambda: None}) == "quick"


def test_table():
    text = report.text(
        results(
            row(fanin=1e-6, torch=5e-6, NumPy=2e-5),
            row(threads=2, fanin=0.5e-6, torch=5e-6),
            row("functions", "xavier_normal_", (10, 200), fanin=1e-6, torch=1e-4),
        )
    )
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    table = [line for line in lines if line]
    assert table[0] == ["", "threads", "fanin", "CPU ns", "torch", "NumPy"]
    assert table[2] == ["normal float32", "1", "1000", "2.00", "200 (5.0x)", "50.0 (20.0x)"]
    assert table[3] == ["normal float32", "2", "2000", "1.00", "200 (10.0x)", ""]
    assert table[6][:2] == ["`xavier_normal_`, `xavier_normal`", "1"]
    assert table[6][-1] == "20.0 (100x)"
    assert "A warm buffer of 1,000 elements" in text
    assert text.endswith("Z80 (2 cores), fanin 0 (baseline), Python 3. To repeat: `fanin bench`.")


def test_sizes_are_a_column_where_they_differ():
    text = report.text(results(row(fanin=1.0), row(shape=(2**20,), fanin=1.0)))
    lines = text.splitlines()
    assert lines[0] == "A warm buffer, filled in place:"
    assert [line.split("|")[3].strip() for line in lines[2:6]] == [
        "elements",
        "-------:",
        "1,000",
        "2^20",
    ]


def test_json_is_read_back():
    before = results(row(fanin=1e-6, torch=5e-6))
    assert Results.from_json(json.loads(json.dumps(before.to_json()))) == before
    for record in ({}, [], {**before.to_json(), "rows": [{}]}):
        with pytest.raises(ValueError, match="these are no results of `fanin bench --json`"):
            Results.from_json(record)


def test_load_shows_what_was_stored(run, tmp_path):
    path = tmp_path / "speed.json"
    stored = results(row(fanin=1e-6, torch=5e-6))
    path.write_text(json.dumps(stored.to_json()))
    assert run("--load", path) == (0, report.text(stored) + "\n", "")
    path.write_text("{}")
    code, _, err = run("--load", path)
    assert code == 1
    assert err.startswith(f"fanin: error: {path}: these are no results")
    assert run("--load", tmp_path / "none.json")[2].endswith("No such file or directory\n")


PICTURES = {
    "sizes": [row(fanin=1e-6, memory=1e-7), row(shape=(9000,), fanin=1e-6, memory=1e-7)],
    "one size": [row(fanin=1e-6, torch=1e-5, memory=1e-7), row(threads=2, fanin=1e-6)],
    "functions": [row("functions", "ones_", (9, 9), fanin=1e-6, torch=1e-6)],
    "fresh": [row("fresh", fanin=1e-6)],
}


@pytest.mark.parametrize("rows", PICTURES.values(), ids=PICTURES)
def test_plot(run, tmp_path, rows):
    stored, picture = tmp_path / "speed.json", tmp_path / "speed.png"
    stored.write_text(json.dumps(results(*rows).to_json()))
    code, out, err = run("--load", stored, "--plot", picture)
    assert (code, err) == (0, f"fanin: note: drawn into {picture}\n")
    assert out.startswith(("A warm", "Functions", "A new"))
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(content) > 10_000


def test_plot_refuses_before_anything_is_measured(run, tmp_path, monkeypatch):
    monkeypatch.setattr(cli.bench, "_measure", lambda *_: pytest.fail("measured"))
    assert run("--plot", "speed.gif") == (
        1,
        "",
        "fanin: error: --plot draws .png, .svg, .pdf, got 'speed.gif'\n",
    )
    code, _, err = run("--plot", tmp_path / "none" / "speed.png")
    assert code == 1
    assert "there is no folder" in err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = run("--plot", tmp_path / "speed.png")
    assert (code, err) == (
        1,
        'fanin: error: --plot needs matplotlib: pip install "fanin[plot]"\n',
    )


def test_colours_and_text_for_every_peer():
    assert set(plot.COLOURS) == set(peers.NAMES)


def test_tables_in_the_documents_are_made_from_the_stored_results():
    stored = Results.from_json(json.loads((ROOT / "bench" / "speed.json").read_text()))
    places = {"README.md": ["fills"], "docs/speed.md": ["fills", "functions", "fresh"]}
    for path, sections in places.items():
        text = (ROOT / path).read_text()
        section = text.partition("<!-- speed -->\n")[2].partition("\n<!-- end of speed -->")[0]
        assert section == report.text(stored, sections), f"{path}: run `python bench/readme.py`"


def test_units_in_the_last_place():
    exact = np.array([1.0, 0.0, -3.0], np.longdouble)
    values = exact.astype(np.float32)
    assert errors._units(values, exact) == 0
    values[0] += np.float32(2**-22)
    assert errors._units(values, exact) == 2
    values[1] = 2**-22  # near zero the unit is that of 1/2
    assert errors._units(values, exact) == 4


def test_errors_of_normals_are_small_but_not_zero():
    units = errors.largest_errors("normal", "float32", torch=False)
    assert set(units) == {"fanin"}
    assert 0.5 < units["fanin"] < 4
    assert errors.largest_errors("uniform", "float32", torch=False) == {}
    assert errors.largest_errors("normal", "bfloat16", torch=False) == {}
