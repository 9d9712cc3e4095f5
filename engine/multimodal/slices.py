"""An encoder's forward in pieces: it has a thread of its own, which runs only while the engine waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Semaphore, Thread
from typing import Any

import torch
from torch import Tensor, nn


class _Cancelled(BaseException):
    """Unwinds the encoder; no code between here and the thread's first call catches it."""


class Encoding:
    """One item's forward, stopped before some of its modules and continued there.

    The thread and its owner take turns, so that they never compute at the same time. A turn ends before the first
    module behind which it would probably be over: the longest way between two modules so far is taken for the next one.
    So a turn takes no longer than it may, or as long as one such way; and each gets further.
    """

    def __init__(
        self,
        encode: Callable[[], Tensor],
        stops: Sequence[nn.Module],
        threads: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Args:
        encode: the forward; it is called at most once.
        stops: modules that it goes through; it may stop before each.
        threads: that it computes on.
        clock: seconds.
        """
        self._encode = encode
        self._stops = stops
        self._threads = threads
        self._clock = clock
        self._ours, self._its = Semaphore(0), Semaphore(0)
        self._thread = Thread(target=self._run, name="encoder", daemon=True)
        self._found: Tensor | None = None
        self._failure: BaseException | None = None
        self._ended = False
        self._begun_s: float | None = None
        """When the way to the next module began; None before the first one."""
        self._longest_s = 0.0
        self._until_s = 0.0
        self._cancelled = False

    def go_on(self, budget_s: float) -> bool:
        """Give the thread a turn of about so many seconds; whether it has come to its end."""
        self._until_s = self._clock() + budget_s
        self._hand_over()
        return self._ended

    def result(self) -> Tensor:
        """What the forward gave, after its end. Raises what it raised."""
        if self._failure is not None:
            raise self._failure
        assert self._found is not None, "the forward has not ended"
        return self._found

    def cancel(self) -> None:
        """End the forward where it stands; a second time is fine."""
        self._cancelled = True
        if self._thread.ident is not None and not self._ended:
            self._hand_over()

    def _hand_over(self) -> None:
        if self._thread.ident is None:
            self._thread.start()
        self._its.release()
        self._ours.acquire()

    @torch.inference_mode()
    def _run(self) -> None:
        hooks: list[Any] = []
        try:
            self._its.acquire()
            torch.set_num_threads(self._threads)
            hooks += [module.register_forward_pre_hook(self._arrive) for module in self._stops]
            self._found = self._encode()
        except _Cancelled:
            pass
        except BaseException as error:
            self._failure = error
        finally:
            for hook in hooks:
                hook.remove()
            self._ended = True
            self._ours.release()

    def _arrive(self, *_: object) -> None:
        """The forward is about to enter one of the modules."""
        now_s = self._clock()
        if self._begun_s is not None:
            self._longest_s = max(self._longest_s, now_s - self._begun_s)
        if now_s + self._longest_s >= self._until_s:
            self._ours.release()
            self._its.acquire()
            if self._cancelled:
                raise _Cancelled
            now_s = self._clock()
        self._begun_s = now_s
