"""A captured state becomes a checkpoint: copied while the training waits, written by a thread of ours while it goes on.

Objects first, then what was recorded so far, the manifest last, then a note in the journal. The thread runs at low priority, can be
brought to rest and ended by one call, and is not there in a forked child.
"""

from __future__ import annotations

import contextlib
import operator
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rearview.errors import CheckpointError, StoreError
from rearview.record import firsts
from rearview.record.checkpoints import boundaries, proofs, staging
from rearview.record.checkpoints.changes import Changes
from rearview.record.checkpoints.jobs import Files, Job, Spans, let_go
from rearview.record.checkpoints.room import available_bytes, is_of_memory
from rearview.record.checkpoints.second import as_in_first, where_they_were, worth_watching
from rearview.record.checkpoints.staging import Arena
from rearview.record.checkpoints.watched import Watched
from rearview.state import tree as trees
from rearview.state import visible
from rearview.state.digested import Before
from rearview.state.digests import root_digests
from rearview.store import direct, manifests, objects
from rearview.store.layout import Store
from rearview.store.manifests import Buffer, Manifest
from rearview.store.packs import Known, Names, Packer, read_buffer, refs_of
from rearview.store.packs.chunks import CHUNK_BYTES
from rearview.store.packs.hashing import digest, held_digest

SECOND_ROOM = 64 << 20
"""The second part of a checkpoint may take this much beside the first."""
_MARGIN = 256 << 20
_FOLLOWS_S = 0.05
"""So long the second part may take to follow the first before that is written: taken alone, it does not wait for the interpreter."""


class _Void(Exception):
    """A buffer that was expected not to have changed has, or what was recorded before could not be looked after."""


class Materializer:
    """Writes the checkpoints of one run in this process."""

    def __init__(
        self, store: Store, finished: Callable[[Job], None], uncounted: Callable[[], bool], settle: Callable[[], bool]
    ) -> None:  # fmt: skip
        self.store = store
        self.known = Known(store)
        self.changes = Changes()
        self._finished = finished
        """Told about every job when it is over, on the thread."""
        self._uncounted = uncounted
        """Whether the program writes to tensors past torch's count."""
        self._settle = settle
        """Called before a checkpoint is there: whether what was recorded before it is on the disk."""
        self._watched = Watched()
        self._arenas = (Arena(), Arena())
        self._jobs: queue.SimpleQueue[Job | Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: Job | None = None
        self._packer: Packer | None = None
        self._before = Before()
        """How the states before were hashed."""
        self._encoded, self._rows = trees.Encoded(), manifests.Rows()
        self._seen: dict[tuple[Names, visible.Range], bytes] = {}
        """Of the state before: digests of parts of buffers."""

    # -- on the training thread ----------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """A checkpoint is still being written."""
        return self._last is not None and not self._last.done.is_set()

    def prepare(self, size_bytes: int) -> None:
        """A state of about this size is to be kept: have the memory ready, off the training thread."""
        if size_bytes > 0 and self._fits(size_bytes):
            self._start()
            arena = self._arenas[0]
            self._jobs.put(lambda: arena.touch(size_bytes) if arena.size < size_bytes else None)

    def take(self, manifest: Manifest, captured: Any, began: float, *, period: Any, files: Files, second: bool = False) -> Job:
        """Copy what may have changed and hand it over. `second`: the first part of this checkpoint was taken just now."""
        first = self._last if second and self._last is not None and self._last.manifest.part == boundaries.BLOCK else None
        job = Job(manifest, captured, first, period, files, second)
        copies = self._sort(job, self._since_first(first, captured))
        arena = self._arenas[0]
        total = sum(captured.buffers[k].nbytes for k in copies)
        if self.busy and first is not None and total <= SECOND_ROOM:
            arena = self._arenas[1]
        else:
            self.wait()
        staged = self._copied([captured.buffers[k] for k in copies], total, arena)
        if staged is not None:
            job.staged.update(zip(copies, staged.views, strict=True))
            job.addresses.update(zip(copies, staged.addresses, strict=True))
            named = zip(copies, staged.names, staged.views, staged.addresses, strict=True)
            job.chunks.update((k, (name, view, address)) for k, name, view, address in named if name is not None)
            if manifest.part != boundaries.BLOCK:  # the second part is compared with the first: its memory must not become another's
                let_go(job)
            else:
                self._watch_copied(job)
            if first is not None:
                let_go(first)
            job.stall_s = time.perf_counter() - began
            self._hand_over(job)
        else:  # no memory for a copy: the training waits until its own memory is written
            self._arenas[0].release()
            job.staged |= {k: captured.buffers[k].memory() for k in copies}
            job.held_since = began
            self._hand_over(job)
            self.wait()
        return job

    def _since_first(self, first: Job | None, captured: Any) -> dict[int, bool]:
        """Of the buffers of the first part that are watched, whether nobody has written to them since. What was copied is let go."""
        if first is None:
            self._watched.let_go()
            return {}
        still = where_they_were(first, captured)
        watches = {k: watch for k, watch in first.watches.items() if k in still}
        found = dict.fromkeys((*first.watched, *first.watches), False)
        found.update(zip(first.watched, self._watched.unwritten_copied([k in still for k in first.watched]) or (), strict=False))
        found.update(zip(watches, self._watched.unwritten(list(watches.values())), strict=True))
        for k, is_unwritten in found.items():
            if not is_unwritten and k in first.staged:
                self.changes.was_written(first.captured.buffers[k])
        return found

    def _watch_copied(self, job: Job) -> None:
        """The second part follows: what nobody writes to until then needs no second look."""
        buffers = job.captured.buffers
        wanted = worth_watching(job, self.changes.rests, self._uncounted)
        places = [(buffers[k].address, buffers[k].nbytes) for k in wanted]
        if self._watched.copied(places, [job.addresses[k] for k in wanted]):
            job.watched = wanted

    def _sort(self, job: Job, unwritten: dict[int, bool]) -> list[int]:
        """Which buffers are to be copied; for the others what they are expected to be. `unwritten`: those of the first part, since."""
        buffers = job.captured.buffers
        job.staged.update((k, buffer.memory()) for k, buffer in enumerate(buffers) if buffer.private)
        if job.first is not None:
            job.same_as.update(as_in_first(job.first, job.captured, unwritten, self.changes.rests, self._uncounted))
            job.unwritten.update(k for k, at in job.same_as.items() if unwritten.get(at))
        copies = []
        for k, buffer in enumerate(buffers):
            if k in job.staged or k in job.same_as:
                continue
            expected = self.changes.expected(buffer)
            if expected is None:
                copies.append(k)
            else:
                job.expected[k] = expected
        return sorted(copies + self._written(job))

    def _written(self, job: Job) -> list[int]:
        """What was expected to be as it was and is not, as the kernel says: it is copied. So is what it did not watch yet, and does now."""
        buffers = job.captured.buffers
        job.watches = {k: watch for k in job.expected if (watch := self.changes.watch(buffers[k])) is not None}
        answers = dict(zip(job.watches, self._watched.unwritten(list(job.watches.values())), strict=True))
        job.unwritten.update(k for k, is_unwritten in answers.items() if is_unwritten)
        written = [k for k, is_unwritten in answers.items() if not is_unwritten]
        for k in written:
            del job.expected[k], job.watches[k]
        constant = {k for k, buffer in enumerate(buffers) if not buffer.private and self.changes.is_new_and_constant(buffer)}
        new = sorted((constant - job.same_as.keys()) | (job.expected.keys() - job.watches.keys()))
        begun = zip(new, self._watched.begin([(buffers[k].address, buffers[k].nbytes) for k in new]), strict=True)
        watches = {k: watch for k, watch in begun if watch is not None}
        job.watches |= watches
        return written + [k for k in watches if job.expected.pop(k, None) is not None]

    def _copied(self, buffers: Sequence[Any], size_bytes: int, arena: Arena) -> staging.Copies | None:
        """Copies of buffers, unless there is no memory for them."""
        if self._fits(size_bytes - arena.size):
            try:
                return staging.copy(buffers, arena, held_digest())
            except (MemoryError, OSError) as problem:
                if not is_of_memory(problem):
                    raise
        return None

    @staticmethod
    def _fits(size_bytes: int) -> bool:
        if size_bytes <= 0:
            return True
        available = available_bytes()
        return available is None or size_bytes + _MARGIN < available

    def _hand_over(self, job: Job) -> None:
        if job.manifest.part != boundaries.BLOCK:
            job.followed.set()
        if job.first is not None:
            job.first.followed.set()
        self._last = job
        self._start()
        self._jobs.put(job)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="rearview-writer", daemon=True)
            self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until what is being written is written."""
        if self._last is None:
            return True
        self._last.followed.set()
        return self._last.done.wait(timeout_s)

    def rest(self) -> None:
        """Finish what is being written and end the thread. The next checkpoint starts it again."""
        thread, self._thread = self._thread, None
        if thread is not None:
            if self._last is not None:
                self._last.followed.set()
            self._jobs.put(None)
            thread.join()
        self._watched.end()

    def give_up(self) -> None:
        """Leave the checkpoint that is being written: nothing of it stays."""
        packer = self._packer
        if packer is not None:
            packer.give_up()

    def after_fork_in_child(self) -> None:
        """Nothing of it is there in a forked child: no thread, no copy."""
        for arena in self._arenas:
            arena.after_fork_in_child()
        self._watched.end()
        self._thread = self._last = None

    # -- on our own thread ----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        direct.low_priority()
        with firsts.unseen():
            while (job := self._jobs.get()) is not None:
                if callable(job):
                    with contextlib.suppress(MemoryError, OSError):  # it only gets something ready
                        job()
                    continue
                job.followed.wait(_FOLLOWS_S)
                try:
                    self._write(job)
                except Exception as problem:  # noqa: BLE001 (whoever takes the next checkpoint is told)
                    job.problem = problem
                finally:
                    if job.first is not None:
                        job.first.drop_copies()
                    self._finished(job)
                    job.done.set()
                job = None

    def _write(self, job: Job) -> None:
        began, cpu = time.perf_counter(), time.thread_time()
        job.proved_from = time.monotonic()
        if job.first is not None and not job.first.written:
            raise _Void  # what it relies on is not there
        with Packer(self.store, self.known) as packer:
            self._packer = packer
            try:
                spans = visible.ranges(job.captured.tree, job.captured.region)
                entries = self._entries(job, packer)
                written = packer.finish()
                self._note_seen(job, spans)
                tree = trees.encode(job.captured.tree, self._encoded)
                key = objects.put(self.store, tree, durable=True)
                files = job.files(lambda data: objects.put(self.store, data, durable=True))
                roots = described(job, entries, spans, self._before)
                if job.held_since is not None:
                    job.stall_s = time.perf_counter() - job.held_since
                stats = {
                    **job.manifest.stats,
                    "stall_s": job.stall_s,
                    "background_s": time.perf_counter() - began,
                    "background_cpu_s": time.thread_time() - cpu,
                    "staged_bytes": sum(view.nbytes for view in job.staged.values()),
                    "new_bytes": written.new_bytes + len(tree),
                    "total_bytes": sum(entry.nbytes for entry in entries) + len(tree),
                }
                job.manifest = replace(job.manifest, tree=key, tree_bytes=len(tree), buffers=entries, roots=roots, files=files, stats=stats)
                if not self._settle():  # rows that a power loss took would be in no attempt: this state is after them
                    raise _Void
                manifests.write(self.store, job.manifest, self._rows)
            finally:
                self._packer = None
        if not job.is_second:
            for k, buffer in enumerate(job.captured.buffers):
                if not buffer.private:
                    self.changes.kept(buffer, job.names[k], job.watches.get(k))
        job.packs = written.packs
        job.written = True
        job.lost_s = job.stall_s + (time.thread_time() - cpu if job.held_since is None else 0.0)

    def _entries(self, job: Job, packer: Packer) -> tuple[Buffer, ...]:
        """What the manifest says of the buffers. Their chunks are in the store, or will be."""
        first, buffers = job.first, job.captured.buffers
        if first is not None and job.same_as:
            self._still_there(job, packer)
            if len(job.same_as) == len(buffers) == len(first.names) and all(map(operator.eq, *zip(*job.same_as.items(), strict=True))):
                job.names = first.names
                return first.manifest.buffers  # nothing is another
        packer.add_named([chunk for k, chunk in job.chunks.items() if not buffers[k].constant_hint])
        packer.add_named([chunk for k, chunk in job.chunks.items() if buffers[k].constant_hint], constant=True)
        entries = []
        for k, buffer in enumerate(buffers):
            same_as = job.same_as.get(k)
            if same_as is not None:
                assert first is not None
                job.names.append(first.names[same_as])
                entries.append(first.manifest.buffers[same_as])
                continue
            if k in job.chunks:
                names: Names = job.chunks[k][:1]
            elif k in job.staged:
                names = packer.add(job.staged[k], buffer.constant_hint)
            else:
                names = job.expected[k] if k in job.unwritten else self._prove(buffer, job.expected[k])
                self._held(buffer, names, packer)
            job.names.append(names)
            entries.append(Buffer.of(buffer.nbytes, names, buffer.constant_hint or k in job.expected))  # the tree knows where it is
        return tuple(entries)

    def _note_seen(self, job: Job, spans: Spans) -> None:
        """The digests of buffers of which not everything is seen. What is not copied is read from the store: it may be another by now."""
        for k, span in visible.of_buffers(job.captured.tree, spans).items():
            buffer, staged = job.captured.buffers[k], job.staged.get(k)
            if staged is not None:
                job.seen[buffer.key] = span, digest(staged[slice(*span)])
                continue
            known = self._seen.get((job.names[k], span))
            if known is None:
                first, last = span[0] // CHUNK_BYTES, -(-span[1] // CHUNK_BYTES)
                start = first * CHUNK_BYTES
                chunks = read_buffer(self.store, self.known, refs_of(buffer.nbytes, job.names[k])[first:last])
                known = digest(memoryview(chunks)[span[0] - start : span[1] - start])
            job.seen[buffer.key] = span, known
        self._seen = {
            (job.names[k], job.seen[buffer.key][0]): job.seen[buffer.key][1]
            for k, buffer in enumerate(job.captured.buffers)
            if buffer.key in job.seen
        }

    def _still_there(self, job: Job, packer: Packer) -> None:
        """What the first part has is in the store, and stays; what it was expected to have is so at the second part as well."""
        assert job.first is not None
        if job.first.proved_from < job.taken_at:  # else the proof of the first is one of both
            for k, same_as in job.same_as.items():
                if same_as in job.first.expected and k not in job.unwritten:
                    self._prove(job.captured.buffers[k], job.first.expected[same_as])
        if not packer.relies_on(job.first.packs):
            for k, same_as in job.same_as.items():
                self._held(job.captured.buffers[k], job.first.names[same_as], packer)

    def _held(self, buffer: Any, names: Names, packer: Packer) -> None:
        if packer.missing(names):  # removed from the store meanwhile: the next checkpoint writes it anew
            self.changes.forget(buffer)
            raise _Void

    def _prove(self, buffer: Any, expected: Names) -> Names:
        """Hash live memory that nothing should have changed."""
        if not proofs.holds(buffer, expected):
            self.changes.was_wrong(buffer)
            raise _Void
        return expected


def described(job: Job, entries: Sequence[Buffer], spans: Spans, before: Before) -> dict[str, Any]:
    """The roots of a state for its manifest: what each is called, its digest, how large it is, of which kind."""
    captured = job.captured
    parts = [job.seen.get(buffer.key) for buffer in captured.buffers] if job.seen else [None] * len(entries)
    memory = [part[1] if part is not None else bytes.fromhex(entry.digest) for part, entry in zip(parts, entries, strict=True)]
    wanted = [key for key in captured.tree.roots if key[0] not in trees.BESIDE]
    digests = root_digests(captured.tree, memory, wanted, seen=spans, before=before)
    sizes = captured.sizes()
    return {
        "/".join(str(part) for part in key): [digest, sizes.get(key, 0), captured.tree.nodes[captured.tree.roots[key]][0]]
        for key, digest in digests.items()
    }


def is_void(problem: Exception | None) -> bool:
    """Whether a checkpoint was given up because a hint was wrong: the next one copies what this one did not."""
    return isinstance(problem, _Void)


def is_of_the_disk(problem: Exception | None) -> bool:
    """Whether it is the disk that failed."""
    return isinstance(problem, (OSError, CheckpointError, StoreError))
