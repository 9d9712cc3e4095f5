"""Every row of the hand-typed table is served or refused as the contract says."""

from __future__ import annotations

import json

import pytest
from hand_table import ROWS
from wire import JSON_TYPE, MODEL, ClientFor, Ok, Row, check_error, check_ok, cut


def test_every_row_has_a_name_of_its_own() -> None:
    """A repeated id would hide a row from a failure report."""
    ids = [row.id for row in ROWS]
    assert sorted(ids) == sorted(set(ids))


def test_the_table_covers_both_endpoints_and_both_outcomes() -> None:
    """A table of one outcome or one endpoint would pass on a server that knows only that."""
    served = [row for row in ROWS if isinstance(row.expect, Ok)]
    assert len(served) >= 200
    assert len(ROWS) - len(served) >= 260
    assert {row.endpoint for row in served} == {"/v1/chat/completions", "/v1/completions"}


def test_every_row_is_json_and_no_row_repeats_another() -> None:
    """Malformed bodies belong to the hostile tests; the same body twice under one deployment tests nothing new."""
    seen: dict[object, str] = {}
    for row in ROWS:
        json.loads(row.body)
        key = (row.endpoint, row.body, row.profile, tuple(sorted(row.settings.items())))
        assert key not in seen, f"{row.id} repeats {seen[key]}"
        seen[key] = row.id


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_row(row: Row, client_for: ClientFor) -> None:
    """One request: a 200 that names its unknown fields, or a refusal with its status, code and param."""
    client = client_for(row.profile, model_name=MODEL, **row.settings)
    answer = client.post(row.endpoint, content=row.body, headers=JSON_TYPE)
    where = f"{row.id}\n  profile:  {sorted(row.profile)} {dict(row.settings)}\n  body:     {cut(row.body)}"
    if isinstance(row.expect, Ok):
        check_ok(answer, row.expect, where)
    else:
        form = row.settings.get("open_ai_support", "vllm") != "vllm"
        check_error(answer, row.expect, where, openai_form=form)
