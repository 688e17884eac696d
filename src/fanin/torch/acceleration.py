"""`accelerate`: torch's random fills of CPU tensors by fanin, in whatever code makes them.

Two places are changed, both process-wide, as models are built by threads too:

* `torch.Tensor.normal_` and `uniform_`, set on the class. Whatever fills a tensor ends there, with
  its own checks and warnings before it: `torch.nn.init`, the layers' `reset_parameters`,
  transformers' guarded copies of the functions, timm's own truncation.
* the code of `torch.nn.init.trunc_normal_`, `orthogonal_` and `sparse_`, which would else sample by
  rejection, by a decomposition, a column at a time. The function objects stay, so those who
  imported them earlier have the new ones as well.

Tried and rejected: other functions in `torch.nn.init` (a reference taken before is missed, and
transformers puts its own there and back); a `TorchDispatchMode` (one thread only, and every
operation of a constructor pays for it); kernels registered for `aten::normal_` on the CPU (no way
back to torch's own for the dtypes that fanin does not sample).

What stands there then is in `fanin.torch.replacements`.
"""

from __future__ import annotations

import threading
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any

from torch import Tensor

from fanin.threads import thread_count
from fanin.torch import replacements

__all__ = ["accelerate"]


class accelerate(ContextDecorator):  # noqa: N801  (used like a function, as contextlib.suppress)
    """Let fanin sample what torch fills at random in CPU memory: a context, or a decorator.

    Within it `torch.nn.init.*`, `Tensor.normal_` and `Tensor.uniform_` go through fanin, in all
    threads, whoever calls them and however they were imported. Shapes, dtypes, flags and the
    distributions are torch's; the values are those of `fanin.torch`'s functions, and still follow
    from `torch.manual_seed`. It may be nested; torch is as before at the end, also after an
    exception. `accelerate.install()` does the same until `accelerate.uninstall()`.

    Examples
    --------
    >>> import torch
    >>> import fanin.torch
    >>> with fanin.torch.accelerate():
    ...     model = torch.nn.Linear(1024, 1024)
    >>> @fanin.torch.accelerate()
    ... def build():
    ...     return torch.nn.Linear(1024, 1024)
    >>> build().weight.shape
    torch.Size([1024, 1024])
    """

    def __enter__(self) -> accelerate:
        _switch(uses=1)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _switch(uses=-1)

    @staticmethod
    def install() -> None:
        """Accelerate until `uninstall`. A second call changes nothing."""
        _switch(installed=True)

    @staticmethod
    def uninstall() -> None:
        """End what `install` began; contexts that are open go on. Without it, nothing changes."""
        _switch(installed=False)


_lock = threading.Lock()
_uses = 0
_installed = False
_active = False

# The methods that are set on the class while it is active, and what stood there itself.
_methods: dict[str, tuple[Any, Any]] = {}


def _switch(uses: int = 0, installed: bool | None = None) -> None:
    global _uses, _installed, _active
    if uses > 0 or installed:
        thread_count()  # a bad number in the environment is an error now, not at the first weight
    with _lock:
        _uses += uses
        _installed = _installed if installed is None else installed
        before, _active = _active, _uses > 0 or _installed
        if _active and not before:
            _change()
        elif before and not _active:
            _restore()


def _change() -> None:
    for name in replacements.METHODS:
        method = replacements.method(name, getattr(Tensor, name), lambda: _active)
        _methods[name] = method, Tensor.__dict__.get(name)
        setattr(Tensor, name, method)
    for name, function in replacements.FUNCTIONS.items():
        function.__code__ = replacements.CODES[name]


def _restore() -> None:
    for name, (method, before) in _methods.items():
        if Tensor.__dict__.get(name) is not method:
            continue  # another patch lies over it; when not active, ours only passes calls on
        if before is None:
            delattr(Tensor, name)
        else:
            setattr(Tensor, name, before)
    for name, function in replacements.FUNCTIONS.items():
        function.__code__ = replacements.ORIGINALS[name].__code__
