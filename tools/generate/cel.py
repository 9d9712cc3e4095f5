"""Compiles CEL rules to Python expressions: cel-python's parser, types from the spec, one Python AST node per CEL node.

The meaning follows the CEL language definition for the functions listed here, with ``self`` a model whose null
members count as absent and ``server`` the deployment. CEL's ``||`` forgives an error on one side when the other side
is true; Python's ``or`` does not, so a guard must stand to the left of what it guards (the search proves it).
"""

from __future__ import annotations

import ast
import keyword
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from celpy.celparser import CELParseError, CELParser
from lark import Token, Tree

from tools.generate.shapes import Contract, Shape

Type = str | tuple[Any, ...]
"""``bool``, ``int``, ``double``, ``string``, ``dyn``, ``server``, ("list", item), ("map", model), ("any_of", …)."""

_SCALAR: dict[str, Type] = {"string": "string", "integer": "int", "number": "double", "boolean": "bool", "any": "dyn"}
_PYTHON = {"string": "str", "list": "list", "map": "dict", "int": "int", "double": "float", "bool": "bool"}
_SERVER: dict[str, Type] = {"features": ("list", "string"), "model_type": "string"}
_COMPARE = {"lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE, "eq": ast.Eq, "ne": ast.NotEq, "in": ast.In}
_THROUGH = {"expr", "conditionalor", "conditionaland", "relation", "addition", "multiplication", "unary", "member",
            "primary", "paren_expr"}  # fmt: skip
"""Nodes of the grammar that stand for their only child."""
_LITERALS: dict[str, tuple[Any, Type]] = {
    "INT_LIT": (lambda text: int(text, 0), "int"), "FLOAT_LIT": (float, "double"),
    "BOOL_LIT": (lambda text: text == "true", "bool"), "STRING_LIT": (ast.literal_eval, "string"),
}  # fmt: skip
_MACROS = ("exists", "all", "map", "filter")
_METHODS = ("size", "sum", "distinct", "lowerAscii", "startsWith", "endsWith", "contains", "matches")
"""The last four take an argument."""


class CelError(Exception):
    """A rule that cannot be compiled; the message says why and what to do."""


@dataclass(frozen=True)
class Compiled:
    """A rule as Python source over ``self`` and ``server``, with the members of ``self`` it reads."""

    source: str
    fields: tuple[str, ...]
    numbers: tuple[int, ...]
    """Integer literals in the rule, ascending: lengths and counts worth trying."""
    texts: tuple[str, ...]
    """String literals in the rule, sorted: values worth trying."""


def compile_rule(cel: str, contract: Contract, model: str) -> Compiled:
    """Compile a boolean CEL expression over an instance of a model.

    Raises:
        CelError: syntax, an unknown function, a member that the schema does not have, or types that do not fit.
    """
    try:
        tree = _parsed(cel)
    except CELParseError as error:
        place = f" at column {error.column}" if error.column else ""
        raise CelError(f"CEL syntax error{place}; correct the expression") from None
    compiler = _Compiler(contract, {"self": ("map", model), "server": "server"})
    node, kind = compiler.visit(tree)
    if kind != "bool":
        raise CelError(f"the rule gives {_name(kind)}, not true or false; write a condition")
    source = ast.unparse(ast.fix_missing_locations(node))
    numbers = sorted({literal for literal in compiler.literals if isinstance(literal, int)})
    texts = sorted({literal for literal in compiler.literals if isinstance(literal, str)})
    return Compiled(source, tuple(sorted(compiler.fields)), tuple(numbers), tuple(texts))


@lru_cache(maxsize=1024)
def _parsed(cel: str) -> Any:
    """The syntax tree of a rule; most rules are compiled several times, for several schemas and versions."""
    return CELParser().parse(cel)


def type_of(shape: Shape) -> Type:
    """The CEL type of a value of a shape."""
    kinds: list[Type] = []
    for branch in shape.branches:
        item = type_of(branch.items) if branch.items is not None else "dyn"
        kinds.append(_SCALAR.get(branch.kind) or (("list", item) if branch.kind == "list" else ("map", branch.model)))
    return kinds[0] if len(kinds) == 1 else ("any_of", *kinds)


def _options(kind: Type) -> tuple[Type, ...]:
    return tuple(kind[1:]) if kind[0] == "any_of" else (kind,)


def _name(kind: Type) -> str:
    return " or ".join(option if isinstance(option, str) else option[0] for option in _options(kind))


def _family(kind: Type) -> set[str]:
    names = {option if isinstance(option, str) else str(option[0]) for option in _options(kind)}
    return {"number" if name in ("int", "double") else name for name in names}


@dataclass
class _Compiler:
    """One pass over the parse tree; every visit gives a Python node and its CEL type."""

    contract: Contract
    names: dict[str, Type]
    fields: set[str] = field(default_factory=set)
    literals: list[int | str] = field(default_factory=list)

    def visit(self, tree: Any) -> tuple[ast.expr, Type]:
        while tree.data in _THROUGH and len(tree.children) == 1:
            tree = tree.children[0]
        visitor = getattr(self, f"on_{tree.data}", None)
        if visitor is None:
            raise CelError(f"CEL construct {tree.data} is not supported; use the documented subset")
        found: tuple[ast.expr, Type] = visitor(*tree.children)
        return found

    def boolean(self, tree: Any, where: str) -> ast.expr:
        node, kind = self.visit(tree)
        if kind not in ("bool", "dyn"):
            raise CelError(f"{where} needs true or false and is given {_name(kind)}; compare it with something")
        return node

    def on_expr(self, test: Any, yes: Any, no: Any) -> tuple[ast.expr, Type]:
        guard, (left, kind), (right, other) = self.boolean(test, "?:"), self.visit(yes), self.visit(no)
        return ast.IfExp(guard, left, right), kind if kind == other else ("any_of", *_options(kind), *_options(other))

    def on_conditionalor(self, *parts: Any) -> tuple[ast.expr, Type]:
        return self.logic(ast.Or(), [self.boolean(part, "||") for part in parts])

    def on_conditionaland(self, *parts: Any) -> tuple[ast.expr, Type]:
        return self.logic(ast.And(), [self.boolean(part, "&&") for part in parts])

    @staticmethod
    def logic(operator: ast.boolop, nodes: list[ast.expr]) -> tuple[ast.expr, Type]:
        """One flat ``or`` or ``and`` for a chain of them."""
        same = [isinstance(node, ast.BoolOp) and isinstance(node.op, type(operator)) for node in nodes]
        lists = [getattr(node, "values", [node]) if flat else [node] for node, flat in zip(nodes, same, strict=True)]
        return ast.BoolOp(operator, [value for values in lists for value in values]), "bool"

    def on_relation(self, first: Any, second: Any) -> tuple[ast.expr, Type]:
        word = first.data.removeprefix("relation_")
        tested = self.type_test(word, first.children[0], second)
        if tested is not None:
            return tested, "bool"
        (left, kind), (right, other) = self.visit(first.children[0]), self.visit(second)
        common, either = _family(kind) & _family(other), _family(kind) | _family(other)
        if word == "in" and not {"list", "map"} & _family(other):
            raise CelError(f"`in` needs a list and is given {_name(other)}; write a list on the right")
        if word != "in" and not common and "dyn" not in either:
            raise CelError(f"{_name(kind)} is compared with {_name(other)}, which never holds; compare equal types")
        if word not in ("eq", "ne", "in") and common and not common & {"number", "string"}:
            raise CelError(f"{_name(kind)} has no order; use == or !=")
        return ast.Compare(left, [_COMPARE[word]()], [right]), "bool"

    def type_test(self, word: str, left: Any, right: Any) -> ast.expr | None:
        """``type(x) == string`` becomes isinstance; an object is told apart by what else its union allows."""
        call, name = self.only(left, "ident_arg"), self.only(right, "ident")
        if call is None or str(call.children[0]) != "type":
            return None
        wanted = str(name.children[0]) if name is not None else ""
        if word not in ("eq", "ne") or wanted not in _PYTHON:
            raise CelError("type(x) can only be compared with string, list, map, int, double or bool")
        value, kind = self.visit(call.children[1].children[0])
        others = sorted(_PYTHON[_name(option)] for option in _options(kind) if option[0] != "map")
        names: list[ast.expr] = [ast.Name(text) for text in (others if wanted == "map" else [_PYTHON[wanted]])]
        holds = _call("isinstance", value, names[0] if len(names) == 1 else ast.Tuple(names))
        return holds if (word == "eq") != (wanted == "map") else ast.UnaryOp(ast.Not(), holds)

    @staticmethod
    def only(tree: Any, data: str) -> Any:
        """The node of a kind that a chain of single children leads to, or None."""
        while isinstance(tree, Tree) and tree.data != data:
            if len(tree.children) != 1:
                return None
            tree = tree.children[0]
        return tree if isinstance(tree, Tree) else None

    def on_addition(self, first: Any, second: Any) -> tuple[ast.expr, Type]:
        (left, kind), (right, other) = self.visit(first.children[0]), self.visit(second)
        add = first.data == "addition_add"
        joined = {"number", "string", "list"} if add else {"number"}
        if _family(kind) != _family(other) or not _family(kind) <= joined:
            raise CelError(f"{'+' if add else '-'} joins {_name(kind)} and {_name(other)}; give two of one type")
        return ast.BinOp(left, ast.Add() if add else ast.Sub(), right), kind

    def on_unary(self, sign: Any, operand: Any) -> tuple[ast.expr, Type]:
        if sign.data == "unary_not":
            return _negate(self.boolean(operand, "!")), "bool"
        node, kind = self.visit(operand)
        return ast.UnaryOp(ast.USub(), node), kind

    def on_literal(self, token: Token) -> tuple[ast.expr, Type]:
        if token.type not in _LITERALS:
            raise CelError(f"literal {token} is not supported; use integers, decimals, true, false and quoted text")
        make, kind = _LITERALS[token.type]
        value = make(str(token))
        self.literals += [value] if kind in ("int", "string") else []
        return ast.Constant(value), kind

    def on_list_lit(self, items: Any = None) -> tuple[ast.expr, Type]:
        visited = [self.visit(item) for item in (items.children if items is not None else [])]
        kinds = {kind for _, kind in visited}
        return ast.List([node for node, _ in visited]), ("list", kinds.pop() if len(kinds) == 1 else "dyn")

    def on_ident(self, token: Token) -> tuple[ast.expr, Type]:
        name = str(token)
        if name not in self.names:
            raise CelError(f"{name} is unknown; a rule knows self, server and the variables of its own macros")
        return ast.Name(_safe(name)), self.names[name]

    def on_member_dot(self, owner: Any, token: Token) -> tuple[ast.expr, Type]:
        (node, kind), name = self.visit(owner), str(token)
        if kind == "server":
            if name not in _SERVER:
                raise CelError(f"server.{name} is unknown; a rule may ask for {' and '.join(sorted(_SERVER))}")
            return ast.Attribute(node, name), _SERVER[name]
        maps = [option[1] for option in _options(kind) if option[0] == "map"]
        if not maps:
            raise CelError(f".{name} is asked of {_name(kind)}, which has no members; ask an object")
        if not maps[0]:
            return ast.Subscript(node, ast.Constant(name)), "dyn"
        if name not in self.contract.models[maps[0]].members:
            raise CelError(f"{maps[0]} has no field {name}; name a field of the schema")
        if isinstance(node, ast.Name) and node.id == "self":
            self.fields.add(name)
        return ast.Attribute(node, name), type_of(self.contract.models[maps[0]].members[name].shape)

    def on_member_index(self, owner: Any, index: Any) -> tuple[ast.expr, Type]:
        (node, kind), (key, _) = self.visit(owner), self.visit(index)
        items = [option[1] for option in _options(kind) if option[0] == "list"]
        return ast.Subscript(node, key), items[0] if items else "dyn"

    def on_ident_arg(self, token: Token, arguments: Any = None) -> tuple[ast.expr, Type]:
        name, given = str(token), list(arguments.children) if arguments is not None else []
        if name == "has" and len(given) == 1:
            target = self.only(given[0], "member_dot")
            if target is None:
                raise CelError("has() needs a member such as self.n")
            node, _ = self.visit(target)
            if isinstance(node, ast.Subscript):
                return ast.Compare(node.slice, [ast.In()], [node.value]), "bool"
            return ast.Compare(node, [ast.IsNot()], [ast.Constant(None)]), "bool"
        if name == "size" and len(given) == 1:
            return self.size(*self.visit(given[0]))
        raise CelError(f"function {name}() is unknown here; use has(), size() or type(x) == ...")

    def size(self, node: ast.expr, kind: Type) -> tuple[ast.expr, Type]:
        if not _family(kind) <= {"string", "list", "map", "dyn"}:
            raise CelError(f"size() is asked of {_name(kind)}; ask a string or a list")
        return _call("len", node), "int"

    def on_member_dot_arg(self, owner: Any, token: Token, arguments: Any = None) -> tuple[ast.expr, Type]:
        name, given = str(token), list(arguments.children) if arguments is not None else []
        (node, kind), lists = self.visit(owner), "list" if token in ("sum", "distinct") else "string"
        if name in _MACROS and len(given) == 2:
            return self.macro(name, node, kind, given)
        if name not in _METHODS or len(given) != (name in _METHODS[4:]):
            raise CelError(f"function .{name}() is unknown here; use one of {', '.join(_MACROS + _METHODS)}")
        if name == "size":
            return self.size(node, kind)
        if not {lists, "dyn"} & _family(kind):
            raise CelError(f".{name}() is asked of {_name(kind)}; ask a {lists}")
        values = [self.visit(item)[0] for item in given]
        if name == "sum":
            return _call("sum", node), next((option[1] for option in _options(kind) if option[0] == "list"), "dyn")
        if name == "contains":
            return ast.Compare(values[0], [ast.In()], [node]), "bool"
        if name in ("startsWith", "endsWith"):
            return ast.Call(ast.Attribute(node, name.lower()), values, []), "bool"
        gives = {"distinct": kind, "lowerAscii": "string"}.get(name, "bool")
        return _call({"lowerAscii": "lower_ascii"}.get(name, name), node, *values), gives

    def macro(self, name: str, node: ast.expr, kind: Type, given: list[Any]) -> tuple[ast.expr, Type]:
        """``list.exists(v, …)`` and its kin become comprehensions."""
        lists = [option for option in _options(kind) if option[0] == "list"]
        variable = self.only(given[0], "ident")
        if not lists or variable is None:
            raise CelError(f".{name}() needs a list and a variable, as in self.stop.{name}(s, size(s) > 0)")
        word = str(variable.children[0])
        outer, self.names = self.names, {**self.names, word: lists[0][1]}
        body, result = self.visit(given[1])
        self.names = outer
        if name != "map" and result not in ("bool", "dyn"):
            raise CelError(f".{name}() needs a condition and is given {_name(result)}; compare it with something")
        target = ast.Name(_safe(word))
        if name == "filter":
            return ast.ListComp(target, [ast.comprehension(target, node, [body], 0)]), lists[0]
        parts = [ast.comprehension(target, node, [], 0)]
        if name == "map":
            return ast.ListComp(body, parts), ("list", result)
        return _call({"exists": "any", "all": "all"}[name], ast.GeneratorExp(body, parts)), "bool"


def _call(name: str, *values: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name), list(values), [])


def _negate(node: ast.expr) -> ast.expr:
    """``not x``, or the opposite of a single ``is not`` or ``in``."""
    flip: dict[type[ast.cmpop], ast.cmpop] = {ast.IsNot: ast.Is(), ast.In: ast.NotIn()}
    if isinstance(node, ast.Compare) and type(node.ops[0]) in flip:
        return ast.Compare(node.left, [flip[type(node.ops[0])]], node.comparators)
    return ast.UnaryOp(ast.Not(), node)


def _safe(name: str) -> str:
    """A CEL name as a Python name."""
    return name + "_" if keyword.iskeyword(name) else name
