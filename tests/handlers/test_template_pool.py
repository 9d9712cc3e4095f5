"""Requests' own templates: the sandbox's limits, and workers that survive or are replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
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
