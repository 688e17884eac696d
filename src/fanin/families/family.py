"""What a family declares, and how a config becomes a `Model`.

A family is one file: the fields of its `model_type`s with their defaults, the tensors of each
architecture as a function of the fields, which names are tied to which, and the rules of its own
published initialization. Everything else, from reading fields to leaving out tied tensors, is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fanin.arguments import unknown
from fanin.families.fields import Config, Field, flag, number, read, refuse
from fanin.model import Model, Tensor
from fanin.output import dtype_name
from fanin.rules import Rules

__all__ = ["COMMON", "Family", "config_dtype"]

OTHERS = 'for those that transformers knows: pip install "fanin[hf]"'
"""What an error about an unknown model adds."""

COMMON: Mapping[str, Field] = {
    "initializer_range": number(0.02),
    "tie_word_embeddings": flag(False),
}
"""Fields that nearly every model_type has."""


@dataclass(frozen=True)
class Family:
    """The models of one `model_type`."""

    name: str  # the module's
    model_type: str
    fields: Mapping[str, Field]  # declares hidden_size, num_hidden_layers, hidden_act
    architectures: Mapping[str, Callable[[Config], Iterator[Tensor]]]  # the first is the default
    # Alias -> stored name, where tie_word_embeddings is true; or what is tied, as the fields say.
    tied: Mapping[str, str] | Callable[[Config], Mapping[str, str]]
    auto: Callable[[Config], Rules]  # what the architecture's own code does
    check: Callable[[Config], None]  # refuses fields that do not go together
    # From stored names to the module's, where they differ: a table of them, or a function of any.
    module_names: Mapping[str, str] | Callable[[str], str] = field(default_factory=dict)

    def build(self, raw: dict[str, Any], source: str = "config.json") -> Model:
        """Return the model that a config describes; ValueError, naming `source`, if it cannot."""
        architecture = self._architecture(raw, source)
        config = read(raw, self.fields, source)
        self.check(config)
        if raw.get("per_layer_config"):
            refuse(source, "per_layer_config", raw["per_layer_config"], "is not supported")
        tensors = list(self.architectures[architecture](config))
        names = {tensor.name for tensor in tensors}
        tied = {alias: stored for alias, stored in self._tied(config).items() if alias in names}
        return Model(
            family=self.name,
            model_type=self.model_type,
            architecture=architecture,
            config=config.plain(),
            tensors=tuple(tensor for tensor in tensors if tensor.name not in tied),
            num_layers=config.num_hidden_layers,
            hidden_size=config.hidden_size,
            dtype=config_dtype(raw, source),
            activation=config.hidden_act,
            tied=tied,
            auto=self.auto(config),
            raw=raw,
            module_names=self._module_names(names, tensors),
        )

    def _tied(self, config: Config) -> Mapping[str, str]:
        if callable(self.tied):
            return self.tied(config)
        return self.tied if config.tie_word_embeddings else {}

    def _module_names(self, names: Iterable[str], tensors: Iterable[Tensor]) -> dict[str, str]:
        own = self.module_names
        names = {*names, *(part.name for tensor in tensors for part in tensor.parts)}
        pairs = ((name, own(name) if callable(own) else own.get(name, name)) for name in names)
        return {name: renamed for name, renamed in pairs if renamed != name}

    def knows(self, raw: Mapping[str, Any]) -> bool:
        """False for a config of an architecture that the family does not have."""
        given = raw.get("architectures")
        if not isinstance(given, list) or not given or not isinstance(given[0], str):
            return True  # or it is refused
        return given[0] in self.architectures

    def _architecture(self, raw: dict[str, Any], source: str) -> str:
        given = raw.get("architectures")
        if given is None or given == []:
            return next(iter(self.architectures))
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            refuse(source, "architectures", given, "must be a list of class names")
        if given[0] not in self.architectures:
            raise ValueError(
                f"{source}: {unknown('architecture', given[0], self.architectures)}"
                f" for model_type {self.model_type!r} ({OTHERS})"
            )
        return str(given[0])


def config_dtype(raw: Mapping[str, Any], source: str) -> str:
    """The dtype that a config asks for; new files say `dtype`, older ones `torch_dtype`."""
    field = "torch_dtype" if raw.get("dtype") is None else "dtype"
    value = raw.get(field)
    if value is None:
        return "float32"
    if not isinstance(value, str):
        refuse(source, field, value, "must be the name of a dtype")
    try:
        return dtype_name(value)
    except ValueError as error:
        raise ValueError(f"{source}: {field}: {error}") from None
