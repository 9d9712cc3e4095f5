"""An encoder's forward in pieces: it has a thread of its own, which runs only while the engine waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from threading import Semaphore, Thread

import torch
from torch import Tensor, nn

from engine.attention.encoder import PAUSE

_PIECE_PRODUCTS = 50_000_000
"""Multiplications of a layer after which it may stop as well: some milliseconds of one core."""
_LEAST_ROWS = 64
"""But not for fewer rows: a product of few rows takes as long as its weights take to be read."""


class _Cancelled(BaseException):
    """Unwinds the encoder; no code between here and the thread's first call catches it."""


class Encoding:
    """One item's forward, stopped before some of its modules and continued there.

    The thread and its owner take turns, so that they never compute at the same time. A turn ends before the first
    module behind which it would probably be over: the way from there to the next one is taken to be as long as it ever
    was behind a module of the same kind and size. So a turn takes no longer than it may, or as long as one such way;
    and each gets further. Linear layers and patch embeddings among the modules compute each row for itself; they
    are run in pieces of their rows, and it may stop before each piece. So may attention through
    ``engine.attention.encoder``, where its module is among them.
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
        self._begun: tuple[Hashable, float] | None = None
        """Behind which kind of module the way to the next one began, and when; None before the first one."""
        self._longest_s: dict[Hashable, float] = {}
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
        hooks: list[Callable[[], None]] = []
        try:
            self._its.acquire()
            torch.set_num_threads(self._threads)
            hooks += [self._hook(module) for module in self._stops]
            self._found = self._encode()
        except _Cancelled:
            pass
        except BaseException as error:
            self._failure = error
        finally:
            for unhook in hooks:
                unhook()
            self._ended = True
            self._ours.release()

    def _hook(self, module: nn.Module) -> Callable[[], None]:
        """Stop before a module from now on; returns what ends that."""
        if not isinstance(module, nn.Linear | nn.Conv2d | nn.Conv3d):
            kind = type(module).__name__
            hook = module.register_forward_pre_hook(lambda *_: self._arrive(kind))
            vars(module)[PAUSE] = self._arrive

            def unhook() -> None:
                hook.remove()
                vars(module).pop(PAUSE, None)

            return unhook
        compute = module.forward
        size = tuple(module.weight.shape)
        count = max(_LEAST_ROWS, _PIECE_PRODUCTS // module.weight.numel())

        def in_pieces(rows: Tensor) -> Tensor:
            flat = rows.flatten(0, -2) if isinstance(module, nn.Linear) else rows  # [rows, ...]
            pieces = torch.split(flat, count)
            out = []
            for number, piece in enumerate(pieces):
                self._arrive((size, number == len(pieces) - 1))  # behind the last piece comes what is no layer
                out.append(compute(piece))
            joined = out[0] if len(out) == 1 else torch.cat(out)
            return joined.view(*rows.shape[:-1], -1) if isinstance(module, nn.Linear) else joined

        vars(module)["forward"] = in_pieces
        return lambda: vars(module).pop("forward", None)

    def _arrive(self, kind: Hashable) -> None:
        """The forward is about to enter a module, or a part of one, of this kind."""
        now_s = self._clock()
        if self._begun is not None:
            before, begun_s = self._begun
            self._longest_s[before] = max(self._longest_s.get(before, 0.0), now_s - begun_s)
        if now_s + self._longest_s.get(kind, max(self._longest_s.values(), default=0.0)) >= self._until_s:
            self._ours.release()
            self._its.acquire()
            if self._cancelled:
                raise _Cancelled
            now_s = self._clock()
        self._begun = kind, now_s
