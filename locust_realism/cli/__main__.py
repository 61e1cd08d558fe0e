"""``python -m locust_realism.cli`` is ``locust-realism``."""

import sys

from locust_realism.cli import main

sys.exit(main())
