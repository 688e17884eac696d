"""PyTorch: the functions of `torch.nn.init`, and faster models without changing a line.

`import fanin.torch` loads torch; `import fanin` does not.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401  (asked for first, so that the error says what to install)
except ImportError as error:
    raise ImportError(f'fanin.torch needs PyTorch ({error}): pip install "fanin[torch]"') from error

from fanin.torch import init as init
from fanin.torch.acceleration import accelerate as accelerate
from fanin.torch.init import *  # noqa: F403  (the names of torch.nn.init)
from fanin.torch.initialize import initialize_ as initialize_
from fanin.torch.report import InitializationError as InitializationError
from fanin.torch.report import Report as Report
