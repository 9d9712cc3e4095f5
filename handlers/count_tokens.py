"""POST /v1/tokenizer: how many tokens a text has, and which."""

from __future__ import annotations

import asyncio

from generated.models import TokenizerAnswer, TokenizerRequest
from generated.operations import CountTokens, CountTokensAnswer
from handlers.errors import refused
from handlers.prompt import OFF_LOOP_CHARS
from handlers.service import Service


class TokenizerHandler:
    """Asks the model's tokenizer; it is there before the model is loaded."""

    def __init__(self, service: Service) -> None:
        self._tokenizer = service.front.tokenizer

    async def count(self, request: TokenizerRequest) -> CountTokensAnswer:
        """Tokenise as the prompt of a completion.

        Raises:
            Problem: 422 for a text without any token.
        """
        shown = request.do_decode is not False
        if len(request.inputs) > OFF_LOOP_CHARS:
            count, tokens = await asyncio.to_thread(self._tokens, request.inputs, shown)
        else:
            count, tokens = self._tokens(request.inputs, shown)
        if not count:
            raise refused("out_of_range", "inputs gives no tokens with this model's tokenizer", "inputs")
        return CountTokens.Ok(TokenizerAnswer(token_number=count, tokens=tokens))

    def _tokens(self, text: str, shown: bool) -> tuple[int, list[str]]:
        ids = self._tokenizer.encode(text, add_special_tokens=True)
        if not shown:
            return len(ids), []
        detokenizer = self._tokenizer.detokenizer(skip_special_tokens=False)
        pieces = [detokenizer.push(token_id) for token_id in ids]
        return len(ids), [piece for piece in (*pieces, detokenizer.finish()) if piece]
