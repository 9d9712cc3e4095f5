"""Requests that come at their own pace, whatever the server does, and the books of both sides."""
