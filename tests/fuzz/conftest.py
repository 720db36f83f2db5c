"""Let the tests here import ``valid_calls``, ``valid_methods`` and ``valid_below``: tables."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore = ["fuzz_files.py"]  # a program, which needs atheris
