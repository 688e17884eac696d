"""After `kill -9` at any moment a second run ends with the bytes of one that was left in peace."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tiny_models import CONFIGS

SCRIPT = Path(__file__).with_name("killed_writes.py")
MEDIUM = {"n_embd": 256, "n_layer": 8, "vocab_size": 100_000}  # 64 MB in bfloat16


def _deaths(fields, *arguments):
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        command = [sys.executable, SCRIPT, folder, json.dumps(CONFIGS["gpt2"] | fields), *arguments]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return int(run.stdout)


def test_before_each_call_of_the_system():
    # Three shards, a config and an index, of about five calls each.
    assert _deaths({}, "6500", "calls") > 20


def test_at_random_moments():
    assert _deaths(MEDIUM, "8MB", "moments", "0", "12") >= 6
