"""`python -m pinfold`."""

import sys

from pinfold.cli import main

sys.exit(main())
