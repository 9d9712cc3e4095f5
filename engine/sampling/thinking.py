"""A bound on one choice's chain of thought: when it is used up, the tokens that close the thought come next."""

from __future__ import annotations

from engine.types import ThinkingBudget


class ThinkingLimit:
    """Follows one choice's tokens through its thought, which stands at the start of the answer if anywhere."""

    __slots__ = ("_budget", "_ending", "_left", "_place")

    def __init__(self, budget: ThinkingBudget) -> None:
        """At the start of an answer."""
        self._budget = budget
        self._left = budget.tokens
        self._ending = budget.ending_ids or (budget.closing_id,)
        self._place = "inside" if budget.begun else "before"

    @classmethod
    def of(cls, budget: ThinkingBudget | None) -> ThinkingLimit | None:
        """A limit for one choice; None without a budget."""
        return None if budget is None else cls(budget)

    @property
    def closing_id(self) -> int:
        """The token that closes a thought."""
        return self._budget.closing_id

    @property
    def forced(self) -> int | None:
        """The token that must come next; None while any may."""
        return self._ending[-self._left] if self._place == "inside" and self._left <= 0 else None

    def take(self, token_id: int) -> None:
        """The choice goes on with this token."""
        if self._place == "before":
            self._place = "inside" if token_id == self._budget.opening_id else "after"
        elif self._place == "inside":
            self._left -= 1
            if token_id == self._budget.closing_id or -self._left == len(self._ending):
                self._place = "after"
