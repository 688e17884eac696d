"""`fanin.torch` without torch says what to install; `fanin` does not need it."""

import subprocess
import sys


def run(code):
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_without_torch_the_error_says_what_to_install():
    text = run(
        "import sys; sys.modules['torch'] = None\n"
        "import fanin; print(fanin.fans((2, 3)))\n"
        "try: import fanin.torch\n"
        "except ImportError as error: print(error)"
    )
    assert text.startswith("(3, 2)\nfanin.torch needs PyTorch")
    assert text.endswith('pip install "fanin[torch]"\n')
