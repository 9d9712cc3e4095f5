"""Emits models.py: datamodel-code-generator writes the classes from a working copy, each member's type is filled in.

The working copy holds every object schema in dependency order, without defaults (a default filled in before the
rules run would make them judge what nobody sent) and with a placeholder type on every member, since the types need
more than the code generator knows: integral floats as integers, lists that stop at their first fault, unions with
known tags, bounds that depend on the deployment.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Mapping
from typing import Any

from datamodel_code_generator import InputFileType, PythonVersion, generate
from datamodel_code_generator.enums import DataModelType
from pydantic import BaseModel

from tools.generate.shapes import Branch, Contract, Model, Shape, allowed_texts, refused_keys, refused_values
from tools.generate.write import render

_PLACEHOLDER_CONFIG = "    model_config = ConfigDict(\n        arbitrary_types_allowed=True,\n    )\n"
"""What datamodel-code-generator adds for types that it does not know."""


def models_source(contract: Contract, template: str = "models.py.j2") -> str:
    """The text of models.py, or of another module of models, not yet formatted.

    Raises:
        RuntimeError: datamodel-code-generator gave something else than one module.
    """
    slots: dict[str, str] = {}
    schemas = {model.name: _schema(model, slots) for model in contract.models.values()}
    module = generate(
        json.dumps({"openapi": "3.1.0", "info": {}, "paths": {}, "components": {"schemas": schemas}}),
        input_file_type=InputFileType.OpenAPI,
        output_model_type=DataModelType.PydanticV2BaseModel,
        base_class="generated.base.ContractModel",
        base_class_map=dict.fromkeys(contract.requests, "generated.base.RequestModel"),
        disable_timestamp=True,
        use_schema_description=True,
        use_field_description=True,
        use_inline_field_description=True,
        strict_nullable=True,
        target_python_version=PythonVersion.PY_311,
        formatters=[],
    )
    if not isinstance(module, str):
        raise RuntimeError(f"datamodel-code-generator gave {type(module).__name__} where one module was expected")
    text = module[module.index("\nclass ") :].replace(_PLACEHOLDER_CONFIG, "")
    classes = re.sub(r"(Slot\d+_)(?: \| None = None)?", lambda found: slots[found.group(1)], text)
    return render(template, classes=classes)


def _schema(model: Model, slots: dict[str, str]) -> dict[str, Any]:
    """A model in the working copy; what its placeholders stand for is added to ``slots``."""
    properties = {}
    for member in model.members.values():
        slot, text = f"Slot{len(slots)}_", annotation(member.shape)
        if member.required:
            slots[slot] = text + (" | None" if member.shape.nullable else "")
        elif member.shape.nullable:
            slots[slot] = f"{text} | None = None"
        else:
            slots[slot] = f"Annotated[{text} | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None"
        properties[member.name] = {"customTypePath": f"slots.{slot}", **_described(member.schema)}
    required = [member.name for member in model.members.values() if member.required]
    return {"type": "object", "required": required, "properties": properties, **_described(model.schema)}


def _described(schema: Mapping[str, Any]) -> dict[str, str]:
    return {"description": str(schema.get("description") or "")}


def annotation(shape: Shape) -> str:
    """The Python type of a shape, null left out."""
    parts = [_branch(branch, shape) for branch in shape.branches]
    tags = ", ".join(repr(branch.kind) for branch in shape.branches)
    return parts[0] if len(parts) == 1 else f"Annotated[{' | '.join(parts)}, OneOf({tags})]"


def _branch(branch: Branch, shape: Shape) -> str:
    kind, limits = branch.kind, branch.limits
    if kind == "string":
        return _string(limits)
    if kind == "integer":
        other = f", openai_form={_integer(shape.openai_form)}" if shape.openai_form else ""
        return f"Annotated[int, {_integer(limits, other)}]"
    if kind == "number":
        bounds = _words(limits, minimum="ge", exclusiveMinimum="gt", maximum="le", exclusiveMaximum="lt")
        return f"Annotated[float, Field(strict=True, allow_inf_nan=False{bounds})]"
    if kind == "boolean":
        return f"Literal[{limits['const']}]" if "const" in limits else "StrictBool"
    item = "Any" if branch.items is None else annotation(branch.items) + " | None" * branch.items.nullable
    if kind == "list":
        lengths = _words(limits, minItems="min_length", maxItems="max_length")
        return f"Annotated[list[{item}], Field(fail_fast=True{lengths})]"
    text = branch.model or f"dict[str, {item}]" if kind == "object" else "Any"
    keys = ", ".join(map(repr, refused_keys(limits)))
    return f"Annotated[{text}, Keys({keys})]" if keys else text


def _words(limits: Mapping[str, Any], **names: str) -> str:
    """Keywords of JSON Schema as arguments of pydantic's Field."""
    return "".join(f", {name}={limits[word]!r}" for word, name in names.items() if word in limits)


def _integer(limits: Mapping[str, Any], more: str = "") -> str:
    low = limits["exclusiveMinimum"] + 1 if "exclusiveMinimum" in limits else limits.get("minimum")
    high = limits["exclusiveMaximum"] - 1 if "exclusiveMaximum" in limits else limits.get("maximum")
    bounds = {"ge": low, "le": high, "exclude": refused_values(limits) or None}
    return f"Integer({', '.join(f'{word}={value}' for word, value in bounds.items() if value is not None)}{more})"


def _string(limits: Mapping[str, Any]) -> str:
    values, choice = allowed_texts(limits), "|".join(map(re.escape, allowed_texts(limits)))
    if values and not limits.get("x-ignore-case"):
        return f"Literal[{', '.join(map(repr, values))}]"
    words = {**limits, "pattern": f"(?i)^(?:{choice})$"} if values else limits
    arguments = _words(words, minLength="min_length", maxLength="max_length", pattern="pattern")
    return f"Annotated[str, Field(strict=True{arguments})]" if arguments else "StrictStr"


def attribute(name: str) -> bool:
    """Whether a member's name can be a model's attribute as it is."""
    own = name.startswith("_") or (name.startswith("model_") and hasattr(BaseModel, name))
    return name.isidentifier() and not keyword.iskeyword(name) and not own
