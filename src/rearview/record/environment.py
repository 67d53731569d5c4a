"""What the run ran in: interpreter, machine, packages, threads. Reads only what is loaded; imports nothing, starts nothing."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from typing import Any

VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY", "KMP_AFFINITY", "CUDA_VISIBLE_DEVICES",
    "OMP_DYNAMIC", "OMP_SCHEDULE", "MKL_DYNAMIC", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA", "OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "NVIDIA_TF32_OVERRIDE", "TORCHDYNAMO_DISABLE",
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
        "usable_cores": _usable_cores(),
        "variables": {name: environ[name] for name in VARIABLES if name in environ},
        "packages": packages(),
    }


def _usable_cores() -> int | None:
    """How many cores this process may use: how many threads libraries start by default."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


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
    torch = torch_now()
    if torch is not None:
        facts["torch"] = torch
    return facts


def peak_bytes() -> int | None:
    """The most memory that this process has had; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def torch_now() -> dict[str, Any] | None:
    """How torch computes: threads, devices, what was asked of it; None if it is not loaded."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    try:
        return _torch(torch)
    except (AttributeError, RuntimeError, TypeError):
        return None  # a torch that is half imported, or something else of that name


ESSENTIAL = ("torch", "numpy", "tensorflow", "jax", "jaxlib")
"""Packages whose version changes numbers."""


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What may give other numbers than it gave then, a sentence each. Only what both sides know is compared."""
    said = []
    for name, what in (("python", "Python"), ("implementation", "the interpreter"), ("machine", "the machine"), ("cpu", "the processor")):
        if then.get(name) and now.get(name) and then[name] != now[name]:
            said.append(f"{what} was {then[name]} and is {now[name]}")
    cores = "usable_cores" if "usable_cores" in then else "cores"
    if then.get(cores) and now.get(cores) and then[cores] != now[cores]:
        said.append(f"{then[cores]} cores could be used and now {now[cores]}: libraries start as many threads, unless told otherwise")
    for name in ESSENTIAL:
        before, after = (side.get("packages", {}).get(name) for side in (then, now))
        if before and before != after:
            said.append(f"{name} was {before} and is {after}" if after else f"{name} {before} is not installed here")
    for name, what in (("threads", "torch's number of threads"), ("cpu_capability", "the processor's capability as torch uses it")):
        before, after = ((side.get("torch") or {}).get(name) for side in (then, now))
        if before and after and before != after:
            said.append(f"{what} was {before} and is {after}")
    return said


def _torch(torch: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "mkldnn": bool(torch.backends.mkldnn.enabled),
        "cudnn_benchmark": bool(torch.backends.cudnn.benchmark),
        "cudnn_deterministic": bool(torch.backends.cudnn.deterministic),
        "compiled": "torch._inductor.compile_fx" in sys.modules,
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
    numpy = numpy_stream()
    if numpy is not None:
        facts["numpy"] = numpy
    torch = sys.modules.get("torch")
    if torch is not None:
        try:
            facts["torch"] = int(torch.initial_seed())
        except (AttributeError, RuntimeError, TypeError):
            pass
    return facts


def numpy_stream() -> dict[str, Any] | None:
    """NumPy's global stream is seeded from entropy that it still knows: its first state follows from that. None if it is not there."""
    mtrand = sys.modules.get("numpy.random.mtrand")
    if mtrand is None:
        return None
    try:
        sequence = mtrand._rand._bit_generator.seed_seq
        return {"entropy": int(sequence.entropy), "spawn_key": [int(k) for k in sequence.spawn_key], "pool_size": int(sequence.pool_size)}
    except (AttributeError, TypeError, ValueError):
        return None  # hardly imported yet, or seeded by the program
