"""`python -m bench.workloads NAME [MEANS [EPOCHS]]`: train one workload in this process and print what was measured, for a closer look."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from bench.workloads import training

if __name__ == "__main__":
    name, means, epochs = (*sys.argv[1:], *(training.ADAPTIVE, "0")[len(sys.argv) - 2 :])
    with tempfile.TemporaryDirectory(dir=".") as folder:
        print(json.dumps(training.measure(name, means, int(epochs), Path(folder).absolute())))
