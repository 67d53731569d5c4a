"""One run in one process: records, loops and arguments become journal frames.

The hot path is `log`: find the loop, count the ordinal, pack, checksum, one write call. Everything rare is elsewhere.
Nothing here raises into the training because of a disk: what cannot be written is said once and counted.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any
from zlib import crc32

from rearview import config
from rearview.errors import RearviewError, RecordingFailed, Unstorable
from rearview.model import ProcessIdentity, ProcessNumber, RunId
from rearview.record import loops, process
from rearview.record.arguments import Given
from rearview.record.definitions import Definitions, Left, Named, Waiting
from rearview.record.loops import Loop, Node
from rearview.record.packing import FLOAT_FRAME, FLOAT_LENGTH, HEAD, pack_float, pack_int
from rearview.record.process import Moment
from rearview.record.trouble import Refusals, Trouble, is_ours
from rearview.record.values.storable import storable, without_dimensions
from rearview.store import frames, objects
from rearview.store.encoding import encode
from rearview.store.journal import PART_FRAMES, JournalWriter
from rearview.store.layout import Store

if TYPE_CHECKING:
    from rearview.record.checkpoints.keeping import Keeping
    from rearview.record.resume.reaching import Reach
    from rearview.state.remade import Began

_pack_crc = frames.CRC.pack
_now = time.monotonic_ns
_write = os.write
_current = loops.current.get

_INT64 = 2**63
_MOST_WAITING = 10_000
PATIENCE_S = 5.0


class Recorder:
    """Records one run in this process. Implements `session.Session` and `loops.Owner`."""

    def __init__(
        self, store: Store, run: RunId, process: ProcessNumber, identity: ProcessIdentity, given: Given,
        *, attempt: int = 1, rank: int | None = None, world: int | None = None, sync_always: bool = False, began: Moment | None = None,
    ) -> None:  # fmt: skip
        self.store = store
        self.run = run
        self.given = given
        self.rank = rank
        self.world = world
        self.attempt = attempt
        self.root = Node(self, None, "", None)
        self.names_seen: set[str] = set()
        self.wake: Callable[[], object] = int  # called when there is something for the keeper to do
        self.project = store.project
        self.settings: config.Settings = config.DEFAULTS
        self.outputs_told: dict[str, int] = {}  # which output files the journal knows, for `files.own.fresh`
        self.keeping: Keeping | None = None
        """The checkpoints of this run, once there is something to keep."""
        self.reach: Reach | None = None
        self.guard: loops.Guard | None = None
        """Who takes checkpoints in the loops of this run, or brings a resumed program to where it was."""
        self.covered: Began | None = None  # by `checkpointing` blocks before
        self.reaching = False
        """The program is on its way to where it is resumed: what it records was recorded before."""
        self._sync_always = sync_always
        self._blocks = itertools.count(1)
        self._ended = False
        self._refusals = Refusals()
        self._args: dict[str, Any] = {}
        self._become(process, identity, began)

    def _become(self, process: ProcessNumber, identity: ProcessIdentity, began: Moment | None = None) -> None:
        """What a process has for itself, and a forked child anew."""
        self.process = process
        self.identity = identity
        self.journal = JournalWriter(self.store.run(self.run), process, self.attempt)
        self.lock = threading.RLock()
        """Held while a frame is written, and across a fork: the child gets a whole state."""
        self._acquire, self._release = self.lock.acquire, self.lock.release
        self._busy = False
        self._deferred: list[tuple[Node, str, Any, int]] = []
        self._pending: list[Waiting] = []
        """To go out with the next write."""
        self.unsynced: list[Path] = []
        """Objects that a power loss would still take."""
        self._defined = Definitions()
        self._part = self._defined.part
        """The same object as `_defined.part`: what the hot path compares."""
        self._other_frames = 0
        """Frames that are no records."""
        self._wall0, self._t0 = began or (time.time(), _now())
        self.trouble = Trouble(self.run, self.store.root)
        self._dormant = False
        """A forked child that has recorded nothing yet, and so has no journal."""

    @property
    def records(self) -> int:
        """Records acknowledged by this process."""
        return self.journal.frames - self._other_frames

    # -- the hot path ------------------------------------------------------------------------------------------------

    def log(self, name: str, value: object, volatile: bool) -> None:  # noqa: PLR0912 (one function: calls cost)
        """Keep one record. When this returns it survives a SIGKILL."""
        node = _current()
        if node is None or node.owner is not self or not node.sure:
            node = loops.here(self, self.root)
        kind = type(value)
        if kind is not float and kind is not int:
            value = without_dimensions(value)
            kind = type(value)
        self._acquire()  # half the cost of a `with`; the keeper does not wait for ever
        try:
            if self._busy:  # a signal handler, inside a record that is being written
                self._deferred.append((node, name, value, volatile))
                return
            self._busy = True
            try:
                head = node.heads.get(name)
                if kind is float:
                    pack, tag = pack_float, b"f"
                elif kind is int and -_INT64 <= value < _INT64:  # type: ignore[operator]
                    pack, tag = pack_int, b"i"
                else:
                    head = None
                if (
                    head is None
                    or node.part is not self._part
                    or node.unnamed
                    or volatile
                    or self._pending
                    or self.trouble.failing
                    or self._sync_always
                ):
                    self._log_any(node, name, value, volatile)
                    return
                counts = node.counts
                ordinal = counts.get(name, 0)
                counts[name] = ordinal + 1
                journal = self.journal
                sequence = journal.sequence
                rest = pack(FLOAT_LENGTH, sequence, head, node.iteration, ordinal, (_now() - self._t0) // 1000, tag, value)
                data = _pack_crc(crc32(rest)) + rest
                try:
                    written = _write(journal.fd, data)
                except OSError as problem:
                    written = journal.refused(problem)
                if written != FLOAT_FRAME:
                    journal.take_back(written, data)
                journal.sequence = sequence + 1
                if sequence > PART_FRAMES:
                    self._after_write()
            except BaseException as problem:  # noqa: BLE001
                self._met(problem, name)
            finally:
                self._busy = False
                if self._deferred:
                    self._drain()
        finally:
            self._release()

    # -- what is rare ------------------------------------------------------------------------------------------------

    def _log_any(self, node: Node, name: str, value: object, flags: int) -> None:
        """Any value, new names, new blocks: definitions and the record in one write."""
        if self._ended or (self.reaching and not (flags & frames.IS_ARG and self.reach is not None and self.reach.is_new_run)):
            return
        counts = node.counts
        ordinal = counts.get(name, 0)
        counts[name] = ordinal + 1
        try:
            encoded = encode(storable(value, self._keep))
        except Unstorable as problem:
            kind = self._refusals.say(name, value, problem)
            if kind is not None:
                self.fact("unstorable", name=name, type=kind)
            return
        if self.trouble.failing and not self._recovered():
            self.trouble.lost += 1
            return
        waiting, self._pending = self._pending, []
        try:
            bodies = self._defined.waiting(waiting)
            name_id = self._defined.place(node, name, bodies)
            head = (flags, name_id, node.block_id, max(node.iteration, 0), ordinal, self.elapsed_us())
            bodies.append(frames.RECORD_HEAD.pack(frames.RECORD, *head) + encoded)
            self._append(bodies, records=1)
        except BaseException:
            self._pending[:0] = waiting  # it goes on waiting
            raise
        self.names_seen.add(name)
        if not flags:
            node.heads[name] = HEAD.pack(frames.RECORD, 0, name_id, node.block_id)
        self._after_write()

    def _append(self, bodies: list[bytes], records: int) -> None:
        self.journal.append(bodies)
        self._other_frames += len(bodies) - records
        self.wake()

    def _keep(self, data: bytes) -> str:
        key = objects.put(self.store, data, durable=self._sync_always)
        self.unsynced.append(objects.path_of(self.store, key))
        return key

    def _record(self, node: Node, name: str, value: object, flags: int) -> None:
        """What `log` does, without its short way."""
        with self.lock:
            if self._busy:
                self._deferred.append((node, name, value, flags))
                return
            with self._writing(records=1):
                self._log_any(node, name, value, flags)

    @contextmanager
    def _writing(self, records: int) -> Iterator[None]:
        """A slow write, under the lock: errors of the disk end here, what a signal handler logged meanwhile follows."""
        self._busy = True
        try:
            yield
        except BaseException as problem:  # noqa: BLE001
            self._met(problem, "", records)
        finally:
            self._busy = False
            if self._deferred:
                self._drain()

    def _met(self, problem: BaseException, name: object, records: int = 1) -> None:
        """An exception in the middle of a write: a failure of recording ends here, anything else goes on to the program."""
        if not isinstance(name, str):
            raise TypeError(f"rv.log takes a name as text first, not {type(name).__name__}") from None
        if isinstance(problem, Exception) and is_ours(problem):
            self.trouble.lost += records  # what else was to be written goes on waiting
            self.trouble.degrade(problem)
            return
        self.trouble.doubt()
        raise problem

    def _drain(self) -> None:
        while self._deferred:
            self._record(*self._deferred.pop(0))

    def _after_write(self) -> None:
        """The record is written; what goes wrong from here on does not take it back."""
        try:
            if self._sync_always:
                self.journal.sync()
            if self.journal.is_full():
                self._open_part()
        except (OSError, RecordingFailed) as problem:
            self.trouble.degrade(problem)

    # -- loops and arguments -----------------------------------------------------------------------------------------

    def loop(self, name: str, iterable: Iterable[Any] | None) -> Iterable[Any]:
        """An iterable that yields what it was given and knows where it is."""
        return Loop(self, self.root, name, iterable, sys._getframe(2))

    def checkpointing(self, given: dict[str, object], frame: FrameType) -> AbstractContextManager[Any]:
        """The loops inside are checkpointed."""
        from rearview.record.checkpoints.checkpointing import Checkpointing

        return Checkpointing(self, given, frame)

    def skip_block(self, name: str) -> Any:
        """A block whose end state is kept."""
        from rearview.record.checkpoints.skipping import SkipBlock

        return SkipBlock(self, name)

    def next_block_id(self) -> int:
        """A number for a block, unique in this writer."""
        return next(self._blocks)

    def block_left(self, node: Node, ending: int) -> None:
        """Note how a block ended, with the next write. Called from anywhere, also from a destructor."""
        if self._ended or self.reaching:
            return
        with self.lock:
            # While a disk is full for long, ends of blocks are not worth the memory: a block without one is still open.
            if len(self._pending) < _MOST_WAITING:
                self._pending.append(Left(node, max(node.iteration + 1, 0), ending, self.elapsed_us()))

    def value_known(self, node: Node) -> None:
        """The name of an iteration in which something was recorded while it was fetched."""
        with self.lock:
            if node.part is self._part and len(self._pending) < _MOST_WAITING:
                node.unnamed = False
                self._pending.append(Named(node, node.iteration, node.value))

    def arg(self, name: str, default: Any) -> Any:
        """The value of an argument, recorded the first time."""
        value = self.given.value(name, default)
        with self.lock:
            if name not in self._args:
                self._args[name] = value
                flags = frames.IS_ARG | (frames.ARG_GIVEN if name in self.given.texts else 0)
                self._record(self.root, name, value, flags)
            else:
                self.given.compare(name, self._args[name], value)
        return value

    # -- facts, parts, failures, forks --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Open the journal: from here on a kill loses nothing."""
        with self.lock:
            self._open_part()

    def _open_part(self) -> None:
        journal = self.journal
        who = process.Writer(self.run, journal.writer, journal.attempt, journal.part + 1, self.identity, self.rank, self.world)
        journal.open_part(process.hello(who, self._wall0))
        self._other_frames += 1
        self._defined.begin_part(self.root)
        self._part = self._defined.part

    def fact(self, kind: str, **facts: object) -> None:
        """Note something rare, with the next write. After the end it is nothing, as a record is."""
        body = frames.fact_body(kind, **facts)
        with self.lock:
            if not self._ended:
                self._pending.append(body)

    def elapsed_us(self) -> int:
        """Since this writer began."""
        return (_now() - self._t0) // 1000

    def flush(self) -> None:
        """Write what waits for the next record."""
        if not self.lock.acquire(timeout=PATIENCE_S):
            return
        try:
            if self._busy or self._dormant or self._ended or not self._pending:
                return
            with self._writing(records=0):
                if self.trouble.failing and not self._recovered():
                    return
                waiting, self._pending = self._pending, []
                try:
                    self._append(self._defined.waiting(waiting), records=0)
                except BaseException:
                    self._pending[:0] = waiting
                    raise
                self._after_write()
        finally:
            self.lock.release()

    def _recovered(self) -> bool:
        """Try a new part: after an error nothing is certain about the old one."""
        if not self.trouble.due():
            return False
        self.journal.abandon()
        try:
            self._open_part()
        except (OSError, RearviewError) as problem:
            self.trouble.degrade(problem)
            return False
        self.trouble.failing = self._dormant = False
        return True

    def end(self, how: str, **facts: object) -> None:
        """Write how the run ended and close the journal."""
        self.fact("end", how=how, wall=time.time(), at=self.elapsed_us(), lost=self.trouble.lost, **facts)
        with self.lock:
            self.trouble.last_try()
            self.flush()
            self._ended = True
            self._part = object()  # whoever still logs takes the slow path and finds the run ended
            if self.trouble.failing:
                self.journal.abandon()
                return
            try:
                self.journal.close()
            except (OSError, RecordingFailed) as problem:
                self.trouble.degrade(problem)

    def after_fork_in_child(self, process: ProcessNumber, identity: ProcessIdentity) -> None:
        """Join the run as a process of one's own, with a journal of one's own, opened at the first record."""
        self.journal.abandon()
        self._become(process, identity)
        self.trouble.doubt()  # opens the journal with the first record
        if self.keeping is not None:
            self.keeping.after_fork_in_child()
        self._dormant, self.guard, self.keeping = True, None, None
        loops.count_anew(self, self.root)
