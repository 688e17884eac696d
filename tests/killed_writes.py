"""Writers that are killed: `python killed_writes.py FOLDER CONFIG how ...`, for test_killed.py.

The writers are forked from this process, which has no threads, so that a hundred of them take no
time to start. After each death, whatever has a final name must be whole, and the next writer must
end with the bytes of one that was left in peace.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from fanin import families
from fanin.checkpoint import write
from fanin.checkpoint.verify import verify
from fanin.plan import make_plan

CALLS = ["open", "write", "fsync", "rename", "unlink", "close", "mkdir"]


def forked(job):
    """Run the job in a child; return the child's id."""
    child = os.fork()
    if child == 0:
        try:
            job()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def ended(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at_call(number):
    """Make this process kill itself just before a call of the system, by its number."""
    left = number

    def wrap(call):
        def dying(*arguments, **options):
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return dying

    for name in CALLS:
        setattr(os, name, wrap(getattr(os, name)))


def check(folder, expected):
    """Whatever has a final name is whole, and with an index there is all that it names."""
    names = {path.name for path in folder.glob("[!.]*")}
    for name in names:
        assert (folder / name).read_bytes() == expected[name], name
    assert "model.safetensors.index.json" not in names or names == set(expected)


def main():
    folder, config = Path(sys.argv[1]), json.loads(sys.argv[2])
    plan = make_plan(families.build(config), dtype="bfloat16", seed=1)
    options = {"max_shard_size": sys.argv[3], "fsync": sys.argv[4] == "calls"}
    started = time.perf_counter()
    write(plan, folder / "whole", **options)
    seconds = time.perf_counter() - started
    expected = {path.name: path.read_bytes() for path in (folder / "whole").iterdir()}
    out = folder / "out"

    def write_until(call):
        die_at_call(call)
        write(plan, out, **options)

    def finish():
        assert ended(forked(lambda: write(plan, out, **options))) == 0
        assert {path.name for path in out.iterdir()} == set(expected)
        check(out, expected)
        assert verify(out).ok
        shutil.rmtree(out)

    deaths = 0
    if sys.argv[4] == "calls":  # before each call of the system in turn
        while ended(forked(lambda: write_until(deaths))) != 0:  # noqa: B023
            check(out, expected)
            finish()
            deaths += 1
    else:  # at random moments; each writer goes on where the one before died
        moments = random.Random(int(sys.argv[5]))
        for _ in range(int(sys.argv[6])):
            child = forked(lambda: write(plan, out, **options))
            time.sleep(moments.uniform(0, seconds))
            os.kill(child, signal.SIGKILL)
            deaths += ended(child) != 0
            check(out, expected)
        finish()
    print(deaths)


if __name__ == "__main__":
    main()
