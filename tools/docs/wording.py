"""What the published documents say around the contract's own texts, in one language."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tools.generate.fields import words
from tools.generate.shapes import Shape


@dataclass(frozen=True)
class Wording:
    """The phrases of one language; ``{}`` stands for what is filled in."""

    guide: str
    """The file beside the spec with what a reader needs besides the single operations."""
    words: Callable[[Shape], str]
    """What a value may be."""
    text: Callable[[str], str]
    """A text of the contract in this language."""
    allowed: str
    openai_form: str
    required: str
    default: str
    no_default: str
    null_is_absent: str
    null_is_refused: str
    source: str
    as_its_parts: str
    between: str
    end: str
    rules: str
    """What stands above the rules of an operation."""
    rule: str
    """One rule: id, members to blame, message."""
    profile_rules: str
    profile: str
    both: str
    relaxable: str
    passes: str
    refused: str
    times: str
    table: str
    head: str
    needed: str


_RULES = """\
### Rules

When every member is allowed by itself, these rules are asked in this order. The first that is broken is the answer:
422, its id as `code`, the first member in brackets as `param`. Each is shown with a request that passes and one that is
refused for this rule alone."""

ENGLISH = Wording(
    guide="guide.md",
    words=words,
    text=lambda text: text,
    allowed="Allowed: {}",
    openai_form="In OpenAI's form: {}",
    required="Required",
    default="Default: {}",
    no_default="none",
    null_is_absent="null counts as absent",
    null_is_refused="null is refused",
    source="Source: {}",
    as_its_parts="as its parts",
    between=". ",
    end=".",
    rules=_RULES,
    rule="**`{}`** [{}]: {}.",
    profile_rules="{} rules of deployment profiles, asked after these",
    profile="*Only where the deployment declares {}.*",
    both=" and ",
    relaxable="*A deployment may relax it.*",
    passes="passes",
    refused="refused",
    times="{} ... {} times",
    table="All {} parameters as a table",
    head="| Parameter | May be | Default | Source |",
    needed="(required)",
)
