"""What every generated model builds on: null and unknown members, exact integers, and the rules behind the fields.

Generated from the spec's tool chain; do not edit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError, ValidationInfo, model_validator
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError
from pydantic_core import core_schema as cs

from .rules import CHECKS, NORMALISERS, PLAIN, RULES_OF, Broken, Deployment, Enough, FirstBroken, Path, Rule


class ContractModel(BaseModel):
    """A schema of the contract. Unknown members are kept; a member that was never set is left out of the JSON."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    def wire(self) -> dict[str, Any]:
        """Plain data in the spec's key order; members that were never set are left out."""
        return self.model_dump(exclude_unset=True)

    def wire_json(self) -> str:
        """The same as compact JSON text."""
        return self.model_dump_json(exclude_unset=True)

    def check(self, deployment: Deployment | None = None) -> Broken | None:
        """Normalise this object, then give the first rule that it breaks under a deployment, if any."""
        server = deployment if deployment is not None else PLAIN
        name = type(self).__name__
        if name in NORMALISERS:
            NORMALISERS[name](self, server)
        if name not in CHECKS:
            return None
        first = FirstBroken(server)
        try:
            CHECKS[name](self, (), server, first)
        except Enough:
            return Broken(*first[0])
        return None

    def broken(self, deployment: Deployment) -> list[tuple[Rule, Path]]:
        """All rules that this object breaks as it stands, relaxed ones too, in the spec's order."""
        found: list[tuple[Rule, Path]] = []
        name = type(self).__name__
        if name in CHECKS:
            CHECKS[name](self, (), deployment, found)
        return found


FIELDS_ONLY: Final = Deployment(fields_only=True)
"""As validation context: check the fields and leave normalisations and rules to the caller."""


class RequestModel(ContractModel):
    """The body of a request: after its fields it is normalised and its rules run, under the deployment in the context."""

    @model_validator(mode="after")
    def _obey(self, info: ValidationInfo) -> RequestModel:
        server = info.context if isinstance(info.context, Deployment) else PLAIN
        if server.fields_only:
            return self
        if server.strict_unknown:
            for path in unknown(self):
                raise _refusal(self, PydanticCustomError("unknown_field", "unknown field"), path)
        broken = self.check(server)
        if broken is not None:
            rule = broken.rule
            context = {"message": rule.message, "fields": list(rule.fields)}
            raise _refusal(self, PydanticCustomError(rule.id, "{message}", context), broken.path)
        return self


def _refusal(model: BaseModel, error: PydanticCustomError, path: Path) -> ValidationError:
    details: list[InitErrorDetails] = [{"type": error, "loc": path, "input": None}]
    return ValidationError.from_exception_data(type(model).__name__, details, hide_input=True)


def unknown(model: ContractModel, prefix: Path = ()) -> Iterator[Path]:
    """Paths of the members that the contract does not know, the object's own first; free-form objects are skipped."""
    name = type(model).__name__
    if model.__pydantic_extra__ and name not in FREE_FORM:
        yield from ((*prefix, key) for key in model.__pydantic_extra__)
    for field in NESTED.get(name, ()):
        value = getattr(model, field)
        if isinstance(value, ContractModel):
            yield from unknown(value, (*prefix, field))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ContractModel) and not _all_known(item):
                    yield from unknown(item, (*prefix, field, index))


def _all_known(model: ContractModel) -> bool:
    """Whether there is nothing unknown in the object; long lists are mostly of such, and this is the fast way past."""
    name = type(model).__name__
    if model.__pydantic_extra__ and name not in FREE_FORM:
        return False
    members = model.__dict__
    for field in NESTED.get(name, ()):
        value = members.get(field)
        if isinstance(value, list):
            if not all(_all_known(item) for item in value if isinstance(item, ContractModel)):
                return False
        elif isinstance(value, ContractModel) and not _all_known(value):
            return False
    return True


FREE_FORM: Final = frozenset(["ChatTemplateKwargs"])
"""Models whose unknown members are the client's own."""
NESTED: Final[dict[str, tuple[str, ...]]] = {
    "ChatCompletionRequest": (
        "messages",
        "chat_template_kwargs",
        "tools",
        "tool_choice",
        "response_format",
        "stream_options",
    ),
    "CompletionRequest": ("response_format", "stream_options"),
    "Message": ("content", "tool_calls"),
    "Tool": ("function",),
    "NamedToolChoice": ("function",),
    "ResponseFormat": ("json_schema",),
    "ContentPart": ("image_url", "video_url", "audio_url", "input_audio"),
    "ToolCall": ("function",),
}
"""Members that may hold models, by model."""


@dataclass(frozen=True)
class Integer:
    """An integer within bounds, exact beyond 64 bits; an integral float (1.0, 1e2) counts, text and booleans do not."""

    ge: int | None = None
    le: int | None = None
    exclude: tuple[int, ...] = ()
    openai_form: Integer | None = None
    """The bounds where the deployment answers in OpenAI's form."""

    def allows(self, value: int) -> bool:
        """Whether a number is within these bounds."""
        low, high = self.ge is None or value >= self.ge, self.le is None or value <= self.le
        return low and high and value not in self.exclude

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if self.openai_form is None and not self.exclude:
            return _whole(self.ge, self.le, self)
        return cs.with_info_after_validator_function(self._judge, _whole(None, None, Integer()))

    def _judge(self, value: int, info: ValidationInfo) -> int:
        form = isinstance(info.context, Deployment) and info.context.openai_form
        bounds = self.openai_form if form and self.openai_form is not None else self
        if not bounds.allows(value):
            raise PydanticCustomError("not_allowed", "not an allowed number")
        return value


def _whole(ge: int | None, le: int | None, bounds: Integer) -> CoreSchema:
    """Integers in Rust; floats by a function, which also compares exactly where floats would round."""

    def convert(value: float) -> int:
        if not value.is_integer():
            raise PydanticCustomError("int_type", "not a whole number")
        if not bounds.allows(int(value)):
            raise PydanticCustomError("not_allowed", "not an allowed number")
        return int(value)

    plain = cs.int_schema(strict=True, ge=ge, le=le)
    decimal = cs.no_info_after_validator_function(convert, cs.float_schema(strict=True, allow_inf_nan=False))
    return cs.union_schema([(plain, "<integer>"), (decimal, "<decimal>")], mode="left_to_right")


class OneOf:
    """Marks a union whose branches differ in JSON type, and tags them with it, so that an error names its branch."""

    def __init__(self, *kinds: str) -> None:
        self.kinds = kinds

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        choices = [choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"]]
        tagged = [(choice, f"<{kind}>") for choice, kind in zip(choices, self.kinds, strict=True)]
        return cs.union_schema(list(tagged), mode="left_to_right")


class NotNull:
    """An optional member that may be left out and must not be null."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        return schema["schema"] if schema["type"] == "nullable" else schema


class Keys:
    """Refuses an object that has one of these keys."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return cs.no_info_after_validator_function(self._judge, handler(source))

    def _judge(self, value: Any) -> Any:
        given = value.__pydantic_extra__ if isinstance(value, BaseModel) else value
        for key in self.refused:
            if key in (given or ()):
                raise PydanticCustomError("refused_key", "a key that is not allowed", {"key": key})
        return value
