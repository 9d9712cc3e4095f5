"""The front's book of adapters: names, numbers, limits, and when an adapter may go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.lora_book import AdapterBook, AdapterLimits
from engine.types import AdapterError, AdapterSource, EngineError

A, B, C = (AdapterSource(name, f"folder-{name}") for name in "abc")


def _book(*sources, max_loras=2, max_lora_rank=8):
    return AdapterBook(sources, AdapterLimits(max_loras, max_lora_rank))


def _loaded(*sources):
    book = _book()
    for source in sources:
        book.loaded(book.begin(source).number)
    return book


def _names(book):
    return [source.name for source in book.ready]


def test_an_adapter_may_be_named_once_it_is_loaded():
    """Not while it is on its way."""
    book = _book()
    command = book.begin(A)
    assert (command.name, command.folder, command.max_rank) == ("a", "folder-a", 8)
    with pytest.raises(EngineError, match="'a' is not loaded") as caught:
        book.take("a")
    assert caught.value.code == "unknown_model"
    book.loaded(command.number)
    assert book.take("a") == command.number
    assert _names(book) == ["a"]


def test_an_adapter_that_failed_is_as_if_it_had_not_come():
    """Its place and its name are free."""
    book = _book(max_loras=1)
    book.drop(book.begin(A).number)
    assert _names(book) == []
    assert book.begin(A).name == "a"


def test_a_name_that_is_loaded_again_has_another_number():
    """So that no prefix of the first load is taken for one of the second."""
    book = _loaded(A)
    first = book.take("a")
    book.leave("a")
    second = book.begin(A).number
    assert second != first
    book.loaded(second)
    assert book.take("a") == second
    assert book.give_back(first)
    assert _names(book) == ["a"]


def test_an_adapter_goes_when_its_last_request_is_over():
    """Unloaded with two requests running: the second end lets it go."""
    book = _loaded(A)
    number = book.take("a")
    book.take("a")
    assert book.leave("a") is None
    with pytest.raises(EngineError):
        book.take("a")
    assert not book.give_back(number)
    assert book.give_back(number)


def test_an_unused_adapter_goes_at_once():
    """Its number is for the engine."""
    book = _loaded(A, B)
    number = book.take("b")
    book.give_back(number)
    assert book.leave("b") == number
    with pytest.raises(AdapterError, match="it is not loaded"):
        book.leave("b")


def test_a_name_can_be_loaded_only_once():
    """Nor while it is being loaded."""
    book = _book()
    command = book.begin(A)
    with pytest.raises(AdapterError, match="it is being loaded already"):
        book.begin(A)
    book.loaded(command.number)
    with pytest.raises(AdapterError, match="it is loaded already"):
        book.begin(A)


def test_there_are_at_most_max_loras():
    """An adapter that waits for its last requests still has its place."""
    book = _loaded(A, B)
    with pytest.raises(AdapterError, match=r"2 adapters are loaded; at most 2 fit \(maxLoras\)"):
        book.begin(C)
    number = book.take("a")
    book.leave("a")
    with pytest.raises(AdapterError, match="2 adapters are loaded, 1 of them until their last requests end"):
        book.begin(C)
    book.give_back(number)
    assert book.begin(C).name == "c"


def test_without_limits_only_the_first_ones_are_there():
    """MindIE's defaults, 0 and 0: any rank for those, and no other adapter."""
    book = AdapterBook([A, B])
    assert [(command.name, command.max_rank) for command in book.commands()] == [("a", None), ("b", None)]
    assert _names(book) == ["a", "b"]
    assert not book.limits.allow_loading
    with pytest.raises(AdapterError, match="at most 0 fit"):
        book.begin(C)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "a\n", "x" * 257])
def test_a_name_has_plain_characters(name):
    """As MindIE's names; a dot besides."""
    with pytest.raises(AdapterError, match="1 to 256 letters, digits"):
        _book().begin(AdapterSource(name, "folder"))


def test_a_deployment_that_starts_with_the_impossible_is_refused():
    """Two of one name, or more than fit."""
    with pytest.raises(AdapterError, match="the adapter 'a' cannot be used: it is loaded already"):
        _book(A, A)
    with pytest.raises(AdapterError, match=r"3 adapters are given; at most 2 fit \(maxLoras\)"):
        _book(A, B, C)


@given(st.lists(st.tuples(st.sampled_from(["begin", "leave", "take", "end"]), st.sampled_from([A, B, C])), max_size=60))
def test_no_adapter_goes_while_a_request_runs_with_it(moves):
    """Over any sequence of loads, unloads, requests and ends: what the engine is told to forget, nobody uses."""
    book = _book(max_loras=3)
    held, running = set(), []
    for move, source in moves:
        try:
            if move == "begin":
                number = book.begin(source).number
                assert number not in held
                held.add(number)
                book.loaded(number)
            elif move == "leave":
                gone = book.leave(source.name)
                if gone is not None:
                    assert gone not in running
                    held.remove(gone)
            elif move == "take":
                running.append(book.take(source.name))
            elif running:
                number = running.pop()
                if book.give_back(number):
                    assert number not in running
                    held.remove(number)
        except (AdapterError, EngineError):
            continue
        assert set(running) <= held
        assert len(held) <= 3
