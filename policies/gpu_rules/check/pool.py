"""Check many documents in parallel on all CPU cores."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import chain, islice
from typing import Final

from ..rules import Context
from .document import Source, judge
from .result import Judged

# Number of documents in a batch, which is sent to a worker process.
BATCH: Final = 250
# Maximum number of unfinished batches per worker process, which limits the memory use.
_AHEAD: Final = 3


def judge_all(
    sources: Iterable[Source], context: Context, *, keep: bool = False, workers: int | None = None
) -> Iterator[Judged]:
    """Check documents against the rules, and yield the results in the order of the documents.

    If there is only one worker or one batch of documents, no worker process is started.

    Args:
        sources: Documents to check.
        keep: Whether the results contain the objects, for rules that compare several objects.
        workers: Number of worker processes; default: one per CPU core that this process may use.
    """
    batches = _batches(sources)
    head = list(islice(batches, 2))
    workers = workers or len(os.sched_getaffinity(0))
    if len(head) < 2 or workers == 1:
        for batch in chain(head, batches):
            yield from _judge_batch(batch, context, keep)
        return
    with ProcessPoolExecutor(workers) as pool:
        under_way: deque[Future[list[Judged]]] = deque()
        for batch in chain(head, batches):
            under_way.append(pool.submit(_judge_batch, batch, context, keep))
            if len(under_way) > _AHEAD * workers:
                yield from under_way.popleft().result()
        for future in under_way:
            yield from future.result()


def _batches(sources: Iterable[Source]) -> Iterator[list[Source]]:
    iterator = iter(sources)
    while batch := list(islice(iterator, BATCH)):
        yield batch


def _judge_batch(batch: list[Source], context: Context, keep: bool) -> list[Judged]:
    return [judged for source in batch for judged in judge(source, context, keep=keep)]
