"""The CEL compiler against Google's CEL, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from cel_expr_python import cel

from generated import models, rules
from generated.base import FIELDS_ONLY
from generated.rules import Deployment
from tools.contract.search import Search
from tools.contract.values import base
from tools.generate.cel import CelError, compile_rule
from tools.generate.shapes import Contract, Model, Rule


def without_nulls(value: Any) -> Any:
    """A JSON value as a rule's `self`: null members removed at every level."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def oracle() -> Any:
    """Google's runtime with the two functions of Kubernetes' list library that it does not bring along."""
    listed, types = cel.Type.List(cel.Type.DYN), cel.Type
    overload = {
        "sum": (types.INT, sum),
        "distinct": (listed, lambda items: list(dict.fromkeys(items))),
    }
    functions = [
        cel.FunctionDecl(
            name, [cel.Overload(f"list_{name}", return_type=gives, parameters=[listed], is_member=True, impl=impl)]
        )
        for name, (gives, impl) in overload.items()
    ]
    return cel.NewEnv(variables={"self": types.DYN, "server": types.DYN}, functions=functions)


def every_rule(searches: list[Search]) -> list[tuple[Search, Model, Rule]]:
    """All rules of all schemas that a request holds."""
    return [
        (search, search.contract.models[owner.model], rule)
        for search in searches
        for owner in search.owners()
        for rule in search.contract.models[owner.model].rules
    ]


def test_compiled_rules_agree_with_google_cel_on_every_boundary_assignment(searches: list[Search]) -> None:
    """Each rule gives what Google's CEL gives, under no profile and under its own, wherever the fields allow."""
    environment, compared, broken = oracle(), 0, 0
    for search, model, rule in every_rule(searches):
        source = compile_rule(rule.cel, search.contract, model.name).source
        ours, theirs = eval(f"lambda self, server: {source}", vars(rules)), environment.compile(rule.cel)
        profile = rules.RULES_OF[model.name][rule.id].profile
        servers = [
            (server, {"features": sorted(server.features), "model_type": server.model_type})
            for server in {Deployment(), profile}
        ]
        for _, members in search.assignments(model.name, rule, base(model.name, search.contract)):
            try:
                instance = getattr(models, model.name).model_validate(members, context=FIELDS_ONLY)
            except ValueError:
                continue
            for server, plain in servers:
                said = theirs.eval(data={"self": without_nulls(members), "server": plain})
                assert said.type() == cel.Type.BOOL, (rule.id, members, said.plain_value())
                assert ours(instance, server) is said.value(), (rule.id, members, plain)
                compared, broken = compared + 1, broken + (said.value() is False)
    assert compared > 1500
    assert broken > 100


@pytest.mark.parametrize(
    ("expression", "python"),
    [
        ("has(self.n)", "self.n is not None"),
        ("!has(self.n)", "self.n is None"),
        ("has(self.n) && self.n > 1 || has(self.stop)", "self.n is not None and self.n > 1 or self.stop is not None"),
        ('"mtp" in server.features', "'mtp' in server.features"),
        ("type(self.tool_choice) == map", "not isinstance(self.tool_choice, str)"),
        ('self.model.startsWith("a")', "self.model.startswith('a')"),
        ('self.model.matches("^a+$")', "matches(self.model, '^a+$')"),
        ('self.model.lowerAscii() == "x"', "lower_ascii(self.model) == 'x'"),
        ("self.messages.exists(m, size(m.role) > 2)", "any((len(m.role) > 2 for m in self.messages))"),
        ("self.messages[0].role in ['user']", "self.messages[0].role in ['user']"),
        ("(self.n > 1 ? 1 : 0) == 1", "(1 if self.n > 1 else 0) == 1"),
    ],
)
def test_an_expression_becomes_this_python(contract: Contract, expression: str, python: str) -> None:
    """The emitted source is plain Python of the same meaning."""
    assert compile_rule(expression, contract, "ChatCompletionRequest").source == python


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("self.nope == 1", "has no field nope"),
        ("self.messages.exists(m, m.nope == 1)", "Message has no field nope"),
        ("nope(self.n) == 1", "function nope() is unknown"),
        ("self.n.nope() == 1", "function .nope() is unknown"),
        ("self.n ==", "syntax error"),
        ("self.n", "gives int, not true or false"),
        ("self.n && true", "&& needs true or false"),
        ("self.n == 'x'", "int is compared with string"),
        ("self.stream < true", "has no order"),
        ("self.n + 'x' == 2", "+ joins int and string"),
        ("self.n * 2 == 2", "is not supported"),
        ("other.n == 1", "other is unknown"),
        ("server.port == 1", "server.port is unknown"),
        ("type(self.stop) == duration", "type(x) can only be compared"),
        ("size(self.n) == 1", "size() is asked of int"),
        ("self.n.exists(x, x > 1)", ".exists() needs a list"),
        ("null == self.n", "is not supported"),
    ],
)
def test_an_expression_is_refused_with_a_reason(contract: Contract, expression: str, reason: str) -> None:
    """What the subset does not have, or what the schema does not have, is an error at generation."""
    with pytest.raises(CelError) as error:
        compile_rule(expression, contract, "ChatCompletionRequest")
    assert reason in str(error.value)
