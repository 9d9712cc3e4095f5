"""The two endpoints that generate text, and how a request of each says the same thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

Json = dict[str, Any]

QUESTION: Final = "Tell me a long story about the sea, the wind, 人工智能 and 😀 😀 😀."


@dataclass(frozen=True)
class Side:
    """An endpoint."""

    name: Literal["chat", "completions"]
    path: str
    """Below the base path."""
    operation: str
    model: str
    """The generated model of its requests."""
    seed_least: int

    def body(self, model: str, text: str = QUESTION) -> Json:
        """The smallest request with this text."""
        if self.name == "chat":
            return {"model": model, "messages": [{"role": "user", "content": text}]}
        return {"model": model, "prompt": text}

    def logprobs(self, top: int) -> Json:
        """The members that ask for logprobs with so many candidates."""
        return {"logprobs": True, "top_logprobs": top} if self.name == "chat" else {"logprobs": top}

    @property
    def most_top(self) -> int:
        """Candidates at most."""
        return 20 if self.name == "chat" else 5


CHAT: Final = Side("chat", "/chat/completions", "create_chat_completion", "ChatCompletionRequest", 0)
COMPLETIONS: Final = Side("completions", "/completions", "create_completion", "CompletionRequest", 1)
SIDES: Final = (CHAT, COMPLETIONS)
