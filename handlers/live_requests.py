"""The requests that are being answered, by their ids: an id belongs to one of them at a time."""

from __future__ import annotations

import itertools

from handlers.record import Record


class LiveRequests:
    """Gives ids out, and takes them back when their requests are over. Belongs to one event loop."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._numbers = itertools.count(1)

    def __len__(self) -> int:
        return len(self._records)

    def find(self, request_id: str) -> Record | None:
        """The request of this id, if one is being answered."""
        return self._records.get(request_id)

    def find_uuid(self, uuid: str) -> Record | None:
        """The request whose answer has this RequestUUID."""
        return next((record for record in self._records.values() if record.uuid == uuid), None)

    def enter(self, record: Record) -> None:
        """Give the record its id, or mark it as the duplicate of a live one."""
        if record.request_id:
            record.duplicate = record.request_id in self._records
        else:
            record.request_id = next(name for name in map(_numbered, self._numbers) if name not in self._records)
        if not record.duplicate:
            self._records[record.request_id] = record

    def leave(self, record: Record) -> None:
        """The request is over; one that never had an id of its own takes none away."""
        if self._records.get(record.request_id) is record:
            del self._records[record.request_id]


def _numbered(number: int) -> str:
    return f"endpoint_common_{number}"
