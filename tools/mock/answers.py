"""The two inference handlers of the mock: the server's own, with orders for the engine."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar

from engine.mock_orders import ORDERS, MockOrders
from engine.text.parsers.family import ToolFamily
from engine.text.parsers.hermes import HERMES
from generated.models import ChatCompletionRequest, CompletionRequest
from generated.operations import CreateChatCompletionAnswer, CreateCompletionAnswer
from handlers.call import Call as HttpCall
from handlers.chat import ChatHandler
from handlers.completions import CompletionHandler
from handlers.constraints import Held, held_chat, held_completion
from handlers.errors import Problem
from handlers.sampling import AnyRequest, most_tokens
from handlers.service import Service
from tools.mock.exchange import EXCHANGE, Exchange
from tools.mock.held import Grammars
from tools.mock.middleware import fail_as_wished
from tools.mock.wishes import Call, Wish

LONG_ENOUGH: Final = 64
"""Tokens after which finish=length cuts an answer whose request has no max_tokens."""
_SEED: Final = 1
"""Of requests that have none, so that equal requests get equal answers."""
_Body = TypeVar("_Body", ChatCompletionRequest, CompletionRequest)
_NO_TOOL: Final = "mock_function"
"""What is called where the request lists nothing."""


class Replies(Protocol):
    """A script."""

    def reply(self, body: AnyRequest) -> Wish:
        """What it wants of the answer to a request."""
        ...


class MockChat:
    """Answers one conversation."""

    def __init__(self, service: Service, call: HttpCall, script: Replies | None, grammars: Grammars) -> None:
        self._orders = _Orders(service, script, grammars)
        self._handler = ChatHandler(service, call)

    async def __call__(self, request: ChatCompletionRequest) -> CreateChatCompletionAnswer:
        """As the server, with orders. Raises Problem."""
        with _given(await self._orders.of(request)):
            return await self._handler(_seeded(request))


class MockCompletion:
    """Continues one text."""

    def __init__(self, service: Service, call: HttpCall, script: Replies | None, grammars: Grammars) -> None:
        self._orders = _Orders(service, script, grammars)
        self._handler = CompletionHandler(service, call)

    async def __call__(self, request: CompletionRequest) -> CreateCompletionAnswer:
        """As the server, with orders. Raises Problem."""
        with _given(await self._orders.of(request)):
            return await self._handler(_seeded(request))


def _seeded(body: _Body) -> _Body:
    return body if body.seed is not None else body.model_copy(update={"seed": _SEED})


@contextmanager
def _given(orders: MockOrders) -> Generator[None, None, None]:
    token = ORDERS.set(orders)
    try:
        yield
    finally:
        ORDERS.reset(token)


class _Orders:
    """Turns what is wanted of an answer into orders that the request allows."""

    def __init__(self, service: Service, script: Replies | None, grammars: Grammars) -> None:
        self._service = service
        self._script = script
        self._grammars = grammars

    async def of(self, body: AnyRequest) -> MockOrders:
        """The orders for a request. Raises Problem where an error is wanted."""
        exchange = EXCHANGE.get() or Exchange(Wish())
        wish = exchange.wish
        if self._script is not None:
            wish = wish.over(self._script.reply(body))
            await fail_as_wished(wish, self._service)
        exchange.cut = wish.disconnect_after is not None
        tokens = wish.tokens
        if wish.finish == "length" and tokens is None and most_tokens(body) is None and not wish.writes:
            tokens = LONG_ENOUGH
        return MockOrders(
            text=await self._text(body, wish),
            tokens=tokens,
            finish=wish.finish if wish.finish != "tool_calls" else None,
            ttft_s=wish.ttft_s or 0.0,
            token_s=wish.slow_token_s or 0.0,
            fail_after=wish.disconnect_after or wish.error_after,
            seed_ignored=wish.seed_ignored,
            cached_tokens=wish.cached_tokens or 0,
        )

    async def _text(self, body: AnyRequest, wish: Wish) -> str | None:
        """What is written; None for made-up text, or what the request itself holds the answer to."""
        if not wish.writes and wish.finish != "tool_calls":
            return None
        held = await self._held(body)
        answer: str | None = None
        if wish.content is not None or wish.tool_calls or wish.finish == "tool_calls":
            answer = (wish.content or "") + await self._calls(body, wish)
            if held.grammar is not None and not self._grammars.allow(held.grammar, answer):
                answer = held.text or await self._example(body)
        thought = self._thought(body, wish.reasoning_content)
        if not thought:
            return answer
        return thought + (answer if answer is not None else held.text or "")

    async def _held(self, body: AnyRequest) -> Held:
        if isinstance(body, ChatCompletionRequest):
            return await held_chat(self._service, body, None)
        return await held_completion(self._service, body, None)

    def _thought(self, body: AnyRequest, reasoning: str | None) -> str:
        """Thinking between the marks of the deployment's family, unless the request turns it off."""
        family = self._service.forms.thinking
        kwargs = body.chat_template_kwargs if isinstance(body, ChatCompletionRequest) else None
        if reasoning is None or family is None or (kwargs is not None and kwargs.enable_thinking is False):
            return ""
        return f"{family.opening}\n{reasoning}\n{family.closing}\n\n"

    async def _calls(self, body: AnyRequest, wish: Wish) -> str:
        """Tool calls in the form of the deployment's family."""
        if wish.tool_calls:
            return _written(self._service.forms.tools or HERMES, wish.tool_calls)
        return await self._example(body) if wish.finish == "tool_calls" else ""

    async def _example(self, body: AnyRequest) -> str:
        """A call that the request's tools allow; of a function of no meaning where it lists none."""
        family = self._service.forms.tools or HERMES
        tools = body.tools if isinstance(body, ChatCompletionRequest) else None
        if not tools or not isinstance(body, ChatCompletionRequest):
            return _written(family, (Call(_NO_TOOL, {}),))
        asked = body.model_copy(update={"use_beam_search": None, "response_format": None})
        if body.tool_choice in (None, "auto", "none"):
            asked.tool_choice = "required"
        try:
            held = await held_chat(self._service, asked, None)
        except Problem:  # a schema of which no example can be made, or a family that is never held to one
            return _written(family, (Call(tools[0].function.name, {}),))
        return held.text or ""


def _written(family: ToolFamily, calls: tuple[Call, ...]) -> str:
    texts = []
    for call in calls:
        arguments: Any = call.arguments
        text = arguments if isinstance(arguments, str) else family.arguments_as(arguments)
        texts.append(f"{family.head_of(call.name)}{text}{family.tail}")
    return family.opens + family.between.join(texts) + family.closes
