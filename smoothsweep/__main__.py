"""`python -m smoothsweep` is the command `smoothsweep`."""

import sys

from smoothsweep.orchestrator.__main__ import main

sys.exit(main())
