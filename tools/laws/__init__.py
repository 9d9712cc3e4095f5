"""Judges what goes over the wire: requests, whole answers, errors and streams, against the contract."""
