"""What the ranks of one model tell each other besides tensors: orders of the first one, and what they agree on at load.

The pipes are between processes that one front has started; nothing else can reach them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Protocol

from engine.executor import RankLost
from engine.types import LoadFailureCause

if TYPE_CHECKING:
    from engine.plan import Plan


class RankFailure(Exception):
    """Another rank could not load; the message is its sentence."""

    def __init__(self, rank: int, sentence: str, cause: LoadFailureCause) -> None:
        super().__init__(f"Rank {rank}: {sentence}")
        self.load_failure_cause: LoadFailureCause = cause


@dataclass(frozen=True, slots=True)
class Run:
    """To a follower: run this step."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class CopyPages:
    """To a follower: see ``ModelRunner.copy_pages``."""

    source: Sequence[int]
    target: Sequence[int]


@dataclass(frozen=True, slots=True)
class CopyBeginning:
    """To a follower: see ``ModelRunner.copy_beginning``."""

    source: int
    target: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """To a follower: send it back."""


@dataclass(frozen=True, slots=True)
class Failed:
    """From a follower: it cannot load, and why; it ends."""

    sentence: str
    cause: LoadFailureCause


Order = Run | CopyPages | CopyBeginning | Answer


class Ranks(Protocol):
    """One rank's view of all of them, while they load."""

    rank: int
    size: int

    def exchange(self, value: Any) -> list[Any]:
        """Everybody's value, by rank, once all have given theirs; picklable. All ranks call it in the same order.

        Raises:
            RankFailure: a follower could not load.
            RankLost: a rank is gone.
        """
        ...


class Followers:
    """The first rank's ends of the pipes to the others."""

    rank = 0

    def __init__(self, pipes: Sequence[Connection]) -> None:
        """``pipes[0]`` is to rank 1, and so on."""
        self._pipes = list(pipes)
        self.size = len(pipes) + 1

    def exchange(self, value: Any) -> list[Any]:
        """See ``Ranks.exchange``."""
        values = [value, *map(self._receive, range(1, self.size))]
        self._send(values)
        return values

    def order(self, order: Order) -> None:
        """Give an order to all followers, which obey in turn.

        Raises:
            RankLost: one is gone.
        """
        self._send(order)

    def confirm(self) -> None:
        """Return once every follower has obeyed all orders and says so; one that hangs never does.

        Raises:
            RankLost: one is gone.
        """
        self._send(Answer())
        for rank in range(1, self.size):
            self._receive(rank)

    def raise_failure(self) -> None:
        """Raise what a follower has said of its failure to load, where one has said so by now.

        Raises:
            RankFailure: of the first such follower.
        """
        for rank, pipe in enumerate(self._pipes, 1):
            if pipe.poll():
                self._receive(rank)

    def _send(self, message: Any) -> None:
        for rank, pipe in enumerate(self._pipes, 1):
            try:
                pipe.send(message)
            except OSError as error:
                raise RankLost(f"rank {rank} is gone") from error

    def _receive(self, rank: int) -> Any:
        try:
            value = self._pipes[rank - 1].recv()
        except (EOFError, OSError) as error:
            raise RankLost(f"rank {rank} is gone") from error
        if isinstance(value, Failed):
            raise RankFailure(rank, value.sentence, value.cause)
        return value


class Leader:
    """A follower's end of the pipe to the first rank."""

    def __init__(self, pipe: Connection, rank: int, size: int) -> None:
        self._pipe = pipe
        self.rank = rank
        self.size = size

    def exchange(self, value: Any) -> list[Any]:
        """See ``Ranks.exchange``."""
        self.say(value)
        values: list[Any] = self.hear()
        return values

    def say(self, message: Any) -> None:
        """Tell the first rank something.

        Raises:
            RankLost: it is gone.
        """
        try:
            self._pipe.send(message)
        except OSError as error:
            raise RankLost("rank 0 is gone") from error

    def hear(self) -> Any:
        """What the first rank says next, when it does.

        Raises:
            RankLost: it is gone.
        """
        try:
            return self._pipe.recv()
        except (EOFError, OSError) as error:
            raise RankLost("rank 0 is gone") from error
