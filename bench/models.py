"""Whole models: `from_config` by itself, under `accelerate()`, and in its place `initialize_`.

`python bench/models.py [MODEL ...]`. The last makes the model on the meta device, gives it memory
and fills that. A process for each model, in which the three take turns after a first round that
does not count: it loads code, and touches the memory. Each build still gets fresh
pages from the kernel. Processes of their own would measure the host of a virtual machine as well,
which takes free memory back within seconds and returns it a small page at a time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

import readme
from fanin.bench import machine

LARGE = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
}
LLAMA = {
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
}

MODELS: dict[str, tuple[str, str, str, dict[str, int]]] = {
    "gpt2-xl": ("CausalLM", "float32", "gpt2", {"n_embd": 1600, "n_layer": 48, "n_head": 25}),
    "llama-1.1b": ("CausalLM", "bfloat16", "llama", LLAMA),
    "bert-large": ("MaskedLM", "float32", "bert", LARGE),
    "vit-large": ("ImageClassification", "float32", "vit", LARGE),
    "resnet-50": ("ImageClassification", "float32", "resnet", {}),
    "gpt2": ("CausalLM", "float32", "gpt2", {}),
    "tiny": ("CausalLM", "float32", "gpt2", {"n_embd": 64, "n_layer": 2, "n_head": 2}),
}
"""The task, the dtype, the `model_type`, and the fields that differ from its defaults."""

BARS = ["gpt2-xl", "llama-1.1b", "bert-large", "vit-large", "resnet-50"]

BUILD = """
import gc, json, sys, time
import torch, transformers
import fanin.torch
task, dtype, model_type, fields = json.loads(sys.argv[1])
config = transformers.AutoConfig.for_model(model_type, **fields)
auto = getattr(transformers, f"AutoModelFor{task}")

def plain():
    return auto.from_config(config, dtype=getattr(torch, dtype))

def initialized():
    with torch.device("meta"):
        model = plain()
    model.to_empty(device="cpu").tie_weights()
    fanin.torch.initialize_(model, seed=0)
    return model

contestants = {
    "torch": plain, "accelerate": fanin.torch.accelerate()(plain), "initialize_": initialized
}
times = {contestant: [] for contestant in contestants}
for turn in range(1 + int(sys.argv[2])):
    for contestant, build in contestants.items():
        started = time.perf_counter()
        model = build()
        times[contestant].append(time.perf_counter() - started)
        print(f"{contestant}: {times[contestant][-1]:.2f} s", file=sys.stderr)
        size = model.num_parameters(), model.get_memory_footprint()
        del model
        gc.collect()
print(json.dumps([{name: seconds[1:] for name, seconds in times.items()}, *size]))
"""


def measure(name: str, rounds: int) -> tuple[dict[str, list[float]], int, int]:
    """Seconds of each contestant's rounds, and the parameters and bytes of the model."""
    print(f"{name}, {rounds} rounds and one before", file=sys.stderr)
    times, parameters, num_bytes = json.loads(_run(BUILD, json.dumps(MODELS[name]), str(rounds)))
    return times, parameters, num_bytes


def _run(*arguments: str) -> str:
    result = subprocess.run([sys.executable, "-c", *arguments], stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        raise SystemExit(f"{sys.executable} -c ... {' '.join(arguments[1:])} failed")
    return result.stdout


def row(name: str, times: dict[str, list[float]], parameters: int, num_bytes: int) -> str:
    """Return a row of the table: medians, and how many times as fast as `from_config`."""
    plain, *others = (statistics.median(seconds) for seconds in times.values())
    cells = [
        f"{name}, {MODELS[name][1]}",
        f"{parameters / 1e6:,.0f} M",
        f"{num_bytes / 1e9:.2f}",
        f"{plain:.2f}",
        *(f"{seconds:.2f} ({plain / seconds:.1f}x)" for seconds in others),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Run the models and print the table; with --write put it into docs/speed.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=BARS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if unknown := set(arguments.models) - MODELS.keys():
        parser.error(f"unknown models {', '.join(unknown)}; there are {', '.join(MODELS)}")
    command = f"python bench/models.py --rounds {arguments.rounds} --write"
    lines = [
        "| seconds | parameters | GB | `from_config` | in `accelerate()` | `initialize_` |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [row(name, *measure(name, arguments.rounds)) for name in arguments.models]
    lines += [
        "",
        f"Median of {arguments.rounds} rounds, in turn."
        f" {machine.sentence(machine.facts(['torch', 'transformers']))}. To repeat: `{command}`.",
    ]
    print("\n".join(lines))
    if arguments.write:
        readme.write(readme.ROOT / "docs" / "speed.md", "from_config", "\n".join(lines))


if __name__ == "__main__":
    main()
