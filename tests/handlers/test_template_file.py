"""Chat templates from files: what an operator deploys is checked at the start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from family_templates import tokenizer_of

from generated.models import ChatCompletionRequest
from handlers.prompt import PromptMaker
from handlers.settings import Limits, Settings
from handlers.template_file import MOST_BYTES, deployed_template
from handlers.template_pool import TemplatePool


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{% if true %}\n{% nonsense %}", r"is not valid Jinja \(line 2\): .*nonsense"),
        (b"\xff", "cannot be read: it is not UTF-8"),
        (b" " * (MOST_BYTES + 1), "has 1048577 bytes; at most 1048576 are read"),
    ],
)
def test_a_template_that_cannot_be_used_is_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    """The operator reads which file it is, and what is wrong with it."""
    file = tmp_path / "mine.jinja"
    file.write_bytes(content)

    with pytest.raises(ValueError, match=words) as caught:
        deployed_template(file)
    assert str(file) in str(caught.value)


async def test_the_deployed_template_stands_in_for_the_models(tmp_path: Path) -> None:
    """All requests without a template of their own are rendered with it."""
    file = tmp_path / "mine.jinja"
    file.write_text("{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}", encoding="utf-8")
    settings = Settings(model_name="m", chat_template=deployed_template(file))
    tokenizer = tokenizer_of("qwen3")
    maker = PromptMaker(tokenizer, settings, TemplatePool(settings))
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})

    ids = await maker.chat(ChatCompletionRequest.model_validate_json(raw), Limits(1000, 1000, 999), 100_000)

    assert tokenizer.decode(ids, skip_special_tokens=False) == "user=hi;"
