"""Models that no family of fanin describes, as transformers builds them from their config.

The module is built on the meta device: it has names and shapes, and no weights. What its parameters
are, `describe_module` says, as it does for `fanin.torch.initialize_`; what its files look like,
`stored_form`. Buffers that files hold are tensors too, with the values that the module gives them.
Only code of transformers itself is run, nothing is fetched.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, TypeVar

import torch
from torch import nn

from fanin import families
from fanin.arguments import unknown
from fanin.families.family import config_dtype
from fanin.families.fields import refuse
from fanin.initializers import Initializer
from fanin.model import PADDING, UNKNOWN, Model, Part, Tensor
from fanin.rules import Rule, Rules, initializer_of
from fanin.torch.description import Description, buffer_values, describe_module, given_values
from fanin.torch.inventory import Held, Inventory, take_inventory
from fanin.torch.layers import Described, unknown_parameter
from fanin.torch.places import with_role
from fanin.torch.stored_form import in_files

__all__ = ["model_of_config"]

T = TypeVar("T")

MAX_BUFFERS = 2**30  # bytes of buffers that are made, for what the module computes of them

_OTHER_LAYOUT = (
    "transformers rearranges tensors of {} in its files in a way that fanin does not follow: these"
    " have the layout of the module (save_original_format=False), which from_pretrained reads too"
)

_NOT_FOR_IT = (
    "architectures",
    "attn_implementation",
    "_attn_implementation",
    "auto_map",
    "dtype",
    "model_type",
    "quantization_config",
    "torch_dtype",
    "transformers_version",
)
"""Keys of a config that say nothing of the tensors, or would have other code or kernels loaded."""


def model_of_config(raw: Mapping[str, Any], source: str = "config.json") -> Model:
    """Return the model of a config that transformers knows.

    Parameters
    ----------
    raw : mapping
        The config as JSON gives it, with a `model_type`. `architectures` names the class; without
        it, it is the one that is pretrained, or the base model.
    source : str
        Where it came from, for error messages.

    Raises
    ------
    ValueError
        transformers does not know the model type or the architecture, or cannot build it.
    """
    module = _build(raw, source, torch.float32)
    inventory = _with_buffers(module)
    description = describe_module(inventory, inventory.parameters, seed=0)
    tensors = {tensor.name: tensor for tensor in description.model.tensors}
    drawn = _drawn(description, inventory)  # values of a seed, which no config has
    for name, tensor in tensors.items():
        if any(part.name in drawn for part in tensor.parts):
            tensors[name] = with_role(tensor, UNKNOWN)
    values: dict[str, Initializer | None] = dict.fromkeys(drawn)
    for held in inventory.buffers.values():
        if held.persistent and held.tensor.numel() > 0:
            tensors[held.name], values[held.name] = _buffer(held, description.buffers)
    _pin_dtypes(tensors, module, _build(raw, source, torch.bfloat16))
    views = description.views
    stored = list(tensors.values()) if views is None else in_files(tensors, views)
    notes = (_OTHER_LAYOUT.format(type(module).__name__),) if views is None else ()
    config = module.config.get_text_config()
    return Model(
        family="transformers",
        model_type=str(raw["model_type"]),
        architecture=type(module).__name__,
        config={},
        tensors=tuple(stored),
        num_layers=_field(config, int, 1, "num_hidden_layers", "num_layers", "n_layer"),
        hidden_size=_field(config, int, 1, "hidden_size", "d_model", "n_embd"),
        activation=_field(config, str, "relu", "hidden_act", "hidden_activation", "activation"),
        dtype=config_dtype(raw, source),
        tied=description.model.tied,
        auto=_rules(description.model.auto, values, stored),
        raw=dict(raw),
        notes=notes,
    )


def _build(raw: Mapping[str, Any], source: str, dtype: torch.dtype) -> Any:
    """Return the module on the meta device; ValueError if transformers refuses the config."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    model_type = raw["model_type"]
    if model_type not in CONFIG_MAPPING:
        near = get_close_matches(model_type, {*families.FAMILIES, *CONFIG_MAPPING.keys()}, 1, 0.0)
        raise ValueError(
            f"{source}: unknown model_type {model_type!r}; did you mean {near[0]!r}? Neither fanin"
            f" nor transformers {transformers.__version__} knows it, and no other code is run"
        )
    with _quiet(), _refusals(source, "transformers refuses this config"):
        fields = {key: value for key, value in raw.items() if key not in _NOT_FOR_IT}
        config = CONFIG_MAPPING[model_type].from_dict(fields)
    cls = _class(raw, source, config)
    # A few old models make weights in memory all the same, and draw them: XLNet's.
    with (
        _quiet(),
        _refusals(source, f"transformers cannot build {cls.__name__} of it"),
        torch.random.fork_rng(devices=[]),
        torch.device("meta"),
    ):
        return cls._from_config(config, dtype=dtype)


def _class(raw: Mapping[str, Any], source: str, config: Any) -> Any:
    """The class that a config names, or the one that transformers pretrains with such a config."""
    import transformers
    from transformers.models.auto import modeling_auto as auto

    given = raw.get("architectures")
    if given is None or given == []:
        for mapping in (
            auto.MODEL_FOR_PRETRAINING_MAPPING,
            auto.MODEL_FOR_CAUSAL_LM_MAPPING,
            auto.MODEL_MAPPING,
        ):
            if type(config) in mapping:
                found = mapping[type(config)]
                return found[0] if isinstance(found, tuple) else found
        refuse(source, "architectures", given, "must name a class of transformers")
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        refuse(source, "architectures", given, "must be a list of class names")
    cls = getattr(transformers, given[0], None)
    if not isinstance(cls, type) or not issubclass(cls, transformers.PreTrainedModel):
        names = [name for name in dir(transformers) if _is_of(name, config)]
        raise ValueError(f"{source}: {unknown('architecture', given[0], names or ['none'])}")
    if not isinstance(config, getattr(cls, "config_class", None) or ()):
        refuse(source, "architectures", given, f"is not of model_type {config.model_type!r}")
    return cls


def _is_of(name: str, config: Any) -> bool:
    """True for the name of a class that may belong to a config: BertModel, BertForMaskedLM."""
    prefix = type(config).__name__.removesuffix("Config")
    return name.startswith(prefix) and bool(re.match("Model|For|LMHead", name[len(prefix) :]))


def _with_buffers(module: nn.Module) -> Inventory:
    """Give the buffers memory, for the module to compute them, and say what it holds."""
    inventory = take_inventory(module)
    room = MAX_BUFFERS
    for held in inventory.buffers.values():
        room -= held.tensor.nbytes
        if held.tensor.is_meta and room > 0:
            memory = torch.zeros_like(held.tensor, device="cpu")
            for name in (held.name, *held.aliases):
                path, _, attribute = name.rpartition(".")
                inventory.modules[path]._buffers[attribute] = memory
    return take_inventory(module)


def _drawn(description: Description, inventory: Inventory) -> set[str]:
    """The parts whose values are others with another seed."""
    suspects = description.drawn & {tensor.name for tensor in description.model.tensors}
    if not suspects:
        return set()
    again = describe_module(inventory, suspects, seed=1)
    return {
        part.name
        for tensor in again.model.tensors
        for part in tensor.parts
        if initializer_of(again.model.auto, part) != initializer_of(description.model.auto, part)
    }


def _buffer(held: Held, computed: Mapping[str, torch.Tensor]) -> Described:
    shape = tuple(held.tensor.shape)
    values = buffer_values(held, computed)
    if values is None:
        tensor, start = unknown_parameter(held.name, shape), None
    else:
        tensor, start = given_values(held.name, values, shape)
    own = None if held.tensor.is_floating_point() else _dtype(held.tensor)
    return replace(tensor, buffer=True, dtype=own), start


def _pin_dtypes(tensors: dict[str, Tensor], module: Any, narrow: nn.Module) -> None:
    """Say which tensors do not take the checkpoint's dtype.

    Those that are float32 in a module of bfloat16 too, and those that transformers keeps wide
    when it loads a model.
    """
    own = {
        held.name: _dtype(held.tensor)
        for tensors in (take_inventory(narrow).parameters, take_inventory(narrow).buffers)
        for held in tensors.values()
    }
    always, in_float16 = (
        re.compile("|".join(pattern.replace("*", ".*") for pattern in sorted(patterns)) or "(?!)")
        for patterns in (module._keep_in_fp32_modules_strict, module._keep_in_fp32_modules)
    )
    for name, tensor in tensors.items():
        if own.get(name, "bfloat16") != "bfloat16":
            tensors[name] = replace(tensor, dtype=own[name])
        elif always.search(name):
            tensors[name] = replace(tensor, dtype="float32")
        elif in_float16.search(name):
            tensors[name] = replace(tensor, wide=True)


def _rules(
    own: Rules, values: Mapping[str, Initializer | None], tensors: list[Tensor]
) -> dict[str, Rule]:
    """The module's rules, those of its buffers, and none for what torch would have to draw."""

    def rule(part: Part) -> Initializer | None:
        if part.name in values:
            return values[part.name]
        return initializer_of(own, part)

    roles = {part.role for tensor in tensors for part in tensor.parts}
    return {**dict.fromkeys(roles, rule), PADDING: own[PADDING]}


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _field(config: Any, kind: type[T], default: T, *names: str) -> T:
    values = (getattr(config, name, None) for name in names)
    return next((value for value in values if isinstance(value, kind)), default)


@contextmanager
def _refusals(source: str, what: str) -> Iterator[None]:
    """Turn whatever transformers raises into one line."""
    try:
        yield
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ValueError(f"{source}: {what}: {' '.join(lines) or type(error).__name__}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the warnings and logs of transformers off the terminal."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
