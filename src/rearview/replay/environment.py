"""What differs between where a run was recorded and where it is replayed, and whether its bits can still be expected.

Pure, but for `here`, which looks at this machine. Only what both sides know is compared. What a worker is given (`threads_for`)
keeps the recorded number of threads, because it changes bits.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rearview.record import environment as noted

NUMERIC = frozenset((
    *noted.ESSENTIAL, "torchvision", "torchaudio", "torchtext", "scipy", "sklearn", "keras", "flax", "optax", "transformers", "accelerate",
    "timm", "lightning", "pytorch_lightning", "cv2", "PIL", "albumentations", "numba", "cupy", "triton", "xgboost", "lightgbm",
))  # fmt: skip
"""Packages whose version can change numbers."""
_PLACES = frozenset(("PYTHONPATH", "VIRTUAL_ENV", "CONDA_DEFAULT_ENV", "CUDA_VISIBLE_DEVICES"))
"""Variables that say where things are: what they lead to is compared, not they."""
_GIVEN = frozenset(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_WAIT_POLICY", "PYTHONHASHSEED"))
"""Variables that a worker is given as recorded. How a thread waits changes no bit."""
_TORCH = {
    "cpu_capability": "the processor's capability as torch uses it",
    "deterministic": "whether torch is held to deterministic algorithms",
    "matmul_precision": "torch's precision of matrix products",
    "mkldnn": "whether torch uses oneDNN",
    "cudnn_benchmark": "whether cuDNN chooses by trying",
    "cudnn_deterministic": "whether cuDNN is deterministic",
    "cuda": "the CUDA version of torch",
    "compiled": "whether torch compiled anything",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it was."""

    what: str
    recorded: object
    now: object
    exact: bool
    """Whether bits can be expected to be the same in spite of it."""
    sentence: str


def differences(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """What differs, most telling first. `recorded` is `Past.environment`; `now` is `here`, or what a worker noted."""
    found = [
        *_interpreter(recorded, now), *_packages(recorded, now), *_processor(recorded, now), *_torch(recorded, now),
        *_devices(recorded, now), *_hash_seed(recorded, now), *_variables(recorded, now),
    ]  # fmt: skip
    return sorted(found, key=lambda one: one.exact)


def here(recorded: Mapping[str, Any], environ: Mapping[str, str], versions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """This machine and interpreter, told without importing anything. `versions`: of packages, where another interpreter will run."""
    now = noted.at_start(environ)
    wanted = recorded.get("packages") or {}
    now["packages"] = {**{name: found for name in wanted if (found := _version(name))}, **(versions or {})}
    return now


def _version(name: str) -> str | None:
    from importlib import metadata

    loaded = getattr(sys.modules.get(name), "__version__", None)
    if isinstance(loaded, str):
        return loaded
    try:
        return metadata.version(_DISTRIBUTIONS.get(name, name))
    except (metadata.PackageNotFoundError, ValueError):
        return None


_DISTRIBUTIONS = {"sklearn": "scikit-learn", "cv2": "opencv-python", "PIL": "pillow", "pytorch_lightning": "pytorch-lightning"}


def _both(recorded: Mapping[str, Any], now: Mapping[str, Any], name: str) -> tuple[Any, Any] | None:
    """What both sides say, if they differ."""
    before, after = recorded.get(name), now.get(name)
    return None if before in (None, "") or after in (None, "") or before == after else (before, after)


def _interpreter(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    found = []
    if pair := _both(recorded, now, "python"):
        minor = [str(version).split(".")[:2] for version in pair]
        found.append(Difference("Python", *pair, minor[0] == minor[1], f"Python was {pair[0]} and is {pair[1]}"))
    if pair := _both(recorded, now, "implementation"):
        found.append(Difference("interpreter", *pair, False, f"the interpreter was {pair[0]} and is {pair[1]}"))
    if pair := _both(recorded, now, "platform"):
        found.append(Difference("system", *pair, False, f"the system was {pair[0]} and is {pair[1]}"))
    return found


def _packages(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    before, after = recorded.get("packages") or {}, now.get("packages")
    if not isinstance(after, Mapping):
        return []
    found = []
    for name, version in before.items():
        if name == "rearview" or after.get(name) == version:
            continue
        if name in after:
            found.append(Difference(name, version, after[name], name not in NUMERIC, f"{name} was {version} and is {after[name]}"))
        elif name in NUMERIC:
            sentence = f"{name} was {version} and its version here is not known: is it installed?"
            found.append(Difference(name, version, None, False, sentence))
    return found


def _processor(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    found = []
    if pair := _both(recorded, now, "machine"):
        found.append(Difference("machine", *pair, False, f"the machine was {pair[0]} and is {pair[1]}"))
    if pair := _both(recorded, now, "cpu"):
        sentence = f"the processor was {pair[0]} and is {pair[1]}: libraries choose other instructions"
        found.append(Difference("processor", *pair, False, sentence))
    if (pair := _both(recorded, now, "usable_cores")) and threads_of(recorded) is None:
        sentence = f"{pair[0]} cores could be used and now {pair[1]}, and how many threads the run used is not known"
        found.append(Difference("cores", *pair, False, sentence))
    return found


def _torch(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    before, after = recorded.get("torch") or {}, now.get("torch") or {}
    found = []
    if pair := _both(before, after, "threads"):
        found.append(Difference("threads", *pair, False, f"torch computed with {pair[0]} threads and now with {pair[1]}"))
    for name, words in _TORCH.items():
        if pair := _both(before, after, name):
            found.append(Difference(words, *pair, False, f"{words} was {pair[0]} and is {pair[1]}"))
    return found


def _devices(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    torch = recorded.get("torch") or {}
    before = torch.get("devices")
    if not before:
        return []
    found = []
    after = (now.get("torch") or {}).get("devices")
    if after is not None and list(after) != list(before):
        sentence = f"the run had {', '.join(map(str, before))} and now there is {', '.join(map(str, after)) or 'no GPU'}"
        found.append(Difference("device", list(before), list(after), False, sentence))
    if not torch.get("deterministic"):
        sentence = "the run used a GPU without deterministic algorithms: not even the same device gives the same bits"
        found.append(Difference("determinism", False, None, False, sentence))
    return found


def devices_of(recorded: Mapping[str, Any]) -> list[str]:
    """The GPUs that a run used."""
    return [str(one) for one in (recorded.get("torch") or {}).get("devices") or ()]


def lacks_gpu(recorded: Mapping[str, Any]) -> bool:
    """Whether a run used a GPU and this machine surely has none. Asks no library: that would begin to use it."""
    return bool(devices_of(recorded)) and sys.platform == "linux" and not any(map(os.path.exists, _GPU_NODES))


_GPU_NODES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/kfd", "/dev/dxg", "/dev/dri/renderD128")


def _hash_seed(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    before = (recorded.get("variables") or {}).get("PYTHONHASHSEED")
    after = (now.get("variables") or {}).get("PYTHONHASHSEED")
    if before in (None, "random", ""):
        if not (recorded.get("flags") or {}).get("hash_randomization", 0):
            return []
        sentence = "the hash seed of the run is not known: sets of text may come in another order (`rearview run` fixes and notes it)"
        return [Difference("hash seed", None, after, True, sentence)]
    if after is None or after == before:
        return []  # a worker is given the recorded one
    sentence = f"the hash seed was {before} and is {after}: sets of text come in another order"
    return [Difference("hash seed", before, after, False, sentence)]


def _variables(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    before, after = recorded.get("variables"), now.get("variables")
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return []
    found = []
    for name in noted.VARIABLES:
        if name in _PLACES or name in _GIVEN or before.get(name) == after.get(name):
            continue
        was, is_now = (f"{side[name]!r}" if name in side else "not set" for side in (before, after))
        found.append(Difference(name, before.get(name), after.get(name), False, f"{name} was {was} and is {is_now}"))
    return found


# -- threads --------------------------------------------------------------------------------------------------------------


def threads_of(recorded: Mapping[str, Any]) -> int | None:
    """With how many threads a run computed; None if that is not known."""
    threads = (recorded.get("torch") or {}).get("threads")
    if isinstance(threads, int) and threads > 0:
        return threads
    said = str((recorded.get("variables") or {}).get("OMP_NUM_THREADS", "")).split(",")[0]
    return int(said) if said.isdigit() and int(said) > 0 else None


def threads_for(recorded: Mapping[str, Any], workers: int, cores: int) -> dict[str, str]:
    """The variables that give a worker the recorded number of threads, beside the recorded variables (which need not be repeated).

    With as many cores as then, libraries choose as they did. Threads wait passively when those of all workers are more than the cores.

    >>> threads_for({"torch": {"threads": 2}, "usable_cores": 2}, workers=2, cores=2)
    {'OMP_WAIT_POLICY': 'passive'}
    >>> threads_for({"torch": {"threads": 2}, "usable_cores": 2}, workers=2, cores=16)
    {'OMP_NUM_THREADS': '2', 'MKL_NUM_THREADS': '2', 'OPENBLAS_NUM_THREADS': '2'}
    >>> threads_for({"torch": {"threads": 1}, "variables": {"OMP_NUM_THREADS": "1"}, "usable_cores": 2}, workers=2, cores=16)
    {'OMP_NUM_THREADS': '1'}
    """
    variables = recorded.get("variables") or {}
    default = recorded.get("usable_cores") or recorded.get("cores")
    threads = threads_of(recorded) or default
    given = {name: str(variables[name]) for name in _THREADS if name in variables}
    if "OMP_NUM_THREADS" not in given and default != cores and threads:  # the others follow it where it is set
        wanted = zip(_THREADS, (threads, threads, default or threads), strict=True)
        given = {**{name: str(count) for name, count in wanted}, **given}
    if workers * int(threads or cores) > cores:
        given["OMP_WAIT_POLICY"] = "passive"
    return given


_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
