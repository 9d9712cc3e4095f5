"""The form that a server answers in, MindIE's or OpenAI's: both are right, and a server keeps to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tools.laws.breach import Breach
from tools.laws.table import broken

Form = Literal["MindIE's", "OpenAI's"]


@dataclass(slots=True)
class Forms:
    """What one server has shown of its form so far."""

    seen: Form | None = None
    by: str = ""
    """What showed it."""

    def hold(self, form: Form, by: str) -> list[Breach]:
        """Note what an answer shows, or find that an earlier one showed the other form."""
        if self.seen is None:
            self.seen, self.by = form, by
        if self.seen == form:
            return []
        return [broken("error-form", None, f"{by} has {form} form, but {self.by} before it had {self.seen}")]
