"""How families of models write tool calls: one small module a family, and here the table of them all."""

from __future__ import annotations

from typing import Final

from engine.text.parsers.chatglm3 import CHATGLM3
from engine.text.parsers.deepseek import DEEPSEEK_V3, DEEPSEEK_V31
from engine.text.parsers.family import ToolFamily
from engine.text.parsers.glm4 import GLM4
from engine.text.parsers.hermes import HERMES
from engine.text.parsers.llama3 import LLAMA3_JSON
from engine.text.parsers.mistral import MISTRAL

TOOL_FAMILIES: Final = (HERMES, MISTRAL, DEEPSEEK_V3, DEEPSEEK_V31, GLM4, CHATGLM3, LLAMA3_JSON)
"""In the order in which a template is searched for their marks."""


def tool_family(name: str) -> ToolFamily | None:
    """The family of this name or alias; None for none."""
    return next((family for family in TOOL_FAMILIES if name == family.name or name in family.aliases), None)


def tool_family_seen_in(template: str | None) -> ToolFamily:
    """The family whose marks a chat template's text has; Hermes where it has none, as the commonest."""
    return next((family for family in TOOL_FAMILIES if template is not None and family.seen_in(template)), HERMES)
