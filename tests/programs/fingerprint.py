"""What a training came to, as one line: every tensor, array and number given, and what the three global random streams give next."""

import hashlib
import random
import sys


def _feed(digest, thing):
    if isinstance(thing, dict):
        for key in thing:
            digest.update(repr(key).encode())
            _feed(digest, thing[key])
    elif isinstance(thing, (list, tuple)) or type(thing).__name__ == "deque":
        digest.update(f"{type(thing).__name__}{len(thing)}".encode())
        for item in thing:
            _feed(digest, item)
    elif hasattr(thing, "detach"):
        digest.update(f"{thing.dtype}{tuple(thing.shape)}".encode())
        digest.update(thing.detach().cpu().contiguous().view(-1).numpy().tobytes())
    elif hasattr(thing, "tobytes"):
        digest.update(f"{thing.dtype}{thing.shape}".encode() + thing.tobytes())
    else:
        digest.update(repr(thing).encode())


def show(*things):
    """Print the digest of a program's state at its end."""
    digest = hashlib.sha256()
    _feed(digest, things)
    digest.update(repr(random.random()).encode())
    if "numpy" in sys.modules:
        digest.update(repr(float(sys.modules["numpy"].random.random())).encode())
    if "torch" in sys.modules:
        digest.update(repr(float(sys.modules["torch"].rand(()))).encode())
    print("digest", digest.hexdigest(), flush=True)
