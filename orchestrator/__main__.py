"""`python -m orchestrator` is `smoothsweep`: what `ray job submit --working-dir .` runs without installing us."""

import sys

from orchestrator.cli import main

sys.exit(main())
