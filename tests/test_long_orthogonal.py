"""Large orthogonal matrices: Ctrl-C, memory, forks, threads at the same time, checkpoints."""

import multiprocessing
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

import fanin
from fanin.checkpoint import write
from fanin.initializers import Orthogonal
from tiny_models import tiny_plan


def interrupted(work, after=0.3):
    """Seconds from Ctrl-C to the end of the work, which takes longer than `after`."""
    sent = []

    def interrupt():
        sent.append(time.perf_counter())
        signal.raise_signal(signal.SIGINT)

    timer = threading.Timer(after, interrupt)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        work()
    return time.perf_counter() - sent[0]


@pytest.mark.parametrize(
    ("shape", "threads", "dtype"),
    [
        ((4096, 4096), 1, "float32"),
        ((8192, 2048), 2, "bfloat16"),
        ((64, 512, 512), 2, "float64"),  # small matrices, one a thread
    ],
    ids=str,
)
def test_ctrl_c(shape, threads, dtype):
    layout = "boi"[-len(shape) :]

    def work():
        fanin.orthogonal(shape, layout=layout, seed=0, dtype=dtype, threads=threads)
        time.sleep(1)  # a machine that has done it all by then

    latencies = [interrupted(work) for _ in range(3)]
    assert min(latencies) < 1
    assert fanin.orthogonal((3, 3), seed=0).any()


def test_ctrl_c_while_a_checkpoint_is_written(tmp_path):
    fields = {"n_embd": 2048, "n_head": 16, "n_layer": 1, "vocab_size": 100}
    plan = tiny_plan(fields=fields, scheme="orthogonal")
    assert interrupted(lambda: write(plan, tmp_path / "out", threads=2)) < 2
    assert not list((tmp_path / "out").iterdir())


MEMORY = """
import numpy as np
import fanin

def peak():
    with open("/proc/self/status") as status:
        (line,) = [line for line in status if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024

fanin.orthogonal((300, 300), seed=0)
before = peak()
fanin.{call}
print(peak() - before)
"""


@pytest.mark.parametrize(
    ("call", "output", "extra"),
    [
        ("orthogonal((1000, 10_000), seed=0, threads=2)", 40e6, 32e6),
        # A rank's part of a matrix of 200 MB: its own vectors, and a panel of reflectors.
        (
            "orthogonal((5000, 10_000), region=(slice(0, 400), slice(None)), seed=0, threads=2)",
            16e6,
            32e6,
        ),
        (
            "orthogonal((1000, 10_000), region=(slice(0, 400), slice(0, 100)), seed=0, threads=2)",
            16e6,  # the vectors from end to end
            32e6,
        ),
        # Few reflectors are padded to a tile of the product, 32 at most, in one form only.
        ("orthogonal((16, 100_000), seed=0, threads=2)", 6.4e6, 40e6),
    ],
)
def test_memory_is_the_output_and_a_panel(call, output, extra):
    code = MEMORY.replace("{call}", call)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) < output + extra


def test_forked_workers():
    expected = fanin.orthogonal((1024, 64), seed=0, threads=2).tobytes()
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def work():
        sender.send(fanin.orthogonal((1024, 64), seed=0, threads=2).tobytes())

    child = context.Process(target=work)
    child.start()
    assert receiver.poll(60), "the child hangs"
    assert receiver.recv() == expected
    child.join()


def test_threads_at_the_same_time():
    expected = [fanin.orthogonal((300, 200), seed=i).tobytes() for i in range(4)]
    found = [b""] * 4

    def work(i):
        found[i] = fanin.orthogonal((300, 200), seed=i, threads=2).tobytes()

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == expected


def test_a_checkpoint_in_bands_has_the_bits_of_memory(tmp_path, monkeypatch):
    """Wide, tall and fused matrices of several panels, each in bands of some vectors."""
    monkeypatch.setattr("fanin.checkpoint.banded_tensors.BAND_BYTES", 200_000)
    fields = {"n_embd": 300, "n_head": 4, "n_layer": 1, "vocab_size": 100, "n_inner": 700}
    plan = tiny_plan(fields=fields, scheme="orthogonal", dtype="float32")
    write(plan, tmp_path, threads=3)
    stored = load_file(tmp_path / "model.safetensors")
    checked = 0
    for entry in plan.entries:
        for part, initializer in zip(entry.tensor.parts, entry.initializers, strict=True):
            if isinstance(initializer, Orthogonal):
                matrix = np.empty(part.shape, np.float32)
                initializer.fill(matrix, seed=0, name=part.name, layout=part.layout)
                first = part.tensor_start[1]
                there = stored[entry.tensor.name][:, first : first + part.extent[1]]
                assert there.tobytes() == matrix.tobytes(), part.name
                checked += 1
    assert checked == 6
