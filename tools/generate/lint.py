"""Checks a spec before anything is written: fields, rules, examples; all findings at once, with line and remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic_core import SchemaError, SchemaValidator
from pydantic_core import core_schema as cs

from tools.contract.package import Judge, Package
from tools.contract.search import Owner, Search, concrete
from tools.contract.values import base, expand
from tools.generate.cel import CelError, compile_rule
from tools.generate.document import Where
from tools.generate.models import attribute
from tools.generate.shapes import Branch, Contract, Member, Model, Rule, Shape

NORMALISATIONS = {"empty-is-null": {"field"}, "drop-outside-int32": {"field"}, "set-when": {"field", "value", "when"}}
LOW, HIGH = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")


def check_fields(contract: Contract) -> None:
    """Find what is wrong with members, rules and normalisations as they are written; nothing is run."""
    requests, document = set(contract.reach(contract.requests)), contract.document
    for model in contract.models.values():
        for member in model.members.values():
            if member.schema:  # what a dead reference gives is empty, and has been noted
                for message, blocks in _member(model, member, model.name in requests):
                    document.complain(member.where, message, blocks=blocks)
        check_rules(contract, model)
        for index, step in enumerate(model.normalise):
            for message in _normalisation(contract, model, step):
                document.complain((*model.where, "x-normalize", index), message)
    for name in (document.data.get("components") or {}).get("x-rules") or {}:
        where: Where = ("components", "x-rules", name)
        if where not in contract.listed:
            advice = "list it under x-validations or remove it"
            document.complain(where, f"no schema lists rule {name}; {advice}", blocks=False)


def _member(model: Model, member: Member, request: bool) -> Iterator[tuple[str, bool]]:
    """What is wrong with a member, and whether that keeps the generated code from running."""
    name, kinds = f"{model.name}.{member.name}", [branch.kind for branch in member.shape.branches]
    if not attribute(member.name):
        yield f"{member.name} cannot be a Python attribute; rename the field", True
    if not member.schema.get("description"):
        yield f"{name} has no description; add one sentence", False
    if not member.schema.get("x-source"):
        yield f"{name} has no x-source; name the document that says so", False
    if request and not member.required and not member.shape.nullable and not model.free_form:
        yield f"{name} is optional and refuses null; add null to its type or require it", False
    if request and len(kinds) != len(set(kinds)):
        yield f"{name} has two alternatives of one JSON type; merge them", True
    for branch in branches(member.shape):
        limits = branch.limits
        for word in (word for word in LOW + HIGH if isinstance(limits.get(word), str)):
            yield f"{name} has the text {limits[word]!r} as {word}; write a number", True
        closed = "x-unbounded" in limits or (set(LOW) & set(limits) and set(HIGH) & set(limits))
        if branch.kind in ("integer", "number") and not closed:
            yield f"{name} is a number without a range; add minimum and maximum, or x-unbounded and why", False
        try:
            SchemaValidator(cs.str_schema(pattern=limits.get("pattern", "")))
            re.compile(limits.get("pattern", ""))
        except (SchemaError, re.error):
            yield f"{name} has a pattern that is no regular expression; correct it", True


def branches(shape: Shape) -> Iterator[Branch]:
    """What a shape allows, the items of lists too."""
    for branch in shape.branches:
        yield branch
        yield from branches(branch.items) if branch.items is not None else ()


def check_rules(contract: Contract, model: Model) -> None:
    """Find what is wrong with the rules of a schema as they are written."""
    names, complain = [rule.id for rule in model.rules], contract.document.complain
    for rule in model.rules:
        if names.count(rule.id) > 1:
            complain(rule.where, f"{model.name} has two rules with the id {rule.id}; rename or remove one")
        for name in (name for name in rule.fields if name.split(".")[0] not in model.members):
            complain(rule.where, f"rule {rule.id} blames {name}, {_nothing(model)}")
        try:
            compile_rule(rule.cel, contract, model.name)
        except CelError as error:
            complain((*rule.where, "rule"), f"rule {rule.id}: {error}")


def _nothing(model: Model) -> str:
    return f"which is no field of {model.name}; name one of its fields"


def _normalisation(contract: Contract, model: Model, step: dict[str, Any]) -> Iterator[str]:
    kind, name = step.get("kind"), step.get("field")
    needs = NORMALISATIONS.get(str(kind))
    if needs is None:
        yield f"normalisation {kind} is unknown; use one of {', '.join(NORMALISATIONS)}"
    elif needs - set(step):
        yield f"normalisation {kind} lacks {', '.join(sorted(needs - set(step)))}; add it"
    elif name not in model.members:
        yield f"{kind} names {name}, {_nothing(model)}"
    elif "when" in needs:
        try:
            compile_rule(str(step["when"]), contract, model.name)
        except CelError as error:
            yield f"set-when for {name}: {error}"


def check_behaviour(contract: Contract, package: Package) -> None:
    """Find what only running shows: refused examples and defaults, rules that fail, never fire, or fire elsewhere."""
    searches = {request: Search(contract, Judge(package, request)) for request in contract.requests}
    once = _once(searches)
    if not min((_runs(*place) for place in once.values()), default=True):
        return  # nothing can be judged with a rule that fails
    for request, search in searches.items():
        model = contract.models[request]
        if _accepts(search, (*model.where, "x-base"), f"the smallest {request}", search.start()):
            _examples(search)
            for key in [key for key, (found, _, _) in once.items() if found is search]:
                _rule(*once[key])
    for operation in contract.operations:
        if operation.request is not None:
            where: Where = ("paths", operation.path, operation.method, "requestBody")
            body, at = contract.document.resolve(contract.document.at(where), where)
            for name, entry in (body["content"]["application/json"].get("examples") or {}).items():
                place: Where = (*at, "content", "application/json", "examples", name)
                _accepts(searches[operation.request], place, f"example {name}", expand(entry.get("value")))


def rules_run(contract: Contract, package: Package) -> bool:
    """Whether every rule can be evaluated on whatever it may meet; those that cannot are findings."""
    searches = {request: Search(contract, Judge(package, request)) for request in contract.requests}
    return min((_runs(*place) for place in _once(searches).values()), default=True)


def _once(searches: dict[str, Search]) -> dict[tuple[str, Where], tuple[Search, Owner, Rule]]:
    """Every rule of a schema once, with a search in which it is met."""
    return {
        (owner.model, rule.where): (search, owner, rule)
        for search in searches.values()
        for owner in search.owners()
        for rule in search.contract.models[owner.model].rules
    }


def _accepts(search: Search, where: Where, what: str, body: Any, server: Any = None) -> bool:
    """Whether a body is accepted; if not, that is a finding."""
    says = search.judge.verdict(body, server)
    if says.code:
        refusal = f"{what} is refused ({says.code} at {says.param}); correct it"
        search.contract.document.complain(where, refusal)
    return not says.code


def _examples(search: Search) -> None:
    """Examples and defaults of every member, each put in its place."""
    for pattern, member, shape in search.contract.walk(search.judge.request):
        if pattern.endswith("[]"):
            continue
        tries = [("default", member.schema.get("default"))]
        tries += [("example", expand(example)) for example in member.schema.get("examples", ())]
        for word, value in tries:
            body, what = search.put(search.start(), concrete(pattern), value), f"{word} {_short(value)} of {pattern}"
            if value is None and (word == "default" or shape.nullable):
                continue
            if search.judge.broken(body) is None or search.repair(body, concrete(pattern)) is None:
                _accepts(search, member.where, what, body)


def _rule(search: Search, owner: Owner, rule: Rule) -> None:
    """The examples of a rule; and one request at least must break it alone."""
    complain, judge = search.contract.document.complain, search.judge
    server, entry = judge.package.deployment(**rule.profile), search.contract.document.at(rule.where)
    bad, alone = search.example(owner, entry["example_bad"]), [(rule.id, owner.path)]
    broken, where = judge.broken(bad, server), (*rule.where, "example_bad")
    if broken != alone and search.witness(owner, rule, server) is None:
        complain(rule.where, f"rule {rule.id} is dead: no request breaks it alone; correct or remove it")
        return
    if broken is None:
        _accepts(search, where, f"example_bad of {rule.id}", bad, server)
    elif broken != alone:
        others = ", ".join(sorted({name for name, _ in broken} - {rule.id}))
        why = f"breaks {others} {'too' if rule.id in dict(broken) else 'instead'}" if others else "is accepted"
        complain(where, f"example_bad of {rule.id} {why}; make it break this rule alone")
    ok = search.example(owner, entry["example_ok"])
    _accepts(search, (*rule.where, "example_ok"), f"example_ok of {rule.id}", ok, server)


def _runs(search: Search, owner: Owner, rule: Rule) -> bool:
    """Run a rule on every assignment: it must not fail, and under no other deployment than its own may it be broken."""
    complain, package = search.contract.document.complain, search.judge.package
    server, fields_only = package.deployment(**rule.profile), package.module("base").FIELDS_ONLY
    model, source = getattr(package.module("models"), owner.model), search.compile(owner.model, rule).source
    holds = eval(f"lambda self, server: {source}", vars(package.module("rules")))  # our own compiler's output
    for _, changed in search.assignments(owner.model, rule, base(owner.model, search.contract)):
        try:
            instance = model.model_validate(changed, context=fields_only)
        except ValueError:
            continue
        try:
            holds(instance, server)
            outside = bool(rule.profile) and not holds(instance, search.judge.plain)
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            why = "a member is absent" if "None" in str(error) else "a value has another type"
            advice = "guard it with has() or type() on the left"
            complain((*rule.where, "rule"), f"rule {rule.id} fails for {_short(changed)} ({why}); {advice}")
            return False
        if outside:
            advice = "ask server for the profile on the left"
            complain(rule.where, f"rule {rule.id} is broken without its profile; {advice}")
            return False
    return True


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
