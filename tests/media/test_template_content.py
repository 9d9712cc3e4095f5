"""Content as lists of parts, where templates are told about tools and calls in text."""

from __future__ import annotations

from typing import Any

from media_service import TEMPLATE

from handlers.chat_jinja import environment
from handlers.template_forms import ChatTemplate, Conversation

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
LIST_ONLY = (
    "{% for m in messages %}{{ m.role }}:{% for p in m.content %}"
    "{% if p.type == 'image' %}[image]{% elif p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %};{% endfor %}"
)


def rendered(template: str, *messages: dict[str, Any], tools: list[dict[str, Any]] | None = None) -> str:
    """What a template makes of these messages."""
    made = ChatTemplate(environment(), template).render(Conversation(list(messages), tools), 1 << 20)
    assert made.fault is None
    return made.text


def user(*content: Any) -> dict[str, Any]:
    """A user's message of parts."""
    return {"role": "user", "content": list(content)}


def test_calls_told_in_text_stand_behind_the_parts() -> None:
    """A template without a place for calls shows them behind the image of the same message."""
    function = {"name": "look", "arguments": "{}", "object": {}}
    message = {
        "role": "assistant",
        "content": [{"type": "text", "text": "See"}, {"type": "image"}],
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }

    assert 'See<|vision_start|><|image_pad|><|vision_end|>\n<tool_call>\n{"name": "look"' in rendered(TEMPLATE, message)


def test_tools_are_told_behind_a_system_message_of_parts() -> None:
    """The image of the system message stays what it is."""
    system = {"role": "system", "content": [{"type": "image"}, {"type": "text", "text": "Be brief."}]}

    shown = rendered(TEMPLATE, system, user({"type": "text", "text": "x"}), tools=[TOOL])

    assert "<|image_pad|><|vision_end|>Be brief.\n\nYou may call functions" in shown


def test_texts_are_lists_where_a_template_shows_nothing_else() -> None:
    """A conversation of both gives every message in the form that the template reads."""
    shown = rendered(
        LIST_ONLY, {"role": "system", "content": "s"}, user({"type": "image"}, {"type": "text", "text": "x"})
    )

    assert shown == "system:s;user:[image]x;"


def test_audio_and_video_are_named_as_the_template_names_them() -> None:
    """By the first name that it has in its expressions, as type and as member."""
    audio, video = "{{ 'A' if 'audio_url' in p and p.audio_url.url }}", "{{ 'V' if p.type == 'video_url' }}"
    template = "{% for p in messages[0].content %}" + audio + video + "{% endfor %}"

    assert rendered(template, user({"type": "audio"}, {"type": "video"})) == "AV"
