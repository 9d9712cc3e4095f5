"""Addresses have one meaning here: whatever is read is read likewise by others, and the rest is refused."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.media.urls import Url, UrlError, is_listed, read_domain, read_redirect, read_url

PIECES = st.sampled_from([
    *("http:", "https:", "//", "/", "\\", "@", ":", "80", "8080", "?", "#", "%2e", "%40", ".", "..", "\t", "\r\n", " "),
    *("media.test", "evil.test", "127.0.0.1", "[::1]", "0x7f", "1", "\u3002", "a"),
])  # fmt: skip
TEXTS = st.one_of(st.lists(PIECES, max_size=12).map("".join), st.text(max_size=40))
BEFORE = Url("http", "media.test", 80, "/a/b.png?c")


@given(TEXTS)
def test_what_is_read_is_read_likewise_by_others(text: str) -> None:
    """The host and port that Python's own reader finds in what is sent, and again our own."""
    try:
        url = read_url(text)
    except UrlError:
        return
    again = f"{url.scheme}://{url.authority}{url.target}"
    split = urlsplit(again)
    assert (split.scheme, split.hostname, split.port or {"http": 80, "https": 443}[url.scheme]) == (
        url.scheme, url.host, url.port)  # fmt: skip
    assert split.username is None
    assert read_url(again) == url
    assert again.isascii()
    assert not set(again) & set(" \t\r\n\\")


@given(TEXTS.filter(lambda text: "\ud800" not in text))
def test_a_redirect_stays_at_its_port_or_is_refused(text: str) -> None:
    """And nothing but UrlError is raised, whatever a host sends."""
    try:
        url = read_redirect(text.encode(errors="surrogatepass"), BEFORE)
    except UrlError:
        return
    assert (url.scheme, url.port) in (("http", 80), ("https", 443), ("https", 80))


@given(st.binary(max_size=30))
def test_a_redirect_of_any_bytes_is_read_or_refused(data: bytes) -> None:
    """As above."""
    try:
        assert read_redirect(data, BEFORE).host
    except UrlError:
        return


@pytest.mark.parametrize(("entry", "read"), [
    ("Media.TEST", "media.test"), (" media.test ", "media.test"), ("media.test:8443", "media.test:8443"),
    ("10.0.0.7", "10.0.0.7"), ("[FD12::01]", "[fd12::1]"), ("[fd12::1]:81", "[fd12::1]:81"), ("localhost", "localhost"),
    ("my_bucket.s3.test", "my_bucket.s3.test"), ("xn--fiqs8s.test", "xn--fiqs8s.test"),
])  # fmt: skip
def test_an_entry_of_the_list_is_a_host_perhaps_with_a_port(entry: str, read: str) -> None:
    """In small letters, an address in its shortest form."""
    assert read_domain(entry) == read


@pytest.mark.parametrize("entry", [
    *("", "*", "*.media.test", "http://media.test", "media.test/", "media.test.", "media.test:", "media.test:0"),
    *("127.1", "2130706433", "a b", "-a.test", "[::1", "user@media.test", "中国.test", "a..test", "10.0.0.0/8"),
])  # fmt: skip
def test_other_entries_are_refused(entry: str) -> None:
    """None of them would ever be met by an address, or it would be met by too many."""
    with pytest.raises(UrlError):
        read_domain(entry)


def test_an_entry_with_a_port_lists_that_port_alone() -> None:
    """And one without any."""
    url = read_url("http://media.test:8443/a.png")
    assert is_listed(url, ("media.test:8443",))
    assert is_listed(url, ("media.test",))
    assert not is_listed(url, ("media.test:443", "media.test:84430", "edia.test"))


def test_a_shown_address_has_no_query_and_is_short() -> None:
    """Signed addresses carry their secret in the query."""
    assert read_url("http://media.test/a.png?X-Signature=secret#x").shown == "http://media.test/a.png"
    assert read_url("http://media.test/" + "a" * 500).shown == "http://media.test/" + "a" * 82 + "..."
