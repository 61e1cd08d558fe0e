"""``python -m locust_realism.cli`` is ``locust-realism``."""

import sys

from locust_realism.cli import main

if __name__ == "__main__":
    sys.exit(main())
