"""What differs between two schemas, member by member and keyword by keyword; the wire is asked elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tools.diff.change import Change, Side
from tools.diff.limits import narrows
from tools.diff.version import Version
from tools.generate.document import Where
from tools.generate.shapes import Branch, Member, Model, Shape

VALUES: Final = ".*"
"""After a pattern: the values of an object whose names are free."""
_NUMBERS: Final = ("integer", "number")
_OF_FORMS: Final = ("minimum", "not")
"""Keywords by which two forms of bounds are compared."""


@dataclass(frozen=True)
class Spot:
    """One path pattern of a model: what may stand there."""

    member: Member
    shape: Shape


def spots(version: Version, model: str) -> dict[str, Spot]:
    """Every path pattern below a model; ``logprobs.*`` are the values of an object whose names are free."""
    found: dict[str, Spot] = {}
    for pattern, member, shape in version.contract.walk(model):
        found.setdefault(pattern, Spot(member, shape))
        for branch in shape.branches:
            if branch.kind == "object" and branch.items is not None:
                found.setdefault(pattern + VALUES, Spot(member, branch.items))
    return found


def is_inner(pattern: str) -> bool:
    """Whether a pattern is for items or values, not for a member with a name."""
    return pattern.endswith(("[]", VALUES))


def line(version: Version, where: Where) -> int:
    """The line of a place, or of its nearest ancestor that has one."""
    lines = version.contract.document.lines
    while where not in lines and where:
        where = where[:-1]
    return lines.get(where, 1)


def compare_models(side: Side, old: Version, new: Version, models: tuple[str, str]) -> Iterator[Change]:
    """All that differs between a model and its successor; for answers, ``narrows`` is what takes from a reader."""
    before, after = spots(old, models[0]), spots(new, models[1])
    for pattern, spot in before.items():
        if pattern not in after:
            if _there(pattern, after):
                where = line(old, spot.member.where)
                yield Change(side, pattern, "member", _said(spot), None, narrows=True, widens=False, line_old=where)
            continue
        other = after[pattern]
        for change in _spot(side, pattern, spot, other):
            change.line_old, change.line_new = _line_of(old, spot, change), _line_of(new, other, change)
            yield change
    for pattern, spot in after.items():
        if pattern not in before and _there(pattern, before):
            needed = spot.member.required
            # A new member takes nothing from those who read answers, a new required one much from those who ask.
            yield Change(
                side, pattern, "member", None, _said(spot), narrows=needed and side == "request", widens=not needed,
                line_new=line(new, spot.member.where),
            )  # fmt: skip


def _there(pattern: str, others: Mapping[str, Spot]) -> bool:
    """Whether a pattern that others lack is the topmost one of its kind that they lack."""
    if is_inner(pattern):
        return False  # the type of the list or object says it
    owner = pattern.rpartition(".")[0]
    if not owner:
        return True
    return owner in others and any(branch.model for branch in others[owner].shape.branches)


def _said(spot: Spot) -> str:
    kinds = " or ".join((*spot.shape.kinds, *(["null"] if spot.shape.nullable else [])))
    return f"{'required' if spot.member.required else 'optional'} {kinds}"


def _line_of(version: Version, spot: Spot, change: Change) -> int:
    """The keyword's line where it has one."""
    where = spot.shape.where if is_inner(change.where) else spot.member.where
    _, at = version.contract.document.resolve(version.contract.document.at(where), where)
    return (
        line(version, (*at, change.keyword))
        if (*at, change.keyword) in version.contract.document.lines
        else line(version, at)
    )


def _spot(side: Side, pattern: str, old: Spot, new: Spot) -> Iterator[Change]:
    """What differs at one pattern that both have."""
    if _types(old.shape, new.shape) or _types(new.shape, old.shape):
        lost, won = _types(old.shape, new.shape), _types(new.shape, old.shape)
        yield _change(side, pattern, "type", (_kinds(old.shape), _kinds(new.shape)), lost, won)
    if not is_inner(pattern):
        needed = old.member.required, new.member.required
        if needed[0] != needed[1]:
            yield _change(side, pattern, "required", needed, needed[1], needed[0])
        yield from _default(side, pattern, old.member, new.member)
    for mine, other in _pairs(old.shape, new.shape):
        for keyword in sorted({*mine.limits, *other.limits}):
            values = mine.limits.get(keyword), other.limits.get(keyword)
            if not same(*values) or (keyword in mine.limits) != (keyword in other.limits):
                narrower = narrows(keyword, other.kind, mine.limits, other.limits)
                wider = narrows(keyword, other.kind, other.limits, mine.limits)
                yield _change(side, pattern, keyword, values, narrower, wider)
        if (mine.items is None) != (other.items is None):
            held = mine.items is not None, other.items is not None
            yield _change(
                side, pattern, "items" if mine.kind == "list" else "additionalProperties", held, held[1], held[0]
            )
        if mine.free_form != other.free_form:
            free = mine.free_form, other.free_form
            yield _change(side, pattern, "x-free-form", free, free[0], free[1])
    forms = old.shape.openai_form, new.shape.openai_form
    if forms[0] != forms[1]:
        # Without a form of its own a member has its ordinary limits there.
        limits = [form if form is not None else spot.shape.branches[0].limits
                  for form, spot in zip(forms, (old, new), strict=True)]  # fmt: skip
        narrower = any(narrows(word, "integer", limits[0], limits[1]) for word in _OF_FORMS)
        wider = any(narrows(word, "integer", limits[1], limits[0]) for word in _OF_FORMS)
        yield _change(side, pattern, "x-openai-form", forms, narrower, wider)


def _change(side: Side, pattern: str, keyword: str, values: tuple[Any, Any], narrower: bool, wider: bool) -> Change:
    """A change of a keyword; who reads answers loses by what is wider."""
    loses, gains = (wider, narrower) if side == "answer" else (narrower, wider)
    return Change(side, pattern, keyword, values[0], values[1], narrows=loses, widens=gains)


def _default(side: Side, pattern: str, old: Member, new: Member) -> Iterator[Change]:
    """A default that is another one: requests without the member mean something else."""
    before, after = old.schema.get("default"), new.schema.get("default")
    if same(before, after):
        if ("default" in old.schema) != ("default" in new.schema):
            note = "null and no default mean the same"
            yield Change(side, pattern, "default", before, after, narrows=False, widens=False, note=note)
    else:  # of answers a default says nothing
        yield Change(side, pattern, "default", before, after, narrows=side == "request", widens=False)


def same(before: Any, after: Any) -> bool:
    """Equal, and of one JSON type: 1 and true are not the same."""
    return (type(before) is type(after) and before == after) or (
        isinstance(before, int | float) and isinstance(after, int | float)
        and bool not in (type(before), type(after)) and before == after
    )  # fmt: skip


def _kinds(shape: Shape) -> str:
    return " or ".join((*shape.kinds, *(["null"] if shape.nullable else [])))


def _types(old: Shape, new: Shape) -> bool:
    """Whether the new shape lacks a JSON type that the old one has."""
    kinds = {*new.kinds} | ({"integer"} if "number" in new.kinds else set())
    return ("any" not in kinds and (bool({*old.kinds} - kinds))) or (old.nullable and not new.nullable)


def _pairs(old: Shape, new: Shape) -> Iterator[tuple[Branch, Branch]]:
    """Branches of one JSON type; a whole number and a number are compared with each other."""
    for branch in old.branches:
        other = new.of(branch.kind)
        if other is None and branch.kind in _NUMBERS:
            other = next((new.of(kind) for kind in _NUMBERS if new.of(kind)), None)
        if other is not None:
            yield branch, other


def model_pairs(old: Version, new: Version, roots: tuple[str, str]) -> list[tuple[Model, Model]]:
    """A request's model and those below it, each with the one that stands at the same place in the other version."""
    before, after = spots(old, roots[0]), spots(new, roots[1])
    names = [roots]
    for pattern in (pattern for pattern in before if pattern in after):
        ours, theirs = ([b.model for b in spot.shape.branches if b.model] for spot in (before[pattern], after[pattern]))
        names += list(zip(ours, theirs, strict=False))
    return [(old.contract.models[a], new.contract.models[b]) for a, b in dict.fromkeys(names)]
