"""A diff of code on the screen: lines that fit, new files in one line each."""

from rearview.cli.shown import patch, screen


def view(width: int = 40, terminal: bool = True) -> screen.Screen:
    return screen.Screen(width, 24, terminal=terminal, colour=False)


CHANGED = "diff a/train.py b/train.py\n--- a/train.py\n+++ b/train.py\n@@ -1,2 +1,2 @@\n-lr = 1\n+lr = 2\n " + "x" * 100 + "\n"


def new(path: str, lines: int) -> str:
    body = "".join(f"+line {k}\n" for k in range(lines))
    return f"diff a/{path} b/{path}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{lines} @@\n{body}"


def gone(path: str, lines: int) -> str:
    body = "".join(f"-line {k}\n" for k in range(lines))
    return f"diff a/{path} b/{path}\n--- a/{path}\n+++ /dev/null\n@@ -1,{lines} +0,0 @@\n{body}"


def test_lines_are_fitted_to_a_terminal_and_whole_in_a_pipe() -> None:
    shown = patch.lines(CHANGED, view())
    assert max(map(len, shown)) == 40 and shown[-1].endswith("x…")
    assert patch.lines(CHANGED, view(terminal=False))[-1] == " " + "x" * 100
    assert patch.lines(CHANGED, view(), full=True)[-1] == " " + "x" * 100


def test_large_new_and_removed_files_are_a_line_each() -> None:
    shown = patch.lines(new("model.py", 120) + CHANGED + gone("sub/old.py", 1200), view(80))
    assert shown[0] == "new file model.py, 120 lines"
    assert shown[-2] == "removed file sub/old.py, 1,200 lines"
    assert shown[-1] == "(--full shows these files whole)"
    assert "-lr = 1" in shown and "+line 3" not in shown and "-line 3" not in shown


def test_small_new_files_are_shown() -> None:
    shown = patch.lines(new("small.py", 3), view())
    assert shown[-3:] == ["+line 0", "+line 1", "+line 2"]


def test_in_full_all_files_are_shown() -> None:
    whole = new("model.py", 120) + gone("old.py", 30)
    assert patch.lines(whole, view(), full=True) == whole.rstrip("\n").split("\n")


def test_a_line_that_looks_like_a_heading_is_content() -> None:
    tricky = CHANGED + "-diff a/x b/x\n+--- /dev/null\n"
    assert patch.lines(tricky, view(60))[-2:] == ["-diff a/x b/x", "+--- /dev/null"]


def test_controls_are_shown_and_nothing_is_empty() -> None:
    assert patch.lines("diff a/x b/x\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+\x1b[31m\n", view())[-1] == "+\\x1b[31m"
    assert patch.lines("", view()) == []
