"""Let the tests here import ``valid_calls`` and ``valid_methods``, the tables they share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore = ["fuzz_files.py"]  # a program, which needs atheris
