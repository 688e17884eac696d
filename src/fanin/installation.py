"""What this installation is: versions, instruction sets, threads.

For bug reports, and for `fanin info`.
"""

from __future__ import annotations

import os
import platform
from importlib import metadata

from fanin import __version__, _core
from fanin.streams import STREAM_VERSION
from fanin.threads import available_cpus, thread_count

__all__ = ["show_config"]


def config() -> dict[str, str | int | list[str]]:
    """The facts that `show_config` prints, ready for JSON."""
    facts: dict[str, str | int | list[str]] = {
        "fanin": __version__,
        "stream_version": STREAM_VERSION,
        "simd": _core.simd(),
        "simd_available": _core.simd_names(),
        "threads": thread_count(),
        "cpus_available": available_cpus(),
        "cpus_installed": os.cpu_count() or 1,
        "machine": platform.machine(),
        "system": platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    for package in ("numpy", "ml_dtypes", "torch", "jax", "transformers"):
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            facts[package] = "not installed"
    return facts


def show_config() -> None:
    """Print versions, instruction sets and threads of this installation.

    Examples
    --------
    >>> import fanin
    >>> fanin.show_config()  # doctest: +ELLIPSIS
    fanin            ...
    stream_version   1
    simd             ...
    """
    for fact, value in config().items():
        print(f"{fact:<16} {' '.join(value) if isinstance(value, list) else value}")
