"""Which statements are asked for, and what is told of where they go."""

from __future__ import annotations

from rearview.replay.question.placing import Settled, joined, settle, wanted

FED = """\
import rearview as rv
\f
w = 0.0
for k in rv.loop("k", range(3)):
    rv.log("w", w)
    # looked at
    rv.log("a", w)
    w += 1
    rv.log("b", w)
"""


def test_a_form_feed_is_no_line() -> None:
    every = wanted({"t.py": FED}, ["a", "b"])
    assert [one.text for one in every] == ['rv.log("a", w)', 'rv.log("b", w)']
    assert len(joined(every, {"t.py": FED})) == 2, "what stands between them belongs to neither"
    assert len(joined(wanted({"t.py": FED}, ["w", "a"]), {"t.py": FED})) == 1
    found = settle(wanted({"t.py": FED}, ["a"]), {"t.py": FED}, {"t.py": FED.replace('    rv.log("a", w)\n', "")}, "t.py")
    assert isinstance(found, Settled)
    assert [(site.before, site.after) for site in found.spread.sites] == [('rv.log("w", w)', "# looked at")]
