"""`python -m top_erl.cli`."""

import sys

from top_erl.cli.command import main

sys.exit(main())
