"""How a run ended, in facts: the exception, its message, the end of its traceback."""

from __future__ import annotations

import traceback

_TRACEBACK_LINES = 40


def of(error: BaseException | None) -> dict[str, object]:
    """What is noted of the exception that ended a run, if one did."""
    if error is None:
        return {"exception": None, "message": None, "traceback": None}
    return {"exception": _type_name(error), "message": _message(error), "traceback": _tail(error)}


def exit_code(stop: SystemExit) -> int:
    """What the process ends with that is left so."""
    if stop.code is None:
        return 0
    return stop.code & 0xFF if isinstance(stop.code, int) else 1


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return str(error)[:10_000]
    except Exception:  # noqa: BLE001 (the user's exception may not even print)
        return ""


def _tail(error: BaseException) -> str:
    try:
        lines = "".join(traceback.format_exception(error)).splitlines()
    except Exception:  # noqa: BLE001 (the user's exception may not even print)
        return ""
    return "\n".join(lines[-_TRACEBACK_LINES:])
