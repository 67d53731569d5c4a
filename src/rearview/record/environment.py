"""What the run ran in: interpreter, machine, packages, threads. Reads only what is loaded; imports nothing, starts nothing."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from typing import Any

_VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY", "KMP_AFFINITY", "CUDA_VISIBLE_DEVICES",
    "CUBLAS_WORKSPACE_CONFIG", "PYTHONHASHSEED", "PYTHONPATH",
    "TF_DETERMINISTIC_OPS", "XLA_FLAGS", "JAX_PLATFORMS", "VIRTUAL_ENV", "CONDA_DEFAULT_ENV",
)  # fmt: skip
"""Variables that change bits or say where packages come from. No others are kept: environments hold secrets."""


def at_start(environ: Mapping[str, str]) -> dict[str, Any]:
    """What can be known when the run begins."""
    return {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "executable": sys.executable,
        "flags": {name: getattr(sys.flags, name) for name in ("optimize", "hash_randomization", "utf8_mode", "dev_mode")},
        "platform": sys.platform,
        "release": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "variables": {name: environ[name] for name in _VARIABLES if name in environ},
        "packages": packages(),
    }


def packages() -> dict[str, str]:
    """Loaded top-level packages that say their version."""
    found = {}
    for name, module in list(sys.modules.items()):
        if "." in name or name.startswith("_") or module is None or name in sys.stdlib_module_names:
            continue
        version = getattr(module, "__dict__", {}).get("__version__")
        if isinstance(version, str) and name != "__main__":
            found[name] = str(version)
    return dict(sorted(found.items()))


def at_end() -> dict[str, Any]:
    """What is loaded by the end: packages imported on the way, thread counts, devices."""
    facts: dict[str, Any] = {"packages": packages()}
    torch = sys.modules.get("torch")
    if torch is not None:
        try:
            facts["torch"] = _torch(torch)
        except (AttributeError, RuntimeError, TypeError):
            pass  # a torch that is half imported, or something else of that name
    return facts


def _torch(torch: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cuda": torch.version.cuda,
    }
    if torch.cuda.is_initialized():  # asking for devices would initialise it
        facts["devices"] = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    return facts


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


def streams(python_random: Any) -> dict[str, Any]:
    """The first state of each random stream, as far as it can be told."""
    facts: dict[str, Any] = {"python": python_random}
    numpy_random = sys.modules.get("numpy.random.mtrand")
    if numpy_random is not None:
        try:
            facts["numpy"] = _numpy_entropy(numpy_random)
        except (AttributeError, TypeError, ValueError):
            pass
    torch = sys.modules.get("torch")
    if torch is not None:
        try:
            facts["torch"] = int(torch.initial_seed())
        except (AttributeError, RuntimeError, TypeError):
            pass
    return facts


def _numpy_entropy(mtrand: Any) -> dict[str, Any]:
    """NumPy's global stream is seeded from entropy that it still knows: its first state follows from that."""
    sequence = mtrand._rand._bit_generator.seed_seq
    return {"entropy": int(sequence.entropy), "spawn_key": [int(k) for k in sequence.spawn_key], "pool_size": int(sequence.pool_size)}
