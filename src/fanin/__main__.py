"""`python -m fanin` is the command `fanin`."""

import sys

from fanin.cli import main

sys.exit(main())
