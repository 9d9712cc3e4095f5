"""Puts a conversation to a chat template in the form that this template can read, and renders it.

Templates differ in what they want: tools as a variable, as a member of a system message, or not at all; arguments as
an object or as JSON text; no content as null or as empty text; content as text or as a list of parts. What a template
reads is found in its syntax tree, and where that does not tell, by rendering a probe.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final, NamedTuple

import jinja2
from jinja2 import meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from handlers.chat_jinja import Fault, compiled, run
from handlers.template_content import as_named, in_parts, with_text_behind

Messages = list[dict[str, Any]]

PROBE: Final = "prb7Qx"
"""A word that no template writes by itself; of letters and digits only, so that no filter changes it."""

_INTRODUCTION: Final = """\
You may call functions to help with the user's request. These functions exist, each as one JSON object:
{tools}

To call one, write exactly this, once for each call:
{call}"""
"""Tells a model about its tools where its own chat template has no place for them."""


class CallForm(NamedTuple):
    """How a model writes its calls, for templates that have no place for tools; ``{name}`` stands for the name."""

    head: str = '<tool_call>\n{"name": "{name}", "arguments": '
    tail: str = "}\n</tool_call>"
    opens: str = ""
    between: str = "\n"
    closes: str = ""
    sample: str = "<an object with its arguments>"
    """Stands for the arguments where the form is shown."""

    def written(self, calls: Sequence[tuple[str, str]]) -> str:
        """Calls, each a name and the text of its arguments, as the model would have written them."""
        each = [self.head.replace("{name}", name) + arguments + self.tail for name, arguments in calls]
        return self.opens + self.between.join(each) + self.closes


HERMES: Final = CallForm()


class Arguments(dict[str, Any]):
    """A call's arguments: an object to look into, and the client's JSON text wherever a text is wanted."""

    def __init__(self, value: Mapping[str, Any], text: str) -> None:
        super().__init__(value)
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __add__(self, other: object) -> str:
        return self._text + str(other)

    def __radd__(self, other: object) -> str:
        return str(other) + self._text


@dataclass(frozen=True, slots=True)
class Rendered:
    """What became of one conversation."""

    text: str = ""
    fault: Fault | None = None
    left_out: int | None = None
    """Index of the first message whose role the template passed over; looked at for roles of the client's own."""
    needs_object: tuple[int, int] | None = None
    """Message and call whose arguments are no JSON object although the template reads them as one."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a template shall show; plain data, so that it can be sent to another process.

    In ``messages`` content is a text, or a list of the parts of template_content.py. A call's function has ``name``,
    ``arguments`` (text) and ``object`` (the same, parsed, or None), and may have ``spelled``: the arguments as the
    model's own calls have them, where that is no JSON.
    """

    messages: Messages
    tools: list[dict[str, Any]] | None = None
    variables: dict[str, Any] = field(default_factory=dict)
    own_roles: list[int] = field(default_factory=list)
    """Indices of the messages whose role is of the client's own making."""
    observer: str = "tool"
    """The role that tool results have where the template knows no role of that name."""
    call_form: CallForm = HERMES


class ChatTemplate:
    """A template that was compiled once."""

    def __init__(self, made: ImmutableSandboxedEnvironment, source: str) -> None:
        """Compile; a source that is no Jinja makes every render answer with its fault."""
        found = compiled(made, source)
        self._fault = found if isinstance(found, Fault) else None
        self._template = None if isinstance(found, Fault) else found
        self._reads = Reads() if self._fault else Reads.of(made, source)
        self._parts: bool | None = None

    @property
    def fault(self) -> Fault | None:
        """Why the source is no template; None where it is one."""
        return self._fault

    def render(self, given: Conversation, max_bytes: int) -> Rendered:
        """The conversation's text, in the first form in which the template shows all calls, ready to be answered."""
        if self._template is None:
            return Rendered(fault=self._fault)
        wanted = Counter(
            call["function"]["name"] for message in given.messages for call in message.get("tool_calls") or ()
        )
        listed = Counter(tool["function"]["name"] for tool in given.tools or ())
        least = {name: count + listed[name] for name, count in wanted.items()}
        first: Rendered | None = None
        for form in self._forms(given):
            text = self._run(self._template, form, max_bytes)
            if isinstance(text, Fault):
                first = first or Rendered(fault=text)
                if text.kind in ("refused", "output", "memory"):
                    break
                continue
            if first is None or first.fault is not None:
                first = Rendered(text)
            if all(text.count(name) >= count for name, count in least.items()):
                first = Rendered(text)
                break
        assert first is not None
        return self._judged(self._template, given, first, max_bytes)

    def _judged(self, template: jinja2.Template, given: Conversation, made: Rendered, max_bytes: int) -> Rendered:
        """The render, unless it lost what the client said: arguments that only an object could give, or a message."""
        unread = [
            (index, place)
            for index, message in enumerate(given.messages)
            for place, call in enumerate(message.get("tool_calls") or ())
            if call["function"]["object"] is None
        ]
        if made.fault is not None:
            told = made.fault.kind in ("refused", "output", "memory")
            return Rendered(fault=made.fault, needs_object=None if told or not unread else unread[0])
        for index, place in unread:
            probed = self._probe(template, given, index, lambda call: {**call, "arguments": PROBE}, max_bytes, place)
            if not isinstance(probed, Fault) and f'"{PROBE}"' in probed:
                return Rendered(needs_object=(index, place))
        for index in given.own_roles:
            probed = self._probe(template, given, index, None, max_bytes)
            if not isinstance(probed, Fault) and PROBE.lower() not in probed.lower():
                return Rendered(left_out=index)
        return made

    def _probe(
        self, template: jinja2.Template, given: Conversation, index: int, change: Any, max_bytes: int, place: int = 0
    ) -> str | Fault:
        """The conversation with a probe for the content of a message, or for the arguments of one of its calls."""
        message = dict(given.messages[index])
        if change is None:
            message["content"] = PROBE
        else:
            calls = list(message["tool_calls"])
            calls[place] = {**calls[place], "function": change(calls[place]["function"])}
            message["tool_calls"] = calls
        messages = [*given.messages[:index], message, *given.messages[index + 1 :]]
        changed = replace(given, messages=messages)
        return self._run(template, next(self._forms(changed)), max_bytes)

    def _run(self, template: jinja2.Template, form: Conversation, max_bytes: int) -> str | Fault:
        variables = dict(form.variables)
        thinking = variables.get("enable_thinking")
        if thinking is not None and "enable_thinking" not in self._reads.names and "thinking" in self._reads.names:
            variables.setdefault("thinking", thinking)  # DeepSeek's name for the same switch
        own = {"messages": form.messages, "tools": form.tools, "add_generation_prompt": True}
        return run(template, {**variables, **own}, max_bytes)

    def _forms(self, given: Conversation) -> Iterator[Conversation]:
        """The conversation in the forms to try, likeliest first; one where nothing can differ."""
        reads = self._reads
        messages, tools = given.messages, given.tools
        if "tool" not in reads.words and given.observer != "tool":
            messages = [{**m, "role": given.observer} if m["role"] == "tool" else m for m in messages]
        called = any(message.get("tool_calls") for message in messages)
        if called and "tool_calls" not in reads.words:
            messages = _as_metadata(messages) if "metadata" in reads.words else _told_calls(messages, given.call_form)
            called = False
        if tools and "tools" not in reads.names:
            if "tools" in reads.words:
                messages = _tools_in_system(messages, tools)
            else:
                messages = _told_tools(messages, tools, given.call_form)
            tools = None
        messages = [as_named(message, reads.words) for message in messages]
        if self._wants_parts():
            messages = [in_parts(message) for message in messages]
        if not called:
            yield replace(given, messages=[_emptied(message, "") for message in messages], tools=tools)
            return
        nothing: Sequence[str | None] = (None, "") if reads.null_content else ("", None)
        for split, as_object, empty in product((False, True), (True, False), nothing):
            parted = _split(messages) if split else messages
            made = [_with_arguments(_emptied(message, empty), as_object) for message in parted]
            yield replace(given, messages=made, tools=tools)

    def _wants_parts(self) -> bool:
        """Whether the template shows content only when it is a list of parts."""
        if self._template is None or not self._reads.loops_content:
            return False
        if self._parts is None:
            shown = []
            for content in (PROBE, [{"type": "text", "text": PROBE}]):
                message = {"role": "user", "content": content}
                variables = {"messages": [message], "tools": None, "add_generation_prompt": True}
                text = run(self._template, variables, 1 << 20)
                shown.append(not isinstance(text, Fault) and PROBE.lower() in text.lower())
            self._parts = shown == [False, True]
        return self._parts


@dataclass(frozen=True, slots=True)
class Reads:
    """What a template looks at."""

    names: frozenset[str] = frozenset()
    """Variables that it expects from outside."""
    words: frozenset[str] = frozenset()
    """Attributes, keys and other constant texts in its expressions."""
    null_content: bool = False
    """It tells null content from empty content."""
    loops_content: bool = False
    """It may go through content part by part."""

    @classmethod
    def of(cls, made: ImmutableSandboxedEnvironment, source: str) -> Reads:
        """Read the syntax tree of a source that compiles."""
        tree = made.parse(source)
        nulls = [test for test in tree.find_all(nodes.Test) if test.name == "none"]
        return cls(
            frozenset(meta.find_undeclared_variables(tree)),
            frozenset(_words(tree)),
            any("content" in _words(test, names=True) for test in nulls),
            any("content" in _words(loop.iter, names=True) for loop in tree.find_all(nodes.For)),
        )


def _told_tools(messages: Messages, tools: list[dict[str, Any]], form: CallForm) -> Messages:
    """``messages`` with a system message that introduces ``tools``, for templates without a place for them."""
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    call = form.written([("<the function's name>", form.sample)])
    told = _INTRODUCTION.format(tools=listed, call=call)
    if messages[0]["role"] == "system":
        first = {**messages[0], "content": with_text_behind(messages[0]["content"], "\n\n", told)}
        return [first, *messages[1:]]
    return [{"role": "system", "content": told}, *messages]


def _words(tree: nodes.Node, *, names: bool = False) -> set[str]:
    """Attributes and constant texts below a node, the node itself included; with ``names``, variables too."""
    found: set[str] = set()
    for node in (tree, *tree.find_all(nodes.Expr)):
        if isinstance(node, nodes.Getattr):
            found.add(node.attr)
        elif isinstance(node, nodes.Const) and isinstance(node.value, str):
            found.add(node.value)
        elif names and isinstance(node, nodes.Name):
            found.add(node.name)
    return found


def _tools_in_system(messages: Messages, tools: list[dict[str, Any]]) -> Messages:
    """GLM-4's form: tools are a member of the system message."""
    if messages[0]["role"] == "system":
        return [{**messages[0], "tools": tools}, *messages[1:]]
    return [{"role": "system", "content": "", "tools": tools}, *messages]


def _as_metadata(messages: Messages) -> Messages:
    """GLM-4's form: a call is a message of its own, the function's name its metadata, the arguments its content."""
    made: Messages = []
    for message in messages:
        calls = message.get("tool_calls") or ()
        plain = {key: value for key, value in message.items() if key != "tool_calls"}
        if not calls or plain["content"]:
            made.append(plain)
        for call in calls:
            function = call["function"]
            made.append({"role": message["role"], "metadata": function["name"], "content": function["arguments"]})
    return made


def _told_calls(messages: Messages, form: CallForm) -> Messages:
    """Calls written into the content, for templates without a place for them."""
    made: Messages = []
    for message in messages:
        calls = message.get("tool_calls") or ()
        if calls:
            told = form.written([(call["function"]["name"], _spelled(call["function"])) for call in calls])
            content = with_text_behind(message["content"], "\n", told)
            message = {**{key: value for key, value in message.items() if key != "tool_calls"}, "content": content}
        made.append(message)
    return made


def _spelled(function: Mapping[str, Any]) -> str:
    if "spelled" in function:
        return str(function["spelled"])
    value = function["object"]
    return str(function["arguments"]) if value is None else json.dumps(value, ensure_ascii=False)


def _split(messages: Messages) -> Messages:
    """Content and calls of one message as two, for templates that show either, but not both."""
    made: Messages = []
    for message in messages:
        calling = message
        if message.get("tool_calls") and message["content"]:
            made.append({key: value for key, value in message.items() if key != "tool_calls"})
            calling = {**message, "content": None}
        made.append(calling)
    return made


def _emptied(message: dict[str, Any], empty: str | None) -> dict[str, Any]:
    """The message with ``empty`` for content that is null, and for empty content beside calls."""
    content = message["content"]
    if content is None or (content == "" and message.get("tool_calls")):
        return {**message, "content": empty}
    return message


def _with_arguments(message: dict[str, Any], as_object: bool) -> dict[str, Any]:
    """The message with each call's arguments as an object that reads as text too, or as text alone."""
    calls = message.get("tool_calls")
    if not calls:
        return message
    made = []
    for call in calls:
        function = {key: value for key, value in call["function"].items() if key in ("name", "arguments")}
        value = call["function"]["object"]
        if as_object and value is not None:
            function["arguments"] = Arguments(value, function["arguments"])
        made.append({**call, "function": function})
    return {**message, "tool_calls": made}
