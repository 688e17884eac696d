"""`initialize_`: every parameter of a module, once, by its name: whole, sharded, tied or wrapped.

The steps are those of a checkpoint: describe the tensors, make a plan and check it, then fill. Only
the last one writes, and every process fills only what it holds of a sharded tensor.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch
from torch import nn

from fanin import diagnose, schemes
from fanin.initializers import Initializer
from fanin.initializers.values import Values
from fanin.output import dtype_name
from fanin.plan import Entry, Plan, make_plan
from fanin.plan.checks import check_draws
from fanin.plan.overrides import (
    Overrides,
    override_pairs,
    overriding,
    read_overrides,
)
from fanin.rules import initializer_of
from fanin.streams import check_seed
from fanin.threads import thread_count
from fanin.torch.description import Description, buffer_values, describe_module
from fanin.torch.inventory import Held, Inventory, local_tensor, take_inventory
from fanin.torch.report import InitializationError, Report, Row
from fanin.torch.selection import check_overrides, check_tensors, kept_tensors
from fanin.torch.sharding import is_sharded, local_boxes

__all__ = ["initialize_"]


def initialize_(
    module: nn.Module,
    scheme: str = "auto",
    seed: int = 0,
    *,
    overrides: Overrides = (),
    only: str | Iterable[str] | None = None,
    skip: str | Iterable[str] | None = None,
    threads: int | None = None,
) -> Report:
    """Initialize the parameters of a module in place.

    A model of transformers that a family of fanin knows gets the bits that `fanin init` writes for
    the same config, scheme and seed. Every other parameter is keyed by its qualified name, and its
    layer's type says what it is. Wrappers, the order of layers and the sharding change no value.

    Parameters
    ----------
    module : torch.nn.Module
        On the CPU, in any float dtypes; after `to_empty(device="cpu")` if it was made on the meta
        device. Parameters may be DTensors (FSDP2, tensor parallelism): each process fills what it
        holds, with no communication.
    scheme : str, default "auto"
        A name in `fanin.schemes.SCHEMES`, with options or without: `gpt2(qk_scale=0.5)`. `auto` is
        what transformers does for its models, and what the layers' own `reset_parameters` do
        elsewhere.
    seed : int, default 0
        From 0 to 2**64 - 1.
    overrides : mapping or iterable of (pattern, initializer), optional
        Shell-style globs over names of parameters and of their parts (`*.in_proj_weight#query`).
        The last that matches decides.
    only, skip : str or iterable of str, optional
        Globs over names. What `only` does not match, or `skip` matches, is not touched; nor is a
        parameter or buffer whose attribute `_is_hf_initialized` is true, which is how transformers
        marks what it has loaded (set it on your own tensors to keep them).
    threads : int, optional
        Default: the environment's number, or the CPUs there are.

    Returns
    -------
    Report
        A row for every parameter and buffer. Tied parameters are filled once. Buffers that the
        module can compute (rotary frequencies, running statistics) are; others are `left`. A module
        without parameters is left as it is.

    Raises
    ------
    InitializationError
        It lists parameters that no rule covers, tensors that the config describes and the module
        lacks, and parameters that overlap.
    ValueError
        An unknown scheme, a pattern that matches nothing, a tensor that cannot be filled: on the
        meta device, of integers or complex numbers, expanded, made in inference mode, sparse, with
        a pending sum (`Partial`).
    TypeError
        `module` is not a module; `overrides`, `only` or `skip` are not what is said above.

    Nothing has been written when an error is raised.

    Examples
    --------
    >>> import torch
    >>> from fanin.torch import initialize_
    >>> with torch.device("meta"):
    ...     model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3))
    >>> print(initialize_(model.to_empty(device="cpu"), "bert", seed=1))
    name      kind       shape  dtype    action
    --------  ---------  -----  -------  ------  ----------------
    0.weight  parameter  3 x 4  float32  filled  normal(std=0.02)
    0.bias    parameter  3      float32  filled  zeros
    1.weight  parameter  3      float32  filled  ones
    1.bias    parameter  3      float32  filled  zeros
    Sequential, scheme bert, seed 1: 4 filled
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, got {type(module).__name__}")
    seed = check_seed(seed)
    threads = thread_count(threads)  # once: it reads the container's quota
    chosen = override_pairs(overrides)

    inventory = take_inventory(module)
    kept = kept_tensors(inventory, only, skip)
    parameters, buffers = (
        {name: held for name, held in tensors.items() if name not in kept}
        for tensors in (inventory.parameters, inventory.buffers)
    )
    check_overrides((pattern for pattern, _ in chosen), inventory, kept)
    check_tensors(parameters.values(), buffers.values())
    description = describe_module(inventory, {*parameters, *buffers}, seed)
    plan = _plan(description, scheme, seed, chosen)
    entries = _entries(plan, {**parameters, **buffers}, description.copies)

    with torch.no_grad():
        for name, entry in entries.items():
            _fill((parameters.get(name) or buffers[name]).tensor, entry, seed, threads)
        rest = {name: held for name, held in buffers.items() if name not in entries}
        recomputed = _recompute(rest, description.buffers)
    rows = _rows(inventory, entries, description, kept, recomputed)
    found = diagnose.findings(plan, read_overrides(chosen, plan.model))
    return Report(
        module=plan.model.architecture,
        scheme=plan.scheme,
        seed=seed,
        rows=tuple(rows),
        notes=tuple(plan.notes),
        learning_rates=plan.learning_rates,
        warnings=tuple(each for each in found if each.level == "warning"),
    )


def _plan(
    description: Description,
    scheme: str,
    seed: int,
    overrides: list[tuple[str, str | Initializer]],
) -> Plan:
    """Make the plan; where parts have no rule, an error that lists all of them."""
    model = description.model
    rules, read = schemes.rules(scheme, model), read_overrides(overrides, model)
    unmatched = [
        tensor.name
        for tensor in model.tensors
        if not all(overriding(read, tensor, p) or initializer_of(rules, p) for p in tensor.parts)
    ]
    if unmatched:
        raise InitializationError(f"{model.architecture}, scheme {scheme!r}", unmatched=unmatched)
    return make_plan(model, scheme=scheme, seed=seed, dtype="float32", overrides=overrides)


def _entries(
    plan: Plan, tensors: Mapping[str, Held], copies: Mapping[str, str]
) -> dict[str, Entry]:
    """The plan's entry of each tensor to fill, in the tensor's own dtype."""
    planned = {entry.tensor.name: entry for entry in plan.entries}
    entries = {
        name: replace(planned[stored], dtype=dtype_name(held.tensor.dtype))
        for name, held in tensors.items()
        if (stored := copies.get(name, name)) in planned
    }
    check_draws(list({entry.tensor.name: entry for entry in entries.values()}.values()), plan.seed)
    for name in copies.keys() & tensors.keys():
        warnings.warn(
            f"{name} is tied to {copies[name]} in the config, but has memory of its own (to_empty"
            " unties): it gets the same values; call tie_weights() to tie them",
            UserWarning,
            stacklevel=4,
        )
    return entries


def _fill(tensor: torch.Tensor, entry: Entry, seed: int, threads: int) -> None:
    local = local_tensor(tensor)
    for box, places in local_boxes(tensor):
        entry.fill(local[places], seed=seed, box=box, threads=threads)
    if is_sharded(tensor):  # the shard counts its own changes
        torch.autograd.graph.increment_version(tensor)


def _recompute(buffers: Mapping[str, Held], computed: Mapping[str, torch.Tensor]) -> set[str]:
    """Fill the buffers whose values are known; return their names."""
    done = set()
    for name, held in buffers.items():
        if (values := buffer_values(held, computed)) is not None:
            held.tensor.copy_(values)
            done.add(name)
    return done


def _rows(
    inventory: Inventory,
    entries: Mapping[str, Entry],
    description: Description,
    kept: Mapping[str, str],
    recomputed: set[str],
) -> list[Row]:
    """One row for every name in the module's order, and one for each further name of a tensor."""
    rows = []
    for kind, tensors in (("parameter", inventory.parameters), ("buffer", inventory.buffers)):
        for name, held in tensors.items():
            if name in kept:
                action, detail = "kept", kept[name]
            elif name in recomputed or (name in entries and _is_computed(entries[name])):
                action, detail = "recomputed", f"by {type(held.module).__name__}"
            elif name in entries:
                action, detail = "filled", entries[name].initializer
                if name in description.copies:
                    detail += f", as {description.copies[name]}"
            elif kind == "parameter":
                action, detail = "kept", "no elements"
            else:
                action, detail = "left", "" if held.persistent else "not saved in checkpoints"
            shape, dtype = tuple(held.tensor.shape), str(held.tensor.dtype).removeprefix("torch.")
            rows.append(Row(name, kind, shape, dtype, action, detail))
            rows += [Row(alias, kind, shape, dtype, "tied", f"to {name}") for alias in held.aliases]
    return rows


def _is_computed(entry: Entry) -> bool:
    return all(isinstance(initializer, Values) for initializer in entry.initializers)
