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

from datamodel_code_generator import InputFileType, PythonVersion, generate
from datamodel_code_generator.enums import DataModelType

from tools.generate.shapes import Branch, Contract, Shape

_HEAD = '''"""The schemas of the contract as pydantic models. Generated from the spec; do not edit."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictStr

from .base import ContractModel, Integer, Keys, NotNull, OneOf, RequestModel
'''


def models_source(contract: Contract) -> str:
    """The text of models.py, not yet formatted.

    Raises:
        RuntimeError: datamodel-code-generator gave something else than one module.
    """
    slots: dict[str, str] = {}
    schemas = {}
    for model in contract.models.values():
        properties = {}
        for member in model.members.values():
            slot = f"Slot{len(slots)}_"
            text = annotation(member.shape)
            if member.required:
                slots[slot] = text + (" | None" if member.shape.nullable else "")
            elif member.shape.nullable:
                slots[slot] = f"{text} | None = None"
            else:
                slots[slot] = f"Annotated[{text} | None, NotNull(), Field(exclude_if=lambda v: v is None)] = None"
            properties[member.name] = {
                "customTypePath": f"slots.{slot}", "description": str(member.schema.get("description") or ""),
            }  # fmt: skip
        required = [member.name for member in model.members.values() if member.required]
        schemas[model.name] = {
            "type": "object", "description": model.description, "required": required, "properties": properties,
        }  # fmt: skip
    copy = {"openapi": "3.1.0", "info": {"title": "contract", "version": "1"}, "paths": {},
            "components": {"schemas": schemas}}  # fmt: skip
    module = generate(
        json.dumps(copy),
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
    return _HEAD + _fill(module[module.index("\nclass ") :], slots)


def _fill(text: str, slots: dict[str, str]) -> str:
    """Put the real types in, and drop the configuration that only the placeholders needed."""
    text = re.sub(r"    model_config = ConfigDict\(\n        arbitrary_types_allowed=True,\n    \)\n", "", text)
    return re.sub(r"(Slot\d+_)(?: \| None = None)?", lambda found: slots[found.group(1)], text)


def annotation(shape: Shape) -> str:
    """The Python type of a shape, null left out."""
    parts = [_branch(branch, shape) for branch in shape.branches]
    if len(parts) == 1:
        return parts[0]
    tags = ", ".join(repr(branch.kind) for branch in shape.branches)
    return f"Annotated[{' | '.join(parts)}, OneOf({tags})]"


def _branch(branch: Branch, shape: Shape) -> str:
    limits = branch.limits
    if branch.kind == "string":
        return _string(branch)
    if branch.kind == "integer":
        other = f", openai_form={_integer({'not': None, **shape.openai_form})}" if shape.openai_form else ""
        return f"Annotated[int, {_integer(limits, other)}]"
    if branch.kind == "number":
        names = {"minimum": "ge", "exclusiveMinimum": "gt", "maximum": "le", "exclusiveMaximum": "lt"}
        bounds = "".join(f", {short}={limits[word]!r}" for word, short in names.items() if word in limits)
        return f"Annotated[float, Field(strict=True, allow_inf_nan=False{bounds})]"
    if branch.kind == "boolean":
        return f"Literal[{limits['const']}]" if "const" in limits else "StrictBool"
    if branch.kind == "list":
        lengths = _lengths(limits, "minItems", "maxItems")
        return f"Annotated[list[{_item(branch.items)}], Field(fail_fast=True{lengths})]"
    if branch.kind == "object":
        text = branch.model or f"dict[str, {_item(branch.items)}]"
        refused = tuple((limits.get("propertyNames") or {}).get("not", {}).get("enum", ()))
        return f"Annotated[{text}, Keys({', '.join(map(repr, refused))})]" if refused else text
    return "Any"


def _item(shape: Shape | None) -> str:
    return "Any" if shape is None else annotation(shape) + (" | None" if shape.nullable else "")


def _integer(limits: object, more: str = "") -> str:
    words = dict(limits) if isinstance(limits, dict) else {}
    low = words["exclusiveMinimum"] + 1 if "exclusiveMinimum" in words else words.get("minimum")
    high = words["exclusiveMaximum"] - 1 if "exclusiveMaximum" in words else words.get("maximum")
    banned = words.get("not") or {}
    values = tuple(banned["enum"]) if "enum" in banned else (banned["const"],) if "const" in banned else ()
    bounds = [f"{word}={value}" for word, value in (("ge", low), ("le", high)) if value is not None]
    bounds += [f"exclude={values}"] if values else []
    return f"Integer({', '.join(bounds)}{more})"


def _string(branch: Branch) -> str:
    limits = branch.limits
    values = [limits["const"]] if "const" in limits else [v for v in limits.get("enum", ()) if v is not None]
    if values and limits.get("x-ignore-case"):
        choice = "|".join(re.escape(value) for value in values)
        return f"Annotated[str, Field(strict=True, pattern={f'(?i)^(?:{choice})$'!r})]"
    if values:
        return f"Literal[{', '.join(map(repr, values))}]"
    lengths = _lengths(limits, "minLength", "maxLength")
    pattern = f", pattern={limits['pattern']!r}" if "pattern" in limits else ""
    return f"Annotated[str, Field(strict=True{lengths}{pattern})]" if lengths or pattern else "StrictStr"


def _lengths(limits: object, low: str, high: str) -> str:
    words = dict(limits) if isinstance(limits, dict) else {}
    return "".join(f", {to}={words[key]}" for key, to in ((low, "min_length"), (high, "max_length")) if key in words)


def attribute(name: str) -> bool:
    """Whether a member's name can be a model's attribute as it is."""
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith(("model_", "_"))
