"""The application of `mindspec mock`: the server's chain with one layer more, and its handlers under orders."""

from __future__ import annotations

from functools import partial

from starlette.types import ASGIApp

from generated.operations import CreateChatCompletionHandler, CreateCompletionHandler
from handlers.app import build, operations
from handlers.call import Call
from handlers.dispatch import WithBody
from handlers.service import Service
from tools.mock.answers import MockChat, MockCompletion, Replies
from tools.mock.held import Grammars
from tools.mock.middleware import MockMiddleware


def mock_app(service: Service, script: Replies | None = None) -> ASGIApp:
    """The ASGI application around a service whose front is a ``MockFront``."""
    grammars = Grammars(service.front.tokenizer)

    def chat(call: Call) -> CreateChatCompletionHandler:
        return MockChat(service, call, script, grammars)

    def completion(call: Call) -> CreateCompletionHandler:
        return MockCompletion(service, call, script, grammars)

    handlers = operations(service)
    handlers["create_chat_completion"] = WithBody(chat)
    handlers["create_completion"] = WithBody(completion)
    app: ASGIApp = build(service, handlers, layers=[partial(MockMiddleware, service=service)])
    return app
