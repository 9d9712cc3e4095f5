"""Checks a spec before anything is written: fields, rules, examples; all findings at once, with line and remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic_core import SchemaError, SchemaValidator
from pydantic_core import core_schema as cs

from tools.contract.package import Judge, Package
from tools.contract.search import ABSENT, Owner, Search, concrete
from tools.contract.values import base, expand
from tools.generate.cel import CelError, compile_rule
from tools.generate.load import Document, Where
from tools.generate.models import attribute
from tools.generate.shapes import Branch, Contract, Member, Model, Operation, Rule, Shape

NORMALISATIONS = {"empty-is-null": {"field"}, "drop-outside-int32": {"field"}, "set-when": {"field", "value", "when"}}
BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}


def check_fields(contract: Contract) -> None:
    """Find what is wrong with members, rules and normalisations as they are written; nothing is run."""
    requests = set(contract.reach(contract.requests))
    for model in contract.models.values():
        for member in model.members.values():
            if member.schema:  # what a dead reference gives is empty, and has been noted
                _member(contract, model, member, model.name in requests)
        _rules(contract, model)
        _normalisations(contract, model)
    rules: Where = ("components", "x-rules")
    for name in (contract.document.data.get("components") or {}).get("x-rules") or {}:
        if (*rules, name) not in contract.listed:
            advice = "list it under x-validations or remove it"
            contract.document.complain((*rules, name), f"no schema lists rule {name}; {advice}", blocks=False)


def _member(contract: Contract, model: Model, member: Member, request: bool) -> None:
    name, complain = f"{model.name}.{member.name}", contract.document.complain
    if not attribute(member.name):
        complain(member.where, f"{member.name} cannot be a Python attribute; rename the field")
    if not member.schema.get("description"):
        complain(member.where, f"{name} has no description; add one sentence", blocks=False)
    if not member.schema.get("x-source"):
        complain(member.where, f"{name} has no x-source; name the document that says so", blocks=False)
    if request and not member.required and not member.shape.nullable and not model.free_form:
        complain(member.where, f"{name} is optional and refuses null; add null to its type or require it", blocks=False)
    kinds = [branch.kind for branch in member.shape.branches]
    if request and len(kinds) != len(set(kinds)):
        complain(member.where, f"{name} has two alternatives of one JSON type; merge them")
    for branch in _branches(member.shape):
        number = branch.kind in ("integer", "number")
        low, high = (
            {"minimum", "exclusiveMinimum"} & set(branch.limits),
            {"maximum", "exclusiveMaximum"} & set(branch.limits),
        )
        if number and not (low and high) and "x-unbounded" not in branch.limits:
            advice = "add minimum and maximum, or x-unbounded and why"
            complain(member.where, f"{name} is a number without a range; {advice}", blocks=False)
        for word in sorted(BOUNDS & set(branch.limits)):
            if isinstance(branch.limits[word], str):
                complain(member.where, f"{name} has the text {branch.limits[word]!r} as {word}; write a number")
        if "pattern" in branch.limits:
            try:
                SchemaValidator(cs.str_schema(pattern=branch.limits["pattern"]))
                re.compile(branch.limits["pattern"])
            except (SchemaError, re.error):
                complain(member.where, f"{name} has a pattern that is no regular expression; correct it")


def _branches(shape: Shape) -> Iterator[Branch]:
    for branch in shape.branches:
        yield branch
        if branch.items is not None:
            yield from _branches(branch.items)


def _rules(contract: Contract, model: Model) -> None:
    names = [rule.id for rule in model.rules]
    for rule in model.rules:
        complain = contract.document.complain
        if names.count(rule.id) > 1:
            complain(rule.where, f"{model.name} has two rules with the id {rule.id}; rename or remove one")
        for name in rule.fields:
            if name.split(".")[0] not in model.members:
                why = f"which is no field of {model.name}; name one of its fields"
                complain(rule.where, f"rule {rule.id} blames {name}, {why}")
        try:
            compile_rule(rule.cel, contract, model.name)
        except CelError as error:
            complain((*rule.where, "rule"), f"rule {rule.id}: {error}")


def _normalisations(contract: Contract, model: Model) -> None:
    for index, step in enumerate(model.normalise):
        where: Where = (*model.where, "x-normalize", index)
        kind, name = step.get("kind"), step.get("field")
        if kind not in NORMALISATIONS:
            kinds = ", ".join(NORMALISATIONS)
            contract.document.complain(where, f"normalisation {kind} is unknown; use one of {kinds}")
        elif NORMALISATIONS[kind] - set(step):
            lacks = ", ".join(sorted(NORMALISATIONS[kind] - set(step)))
            contract.document.complain(where, f"normalisation {kind} lacks {lacks}; add it")
        elif name not in model.members:
            contract.document.complain(
                where, f"{kind} names {name}, which is no field of {model.name}; name one of its fields"
            )
        elif kind == "set-when":
            try:
                compile_rule(str(step["when"]), contract, model.name)
            except CelError as error:
                contract.document.complain(where, f"set-when for {name}: {error}")


def check_behaviour(contract: Contract, package: Package) -> None:
    """Find what only running shows: refused examples and defaults, rules that fail, never fire, or fire elsewhere."""
    document = contract.document
    searches = [Search(contract, Judge(package, request)) for request in contract.requests]
    places = [(search, owner, rule) for search in searches for owner in search.owners()
              for rule in contract.models[owner.model].rules]  # fmt: skip
    once = list({(owner.model, rule.where): (search, owner, rule) for search, owner, rule in places}.values())
    failing = [rule.id for search, owner, rule in once if not _runs(search, owner, rule)]
    if failing or not [search for search in searches if _base(search)] == searches:
        return  # nothing can be judged with a rule that fails, or from a base that is refused
    for search in searches:
        _examples(search)
    for search, owner, rule in once:
        _rule(search, owner, rule)
    for operation in contract.operations:
        if operation.request is not None:
            _bodies(document, Judge(package, operation.request), operation)


def _base(search: Search) -> bool:
    model = search.contract.models[search.judge.request]
    verdict = search.judge.verdict(search.start())
    if verdict.code:
        where = (*model.where, "x-base") if model.base else model.where
        search.contract.document.complain(
            where, f"the smallest {model.name} is refused ({verdict.code} at {verdict.param}); correct its x-base"
        )
    return not verdict.code


def _examples(search: Search) -> None:
    """Examples and defaults of every member, each put in its place."""
    document = search.contract.document
    for pattern, member, shape in search.contract.walk(search.judge.request):
        path = concrete(pattern)
        if pattern.endswith("[]"):
            continue
        tries = [("default", member.schema["default"])] if "default" in member.schema else []
        tries += [("example", expand(example)) for example in member.schema.get("examples", ())]
        for word, value in tries:
            if value is None and (word == "default" or shape.nullable):
                continue
            body = search.put(search.start(), path, value)
            if search.judge.broken(body) is None:
                says = search.judge.verdict(body)
                document.complain(
                    member.where,
                    f"{word} {_short(value)} of {pattern} is refused ({says.code} at {says.param}); correct it",
                )
            elif search.repair(body, path) is None:
                rule = (search.judge.broken(body) or [("?", ())])[0][0]
                document.complain(member.where, f"{word} {_short(value)} of {pattern} breaks rule {rule}; correct it")


def _rule(search: Search, owner: Owner, rule: Rule) -> None:
    document, judge = search.contract.document, search.judge
    server = judge.package.deployment(**rule.profile)
    entry = document.at(rule.where)
    bad, ok = search.example(owner, entry["example_bad"]), search.example(owner, entry["example_ok"])
    broken = judge.broken(bad, server)
    alone = [(rule.id, owner.path)]
    if broken != alone and search.witness(owner, rule, server) is None:
        document.complain(rule.where, f"rule {rule.id} is dead: no request breaks it alone; correct or remove it")
        return
    if broken is None:
        says = judge.verdict(bad, server)
        document.complain(
            (*rule.where, "example_bad"),
            f"example_bad of {rule.id} is refused for a field ({says.code} at {says.param}); correct it",
        )
    elif broken != alone:
        others = ", ".join(sorted({name for name, _ in broken} - {rule.id}))
        why = (
            f"breaks {others} instead"
            if rule.id not in dict(broken) and others
            else f"breaks {others} too"
            if others
            else "is accepted"
        )
        document.complain(
            (*rule.where, "example_bad"), f"example_bad of {rule.id} {why}; make it break this rule alone"
        )
    says = judge.verdict(ok, server)
    if says.code:
        document.complain(
            (*rule.where, "example_ok"), f"example_ok of {rule.id} is refused ({says.code} at {says.param}); correct it"
        )


def _runs(search: Search, owner: Owner, rule: Rule) -> bool:
    """Run a rule on every assignment: it must not fail, and under no other deployment than its own may it be broken."""
    document, rules = search.contract.document, search.judge.package.module("rules")
    server = search.judge.package.deployment(**rule.profile)
    source = search.compile(owner.model, rule).source
    holds = eval(f"lambda self, server: {source}", vars(rules))  # our own compiler's output
    models, fields_only = search.judge.package.module("models"), search.judge.package.module("base").FIELDS_ONLY
    model = getattr(models, owner.model)
    for _, changed in search.assignments(owner.model, rule, base(owner.model, search.contract)):
        try:
            instance = model.model_validate(changed, context=fields_only)
        except ValueError:
            continue
        try:
            holds(instance, server)
            outside = bool(rule.profile) and not holds(instance, search.judge.plain)
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            given = _short({name: value for name, value in changed.items() if value is not ABSENT})
            document.complain(
                (*rule.where, "rule"),
                f"rule {rule.id} fails for {given} ({_reason(error)}); guard it with has() or type() on the left",
            )
            return False
        if outside:
            document.complain(
                rule.where, f"rule {rule.id} is broken without its profile; ask server for the profile on the left"
            )
            return False
    return True


def _reason(error: Exception) -> str:
    return "a member is absent" if "None" in str(error) else "a value has another type"


def _bodies(document: Document, judge: Judge, operation: Operation) -> None:
    """The examples of a request body."""
    where: Where = ("paths", operation.path, operation.method, "requestBody")
    body, at = document.resolve(document.at(where), where)
    for name, entry in (body["content"]["application/json"].get("examples") or {}).items():
        says = judge.verdict(expand(entry.get("value")))
        if says.code:
            place: Where = (*at, "content", "application/json", "examples", name)
            document.complain(place, f"example {name} is refused ({says.code} at {says.param}); correct it")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
