"""Requests' own templates: the sandbox's limits, and workers that survive or are replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from handlers.errors import Problem
from handlers.settings import Settings
from handlers.template_forms import Conversation
from handlers.template_pool import TemplatePool

ASKED = Conversation([{"role": "user", "content": "<b>é"}])


@pytest.fixture
async def pool_for() -> AsyncIterator[Callable[..., TemplatePool]]:
    """Makes pools that are closed afterwards."""
    made: list[TemplatePool] = []

    def make(**settings: Any) -> TemplatePool:
        made.append(TemplatePool(Settings(model_name="m", **settings)))
        return made[-1]

    yield make
    for pool in made:
        await pool.close()


Pools = Callable[..., TemplatePool]


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{% for m in messages %}{{ m.role }}:{{ m['content'] }}{% endfor %}", "user:<b>é"),
        ("{{ messages | tojson }}", '[{"role": "user", "content": "<b>é"}]'),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{% set ns = namespace(n=1) %}{% set ns.n = ns.n + 1 %}{{ ns.n }}", "2"),
        ("{% generation %}said{% endgeneration %}", "said"),
        ("  {% if true %}\nx{% endif %}", "x"),
    ],
)
async def test_what_chat_templates_use_works(pool_for: Pools, template: str, text: str) -> None:
    """Loops with break, namespaces, plain tojson, generation blocks and trimmed block lines."""
    assert await pool_for().render(template, ASKED) == text


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ raise_exception('No system role') }}", "No system role"),
        ("line\n{% if %}", "chat_template is not valid Jinja (line 2): Expected an expression"),
        ("{{ 1 | nonsense }}", "(line 1): No filter named 'nonsense'"),
        ("{{ greeting.upper() }}", "(line 1): 'greeting' is undefined"),
        ("\n\n{{ messages[0].mood.name }}", "(line 3): 'dict object' has no attribute 'mood'"),
        ("{{ messages[0].content + 1 }}", '(line 1): can only concatenate str (not "int") to str'),
        ("{{ 1 // 0 }}", "(line 1): integer division or modulo by zero"),
        ("{{ messages.append(1) }}", "may not reach (line 1): access to attribute 'append'"),
    ],
)
async def test_faults_are_422_and_the_worker_goes_on(pool_for: Pools, template: str, words: str) -> None:
    """A template's fault is answered in a sentence, and the next render works."""
    pool = pool_for()

    with pytest.raises(Problem) as caught:
        await pool.render(template, ASKED)

    assert (caught.value.status, caught.value.code) == (422, "template_error")
    assert words in caught.value.message
    assert await pool.render("on", ASKED) == "on"


HOSTILE = {
    "classes": "{{ ''.__class__.__mro__[1].__subclasses__()[0] }}",
    "globals": "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "globals-by-filter": "{{ (lipsum | attr('__globals__'))['os'].getcwd() }}",
    "builtins": "{{ raise_exception.__builtins__['open']('/etc/hostname').read() }}",
    "code": "{{ cycler.__init__.__code__.co_code.hex() }}",
    "format": "{{ '{0.__class__.__init__.__globals__}'.format(cycler) }}",
    "namespace": "{% set ns = namespace(__class__=1) %}",
    "include": "{% include '/etc/hostname' %}",
    "import": "{% import '/etc/hostname' as x %}",
    "extends": "{% extends '/etc/hostname' %}",
    "changes-messages": "{% set _ = messages.clear() %}",
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "power": "{{ 9 ** (9 ** 9) }}",
    "replacing": "{% for i in range(99999) %}{{ ('a' * (9000 + i)) | replace('a', 'b') | length }}{% endfor %}",
    "gigabyte": "{{ 'x' * 1000000000 }}",
    "doubling": "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "padding": "{{ '%1000000000d' % 1 }}",
    "centre": "{{ 'x' | center(1000000000) }}",
    "range": "{{ range(10 ** 12) | list }}",
    "recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "much-output": "{% for i in range(99999) %}{{ 'x' * 9999 }}{% endfor %}",
    "nesting": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
    "blocks": "{% if true %}" * 5_000 + "{% endif %}" * 5_000,
}
"""Templates that reach for Python, for files, or for all there is of time and memory."""


@pytest.mark.parametrize("template", HOSTILE.values(), ids=HOSTILE)
async def test_hostile_templates_are_422_and_others_are_served(pool_for: Pools, template: str) -> None:
    """Each costs its own request only: the refusal blames chat_template, and the next template renders."""
    pool = pool_for(template_time_s=0.5, template_workers=1)

    with pytest.raises(Problem) as caught:
        await pool.render(template, ASKED)

    assert (caught.value.status, caught.value.code, caught.value.param) == (422, "template_error", "chat_template")
    assert "/" not in caught.value.message.replace("/etc/hostname", "")
    assert await pool.render("on", ASKED) == "on"


async def test_undefined_attributes_of_python_show_nothing(pool_for: Pools) -> None:
    """What the sandbox hides is undefined, and prints as nothing."""
    assert await pool_for().render("[{{ ''.__class__ }}{{ messages | attr('__len__') }}]", ASKED) == "[]"


def limits_of(pid: int) -> list[str]:
    """The kernel's list of a process's limits."""
    return Path(f"/proc/{pid}/limits").read_text().splitlines()


async def test_a_worker_can_open_no_file_and_write_none(pool_for: Pools) -> None:
    """A template that broke out of the sandbox would find no file descriptor to take."""
    pool = pool_for()
    await pool.render("on", ASKED)
    limits = limits_of(pool.workers._idle[0].pid)

    for name in ("Max open files", "Max file size", "Max core file size"):
        line = next(line for line in limits if line.startswith(name))
        assert line.removeprefix(name).split()[:2] == ["0", "0"]


async def test_the_limits_have_defaults_within_two_seconds() -> None:
    """Time, memory and output are bounded where nobody says anything."""
    made = Settings(model_name="m")
    assert (made.template_time_s, made.template_memory_bytes) == (1.5, 512 * 1024 * 1024)
    assert made.template_output_bytes == 8 * 1024 * 1024


ENDLESS = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "settings", "words"),
    [
        (ENDLESS, {"template_time_s": 0.3}, "longer than the 0.3 seconds"),
        ("{{ 'x' * 400000000 }}", {"template_memory_bytes": 2**28}, "memory"),
        ("{% for i in range(99) %}{{ 'é' * 1000 }}{% endfor %}", {"template_output_bytes": 10_000}, "10000 bytes"),
    ],
)
async def test_limits_end_the_worker_and_the_next_one_works(
    pool_for: Pools, template: str, settings: dict[str, Any], words: str
) -> None:
    """Time, memory and output are bounded; what breaks a bound costs its own worker only."""
    pool = pool_for(**settings)

    with pytest.raises(Problem) as caught:
        await pool.render(template, ASKED)

    assert words in caught.value.message
    assert caught.value.param == "chat_template"
    assert await pool.render("on", ASKED) == "on"


async def test_half_a_surrogate_pair_in_a_complaint_becomes_a_question_mark(pool_for: Pools) -> None:
    """JSON could not carry it to the client."""
    with pytest.raises(Problem, match=r"these messages: no \? here"):
        await pool_for().render(r"{{ raise_exception('no \ud800 here') }}", ASKED)


async def test_a_render_that_waits_too_long_for_a_worker_is_429(pool_for: Pools) -> None:
    """Endless templates hold the one worker; the next render gives up, and one after them works."""
    pool = pool_for(template_workers=1, template_time_s=1.0, template_wait_s=0.1)
    assert await pool.render("on", ASKED) == "on"  # the worker has started
    endless = asyncio.create_task(pool.render(ENDLESS, ASKED))
    await asyncio.sleep(0)

    with pytest.raises(Problem) as caught:
        await pool.render("on", ASKED)

    assert (caught.value.status, caught.value.code, caught.value.headers) == (429, "queue_full", {"Retry-After": "1"})
    with pytest.raises(Problem, match="longer than the 1 seconds"):
        await endless
    assert await pool.render("on", ASKED) == "on"


async def test_an_answer_just_within_the_output_limit_is_given(pool_for: Pools) -> None:
    """Bytes count, not characters, and the limit itself is allowed."""
    assert await pool_for(template_output_bytes=10).render("{{ 'é' * 5 }}", ASKED) == "ééééé"
