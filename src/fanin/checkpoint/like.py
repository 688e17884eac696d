"""A model from a checkpoint that is there: names, shapes and dtypes, of which headers are read.

What the tensors are, the `config.json` beside them says, through a family or through transformers;
of those that it does not explain, their names. A tensor of which neither says anything needs an
initializer from the user, and an error lists them all.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fanin import config as configs
from fanin.checkpoint.files import CONFIG, INDEX
from fanin.checkpoint.safetensors_header import BITS, read_header
from fanin.checkpoint.safetensors_layout import DTYPE_CODES
from fanin.families.family import config_dtype
from fanin.initializers import Constant, Initializer
from fanin.initializers.values import Values
from fanin.model import VALUES, Model, Part, Tensor
from fanin.names import named_tensor
from fanin.output import ITEMSIZE
from fanin.rules import IDENTITY, Rule, Rules, initializer_of, normal_weights

__all__ = ["model_like"]

MAX_INDEX = 2**28  # bytes; that of a million tensors has a hundredth

_NAMES = {code: dtype for dtype, code in DTYPE_CODES.items()}


@dataclass(frozen=True)
class Stored:
    """A tensor as a header has it."""

    dtype: str
    shape: tuple[int, ...]
    num_bytes: int


def model_like(path: str | os.PathLike[str]) -> Model:
    """Return the model whose checkpoint has the tensors of an existing one.

    Parameters
    ----------
    path : str or os.PathLike
        A folder with safetensors files, or one such file. A `config.json` beside them is used.

    Returns
    -------
    Model
        Its tensors have the dtypes of the files. Those of the dtype that most is stored in (or that
        the config names, if one of them has it) follow another one that a plan asks for.

    Raises
    ------
    ValueError
        There are no such files, a header is not valid, a tensor is in two files, or the index names
        another set of tensors; a dtype is none that fanin writes.

    Examples
    --------
    >>> import tempfile
    >>> from fanin import families
    >>> from fanin.checkpoint import write
    >>> from fanin.plan import make_plan
    >>> config = {"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "vocab_size": 9}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write(make_plan(families.build(config), dtype="float16"), folder)
    ...     model = model_like(folder)
    >>> model.architecture, model.dtype, len(model.tensors)
    ('GPT2LMHeadModel', 'float16', 16)
    """
    given = Path(path)
    if not given.exists():
        raise ValueError(f"{given}: no such file or folder")
    folder = given if given.is_dir() else given.parent
    stored = _stored(_files(given))
    raw = configs.load(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    known, notes = _explained(raw, folder / CONFIG, stored)
    return _model(stored, raw, known, notes + _not_copied(folder), str(folder / CONFIG))


def _files(path: Path) -> list[Path]:
    """The files of weights: those of the index, or those that Hugging Face's names give."""
    if not path.is_dir():
        return [path]
    if (path / INDEX).is_file():
        return [path / name for name in dict.fromkeys(_weight_map(path / INDEX).values())]
    names = sorted(each.name for each in path.glob("*.safetensors"))
    chosen = [name for name in names if name.startswith("model")] or names
    if not chosen:
        raise ValueError(f"{path}: the folder has no safetensors files")
    return [path / name for name in chosen]


def _weight_map(path: Path) -> dict[str, str]:
    with path.open("rb") as file:
        text = file.read(MAX_INDEX + 1)
    try:
        if len(text) > MAX_INDEX:
            raise ValueError(f"larger than {MAX_INDEX} bytes")
        content = json.loads(text.decode())
        homes = content["weight_map"] if isinstance(content, dict) else None
    except RecursionError:
        raise ValueError(f"{path}: not an index: nested too deeply") from None
    except KeyError:
        raise ValueError(f"{path}: not an index: it has no weight_map") from None
    except ValueError as error:
        raise ValueError(f"{path}: not an index: {error}") from None
    if not isinstance(homes, dict) or not homes:
        raise ValueError(f"{path}: not an index: its weight_map is no object with tensors")
    for name, home in homes.items():
        if not isinstance(home, str) or Path(home).name != home or home in ("", ".", ".."):
            raise ValueError(f"{path}: {name!r} is in {configs.quote(home)}, not a file beside it")
        if not (path.parent / home).is_file():
            raise ValueError(f"{path}: {name!r} is in {home}, which is not there")
    return homes


def _stored(files: list[Path]) -> dict[str, Stored]:
    stored: dict[str, Stored] = {}
    homes: dict[str, Path] = {}
    for path in files:
        for name, info in read_header(path).items():
            if name == "__metadata__":
                continue
            if name in homes:
                raise ValueError(f"{name!r} is in two files, {homes[name]} and {path}")
            code, (begin, end) = info["dtype"], info["data_offsets"]
            if code not in _NAMES:
                raise ValueError(
                    f"{path}: tensor {name!r} has the dtype {code} ({BITS[code]} bits), which fanin"
                    f" does not write; it writes {', '.join(_NAMES)}"
                )
            homes[name] = path
            stored[name] = Stored(_NAMES[code], tuple(info["shape"]), end - begin)
    index = files[0].parent / INDEX
    if len(files) > 1 and index.is_file() and (other := _weight_map(index).keys() ^ stored.keys()):
        raise ValueError(f"{index}: {min(other)!r} is either only here or only in the files")
    if not stored:
        raise ValueError(f"{files[0]}: there are no tensors")
    return stored


def _explained(
    raw: dict[str, Any], path: Path, stored: Mapping[str, Stored]
) -> tuple[Model | None, tuple[str, ...]]:
    """The model that the config describes, if anybody knows it.

    Of a family's architectures it is the one that explains the most: files may be of the bare model
    although the config names one with a head, as those of GPT-2.
    """
    from fanin import families

    if not raw:
        return None, (f"there is no {path}: roles are told by names, and auto is N(0, 0.02^2)",)

    def explained(model: Model) -> int:
        return sum(tensor.name in stored for tensor in model.tensors)

    try:
        model = families.build(raw, source=str(path))
    except ValueError as error:
        return None, (f"roles are told by names, and auto is N(0, 0.02^2): {error}",)
    if explained(model) == len(model.tensors) or model.model_type not in families.FAMILIES:
        return model, ()
    names = families.FAMILIES[model.model_type].architectures
    others = [families.build({**raw, "architectures": [name]}, str(path)) for name in names]
    return max((model, *others), key=explained), ()


def _not_copied(folder: Path) -> tuple[str, ...]:
    others = sorted(each.name for each in folder.glob("*token*")) if folder.is_dir() else []
    return (f"not copied: {', '.join(others)}",) if others else ()


def _model(
    stored: Mapping[str, Stored],
    raw: dict[str, Any],
    known: Model | None,
    notes: tuple[str, ...],
    source: str,
) -> Model:
    main = _main_dtype(stored, raw, source)
    explained = {tensor.name: tensor for tensor in known.tensors} if known else {}
    tied = dict(known.tied) if known else {}
    originals: dict[str, Part] = {}  # by the new part's name, what the config's rules know it as
    values: dict[str, Initializer] = {}
    tensors, told = [], []
    for name, each in stored.items():
        original = explained.get(name) or explained.get(tied.get(name, ""))
        tensor = _resized(original, name, each.shape) if original is not None else None
        if tensor is None:
            tensor = named_tensor(name, each.shape, each.dtype)
            told.append(name)
            if tensor.role == VALUES:
                values[name] = _counter(each.shape, name)
        elif original is not None:
            pairs = zip(tensor.parts, original.parts, strict=True)
            originals |= {new.name: old for new, old in pairs}
        own = None if each.dtype == main else each.dtype
        sampled = each.dtype in ITEMSIZE
        buffer = tensor.buffer or not sampled or tensor.role.startswith("scale")
        tensors.append(replace(tensor, dtype=own, wide=False, buffer=buffer))
    ordered = _in_order(tensors, known)
    base = known or Model(
        "like", str(raw.get("model_type", "")), "checkpoint", {}, (), 1, 0, "relu"
    )
    if known is not None and told:
        notes = (*notes, f"the config does not explain {_listed(told)}: told by their names")
    quantization = raw.get("quantization_config")
    plain = all(each.dtype in ITEMSIZE and "float8" not in each.dtype for each in stored.values())
    return replace(
        base,
        tensors=tuple(ordered),
        dtype=main,
        tied={alias: name for alias, name in tied.items() if alias not in stored},
        auto=_rules(known.auto if known else normal_weights(0.02), originals, values, ordered),
        raw=raw,
        module_names={},
        notes=(*base.notes, *notes),
        quantization=None if plain or not isinstance(quantization, dict) else quantization,
        like=True,
    )


def _main_dtype(stored: Mapping[str, Stored], raw: dict[str, Any], source: str) -> str:
    """The config's dtype if tensors have it; else the float that most bytes are in, but float8."""
    sizes: Counter[str] = Counter()
    for each in stored.values():
        if each.dtype in ITEMSIZE:
            sizes[each.dtype] += each.num_bytes
    asked = config_dtype(raw, source) if raw else ""
    if asked in sizes:
        return asked
    return max(
        sizes,
        key=lambda dtype: (not dtype.startswith("float8"), sizes[dtype]),
        default="float32",
    )


def _resized(tensor: Tensor, name: str, shape: tuple[int, ...]) -> Tensor | None:
    """The tensor of a config under another name, or of another size if it is one matrix."""
    if tensor.shape == shape:
        if tensor.name == name:
            return tensor
        own = {part.name for part in tensor.parts}
        keys = {key: name if len(own) == 1 else f"{name}#{key.rpartition('#')[2]}" for key in own}
        parts = tuple(replace(part, name=keys[part.name]) for part in tensor.parts)
        return replace(tensor, name=name, parts=parts)
    (first, *more) = tensor.parts
    if more or len(shape) != len(tensor.shape) or first.extent != first.shape:
        return None
    origin = (0,) * len(shape)
    whole = replace(first, name=name, shape=shape, start=origin, extent=shape)
    return replace(tensor, name=name, shape=shape, parts=(whole,))


def _counter(shape: tuple[int, ...], name: str) -> Initializer:
    """The values of an integer buffer that every library starts alike."""
    import numpy as np

    return Values(np.arange(shape[-1]) if name.endswith("position_ids") else np.array(0))


def _in_order(tensors: list[Tensor], known: Model | None) -> list[Tensor]:
    """The order of the config's model, then by the words and numbers of names.

    So it does not depend on how the tensors are cut into files.
    """
    order = {tensor.name: number for number, tensor in enumerate(known.tensors)} if known else {}

    def place(tensor: Tensor) -> tuple[int, list[tuple[int, str]]]:
        words = tensor.name.split(".")
        numbered = [(int(word), "") if word.isdecimal() else (-1, word) for word in words]
        return order.get(tensor.name, len(order)), numbered

    return sorted(tensors, key=place)


def _rules(
    own: Rules,
    originals: Mapping[str, Part],
    values: Mapping[str, Initializer],
    tensors: list[Tensor],
) -> dict[str, Rule]:
    """The config's rules, for parts that it knows under other names or sizes too."""

    def rule(part: Part) -> Initializer | None:
        if part.name in values:
            return values[part.name]
        known = initializer_of(own, originals.get(part.name, part))
        return known if known is not None else initializer_of(IDENTITY, part)

    roles = {part.role for tensor in tensors for part in tensor.parts}
    return {**dict.fromkeys(sorted(roles), rule), "embedding.padding": Constant(0.0)}


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
