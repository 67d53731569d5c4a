"""When is a checkpoint worth it? The adaptive period, as arithmetic over measurements that the caller gives.

Knows no clock, no file, no loop: seconds go in, a decision with its reason comes out. One object per block.

The rule is the joint invariant of "Hindsight Logging for Model Training" (Garcia et al., PVLDB 14(4), equation 4). With M the time
that one checkpoint costs, C the time that the block takes, n executions and k checkpoints so far, and c the time to restore over the time
to materialise, one more checkpoint is taken only if

    M / C  <  n / (k + 1)  *  min(1 / (1 + c), eps)

The left part of the minimum keeps a later replay worthwhile: writing and reading back must stay cheaper than what was computed. The
right part bounds what recording costs: all checkpoints together, the next one included, take less than eps of the computing time.
Two readings of ours. M is what the run *loses* (the stall and the cores that background work took), not how long the training thread
was held. And since n * C is the time really spent and k * M the time really lost, those sums are used as measured: the invariant
then also holds when iterations are irregular or checkpoints cost more from one to the next.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rearview.errors import UsageError

EPS = 1 / 15
RISK_S = 900.0
C_UNKNOWN = 1.0
"""Restoring is taken to cost what materialising does, until one was measured (section 3.2.2)."""

OFF, FIXED, FIRST, WORTH, DEAR, EARLY, RISK, RISK_DEAR = "off", "fixed", "first", "worth", "dear", "early", "risk", "risk-dear"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to take a checkpoint now, and the figures that decided. True or false like a bool."""

    due: bool
    why: str
    """One of `off`, `fixed`, `first`, `worth`, `dear`, `early`, `risk`, `risk-dear`."""
    cost: float = 0.0
    """Left side: what was lost so far with the next checkpoint, in seconds. (For `early` and `risk`: seconds at risk.)"""
    limit: float = 0.0
    """Right side: what may be lost, in seconds. (For `early` and `risk`: seconds that may be at risk. For `fixed`: the period.)"""
    notice: str | None = None
    """A sentence for the person; given once."""

    def __bool__(self) -> bool:
        return self.due

    @property
    def reason(self) -> str:
        """The reason in words."""
        return {
            OFF: "checkpoints are off",
            FIXED: f"a fixed period of {self.limit:g}",
            FIRST: "nothing is known of its cost yet",
            WORTH: f"with it {self.cost:.3g} s are lost, {self.limit:.3g} s may be",
            DEAR: f"with it {self.cost:.3g} s would be lost, only {self.limit:.3g} s may be",
            EARLY: f"{self.cost:.3g} s of work at risk, {self.limit:g} s may be",
            RISK: f"{self.cost:.3g} s of work at risk, {self.limit:g} s may be",
            RISK_DEAR: f"too much work is at risk, but {self.cost:.3g} s would be lost and only {self.limit:.3g} s may be",
        }[self.why]


def _seconds(value: float) -> float:
    """A duration as measured; a clock that was set back, or NaN, counts nothing: no training ends for it."""
    try:
        return value if 0.0 < value < math.inf else 0.0
    except TypeError:
        raise UsageError(f"a duration is a number of seconds: not {value!r}") from None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) or hasattr(value, "__float__")


class AdaptivePeriod:
    """How often to take a checkpoint of one block, from what checkpoints and the block turn out to cost.

    >>> period = AdaptivePeriod(eps=0.1)
    >>> period.expect(200_000_000, copy_speed=1e9)       # 0.2 s, by the size of the state
    >>> for epoch in range(5):
    ...     period.ran(1.0)                              # an epoch took 1 s
    ...     if period.due():
    ...         period.took(0.25)                        # the run lost 0.25 s by it
    >>> period.k, period.n, period.share
    (1, 5, 0.05)

    `eps` is a ceiling for the time lost, not a target; 0 means never. `every=n` takes one after each n-th execution instead, whatever
    it costs.
    """

    __slots__ = ("_expected_s", "_last_s", "_restored_s", "_restores", "_told", "eps", "every", "k", "lost_s", "n", "ran_s")

    def __init__(self, eps: float = EPS, *, every: int = 0) -> None:
        if not (_is_number(eps) and 0.0 <= eps < math.inf):
            raise UsageError(f"eps is the part of the time that checkpoints may take, 0 or more: not {eps!r}")
        if not (hasattr(every, "__index__") and every >= 0):
            raise UsageError(f"every is a whole number of executions, 0 for the adaptive period: not {every!r}")
        self.eps = float(eps)
        self.every = int(every)
        self.n = 0
        """Executions of the block."""
        self.k = 0
        """Checkpoints taken of it."""
        self.ran_s = 0.0
        """Seconds that the executions took."""
        self.lost_s = 0.0
        """Seconds that the run lost by the checkpoints."""
        self._last_s = 0.0
        self._expected_s: float | None = None
        self._restored_s = 0.0
        self._restores = 0
        self._told = False

    # -- measurements --------------------------------------------------------------------------------------------------

    def ran(self, seconds: float) -> None:
        """The block was executed once more."""
        self.ran_s += _seconds(seconds)
        self.n += 1

    def took(self, lost_s: float) -> None:
        """A checkpoint was taken; the run lost so much by it: the stall, and the cores taken by work in the background."""
        lost_s = _seconds(lost_s)
        self.k += 1
        self.lost_s += lost_s
        self._last_s = lost_s
        self._expected_s = None

    def costs_more(self, lost_s: float) -> None:
        """Work in the background of the newest checkpoint took so much more."""
        lost_s = _seconds(lost_s)
        self.lost_s += lost_s
        self._last_s += lost_s

    def restored(self, seconds: float) -> None:
        """A checkpoint of this block was put back."""
        self._restored_s += _seconds(seconds)
        self._restores += 1

    def expect(self, bytes_: int, copy_speed: float) -> None:
        """The next checkpoint copies so many bytes, at so many bytes a second: the first M, and later the least it can be."""
        try:
            self._expected_s = bytes_ / copy_speed if copy_speed > 0 else None
        except TypeError:
            given = f"{bytes_!r} and {copy_speed!r}"
            raise UsageError(f"expect takes a number of bytes and how many are copied in a second: not {given}") from None

    # -- what they come to -----------------------------------------------------------------------------------------------

    @property
    def M(self) -> float | None:
        """Seconds that the next checkpoint is reckoned to lose: the mean, the newest, or what is expected, whichever is most."""
        known = [] if self._expected_s is None else [self._expected_s]
        if self.k:
            known += [self.lost_s / self.k, self._last_s]
        return max(known, default=None)

    @property
    def C(self) -> float:
        """Seconds that an execution of the block takes, on average."""
        return self.ran_s / self.n if self.n else 0.0

    @property
    def c(self) -> float:
        """Time to restore over time to materialise, as learned."""
        if not (self._restores and self.k and self.lost_s):
            return C_UNKNOWN
        return (self._restored_s / self._restores) / (self.lost_s / self.k)

    @property
    def limit(self) -> float:
        """The part of the computing time that may be lost: min(1 / (1 + c), eps)."""
        return min(1.0 / (1.0 + self.c), self.eps)

    @property
    def share(self) -> float:
        """Seconds lost for each second of computing, so far."""
        return self.lost_s / self.ran_s if self.ran_s else 0.0

    # -- decisions -------------------------------------------------------------------------------------------------------

    @property
    def off(self) -> bool:
        """Whether none is ever due."""
        return not self.every and self.eps <= 0.0

    def due(self) -> Decision:
        """Whether to take one now that the block was executed (after `ran`, before materialising)."""
        if self.off:
            return Decision(False, OFF)
        if self.every:
            return Decision(self.n > 0 and self.n % self.every == 0, FIXED, limit=self.every)
        return self._worth(self.ran_s)

    def inside_due(self, since_last_s: float, risk_s: float = RISK_S, running_s: float = 0.0) -> Decision:
        """Whether to take one in the middle of a long execution, which is running since `running_s`.

        At most `risk_s` of work is to be at risk; eps wins over that, and the first such decision carries a sentence that says so. Under
        a fixed period the cost does not count.
        """
        if self.off:
            return Decision(False, OFF)
        if not since_last_s >= risk_s:
            return Decision(False, EARLY, since_last_s, risk_s)
        if self.every:
            return Decision(True, RISK, since_last_s, risk_s)
        worth = self._worth(self.ran_s + _seconds(running_s))
        if worth.due:
            return Decision(True, RISK, since_last_s, risk_s)
        notice, self._told = (None if self._told else self._notice(risk_s)), True
        return Decision(False, RISK_DEAR, worth.cost, worth.limit, notice)

    def _worth(self, ran_s: float) -> Decision:
        """Equation 4, multiplied out: k * M is what was lost, n * C what was run."""
        limit_s = ran_s * self.limit
        expected = self.M
        if expected is None:
            return Decision(ran_s > 0.0, FIRST, 0.0, limit_s)
        cost_s = self.lost_s + expected
        worth = cost_s < limit_s
        return Decision(worth, WORTH if worth else DEAR, cost_s, limit_s)

    def _notice(self, risk_s: float) -> str:
        return (
            f"more than {risk_s:g} s of work are at risk: a checkpoint costs about {self.M or 0.0:.3g} s, and eps={self.eps:.4g} does "
            "not allow it yet; raise eps, or set every"
        )

    # -- across a resume ---------------------------------------------------------------------------------------------------

    def to_plain(self) -> dict[str, float]:
        """What was measured, as plain values."""
        return {
            "n": self.n,
            "k": self.k,
            "ran_s": self.ran_s,
            "lost_s": self.lost_s,
            "last_s": self._last_s,
            "restores": self._restores,
            "restored_s": self._restored_s,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, float], eps: float = EPS, *, every: int = 0) -> AdaptivePeriod:
        """Go on from what an earlier attempt measured; a figure that is missing counts nothing."""
        period = cls(eps, every=every)
        period.n, period.k, period._restores = (max(0, int(plain.get(name, 0))) for name in ("n", "k", "restores"))
        period.ran_s, period.lost_s, period._last_s, period._restored_s = (
            _seconds(plain.get(name, 0.0)) for name in ("ran_s", "lost_s", "last_s", "restored_s")
        )
        return period

    def __repr__(self) -> str:
        shown = "?" if self.M is None else f"{self.M:.3g}"
        return f"<AdaptivePeriod M={shown} C={self.C:.3g} n={self.n} k={self.k} c={self.c:.3g} share={self.share:.2%}>"
