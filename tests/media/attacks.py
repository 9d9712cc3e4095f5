"""Attacks on whatever brings media, as data: what a client sends, how the world answers, what it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any, Final

from hostile_server import OTHER_PUBLIC, PUBLIC, Script, answer, dribble, endless, redirect, silent

from engine.types import MediaKind

FORBIDDEN: Final = "media_forbidden"
UNREACHABLE: Final = "media_unreachable"
INVALID: Final = "media_invalid"
TOO_LARGE: Final = "media_too_large"

KB: Final = 1024
HOME: Final = {"media.test": ((PUBLIC,),)}
EVERYWHERE: Final = {"private_networks": (ip_network("0.0.0.0/0"), ip_network("::/0"))}
"""What the most careless operator may list."""
SILENT: Final = {"read_s": 0.05}
SLOW: Final = {"read_s": 60.0, "fetch_s": 0.5}
NO_LINK: Final = {"connect_s": 0.2}
"""Times so short that tests need not wait; what they end would never have ended by itself."""
HEAD: Final = b"HTTP/1.1 200 OK\r\n"


@dataclass(frozen=True)
class Attack:
    """One of them; "secret" in a value must not be shown to anybody."""

    name: str
    value: str
    """Of the part; ``{folder}`` stands for the folder of local files."""
    code: str
    words: str
    """In the message."""
    kind: MediaKind = "image"
    audio_format: str | None = None
    names: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=lambda: HOME)
    script: Script | Mapping[str, Script] = b""
    """Of /a.png, or by target."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    connected: tuple[str, ...] = ()
    """Addresses that are connected to, and no others."""

    def __str__(self) -> str:
        return self.name


def named(name: str, value: str, code: str, words: str, **limits: Any) -> Attack:
    """One that its text gives away: nothing is looked up."""
    return Attack(name, value, code, words, names={}, limits=limits)


def at(name: str, words: str, *addresses: str, **limits: Any) -> Attack:
    """A listed host that is at these addresses."""
    names = {"media.test": (addresses,)}
    return Attack(name, "http://media.test/a.png?secret", FORBIDDEN, words, names=names, limits=limits)


def sent(name: str, script: Script, code: str, words: str, **limits: Any) -> Attack:
    """What a listed host answers."""
    value = "http://media.test/a.png"
    return Attack(name, value, code, words, script=script, limits=limits, connected=(PUBLIC,))


def moved(name: str, words: str, *locations: str, hops: int = 1, **more: Any) -> Attack:
    """What a listed host redirects to."""
    script = {"/a.png": redirect(*locations), "/b.png": redirect("/a.png")}
    value = "http://media.test/a.png?secret"
    script["/a.png?secret"] = script["/a.png"]
    code = more.pop("code", FORBIDDEN)
    return Attack(name, value, code, words, script=script, connected=(PUBLIC,) * hops, **more)


NOT_LISTED: Final = "not on this deployment's list of hosts"
URLS: Final = [
    named("no host is listed", "http://media.test/a.png", FORBIDDEN, "its list of hosts is empty", domains=()),
    named("another host", "http://evil.test/a.png", FORBIDDEN,
          f"http://evil.test/a.png, whose host and port are {NOT_LISTED}"),
    named("a listed host as the beginning", "http://media.test.evil.test/a.png", FORBIDDEN, NOT_LISTED),
    named("a listed host as the end", "http://evil-media.test/a.png", FORBIDDEN, NOT_LISTED),
    named("a host below a listed one", "http://www.media.test/a.png", FORBIDDEN, NOT_LISTED),
    named("a listed host as fragment", "http://evil.test#media.test/a.png", FORBIDDEN, NOT_LISTED),
    named("a listed host as query", "http://evil.test?media.test/secret", FORBIDDEN, NOT_LISTED),
    named("a listed host as user", "http://media.test:80@evil.test/a.png", FORBIDDEN, "has a user name in it"),
    named("a user at a listed host", "http://ann:secret@media.test/a.png", FORBIDDEN, "has a user name in it"),
    named("two users", "http://a@evil.test@media.test/a.png", FORBIDDEN, "has a user name in it"),
    named("a backslash before the host", "http://evil.test\\@media.test/a.png", FORBIDDEN, "has a backslash in it"),
    named("backslashes for slashes", "http:\\\\media.test\\a.png", FORBIDDEN, "has a backslash in it"),
    named("a dot behind the host", "http://MEDIA.TEST./a.png", FORBIDDEN, "has no usable host"),
    named("a decimal address", "http://2130706433/a.png", FORBIDDEN, "an IPv4 address is written as four decimal"),
    named("a hexadecimal address", "http://0x7f000001/a.png", FORBIDDEN, "has a number as its host"),
    named("hexadecimal parts", "http://0x7f.0.0.0x1/a.png", FORBIDDEN, "has a number as its host"),
    named("an octal address", "http://0177.0.0.1/a.png", FORBIDDEN, "has a number as its host"),
    named("a short address", "http://127.1/a.png", FORBIDDEN, "has a number as its host"),
    named("a loopback address", "http://127.0.0.1/a.png", FORBIDDEN, NOT_LISTED),
    named("an IPv6 loopback address", "http://[::1]/a.png", FORBIDDEN,
          f"http://[::1]/a.png, whose host and port are {NOT_LISTED}"),
    named("an IPv6 form of a loopback address", "http://[::ffff:127.0.0.1]/a.png", FORBIDDEN, NOT_LISTED),
    named("an address with a zone", "http://[fe80::1%25eth0]/a.png", FORBIDDEN, "has no usable host"),
    named("an open bracket", "http://[::1/a.png", FORBIDDEN, "has a host that cannot be read"),
    named("wide digits", "http://\uff11\uff12\uff17.0.0.1/a.png", FORBIDDEN, "has no usable host"),
    named("a dot of another script", "http://media\u3002test/a.png", FORBIDDEN, "has no usable host"),
    named("an escaped dot", "http://media%2etest/a.png", FORBIDDEN, "has no usable host"),
    named("a letter that becomes small ASCII", "http://evil.test\u212a/a.png", FORBIDDEN, "has no usable host"),
    named("a scheme of another script", "http\u017f://media.test/a.png", UNREACHABLE, "there is no such file"),
    named("no host", "http:///a.png", FORBIDDEN, "has no usable host"),
    named("one slash", "http:/media.test/a.png", FORBIDDEN, "is not an address of the form http://host/path"),
    named("a line end", "http://media.test/a.png\r\nX: 1", FORBIDDEN, "has a control character"),
    named("half a character", "http://media.test/\ud800.png", FORBIDDEN, "half a character in it"),
    named("a port of none", "http://media.test:0/a.png", FORBIDDEN, "has a port that is none"),
    named("a port beyond all", "http://media.test:65616/a.png", FORBIDDEN, "has a port that is none"),
    named("a port of other digits", "http://media.test:\u0668\u0660/a.png", FORBIDDEN,
          "has a host that cannot be read"),
    named("a port that is not listed", "http://media.test:22/a.png", FORBIDDEN, NOT_LISTED,
          domains=("media.test:8443",)),
    named("ftp", "ftp://media.test/a.png", FORBIDDEN, "begins with ftp:; media are read from http:// and https://"),
    named("gopher", "gopher://media.test:70/_secret.", FORBIDDEN, "begins with gopher:"),
    named("another scheme around", "jar:http://media.test/a.zip!/a.png", FORBIDDEN, "begins with jar:"),
    named("a tab in the scheme", "ht\ttp://media.test/a.png", INVALID, "is a path with a control character in it"),
    named("a long address", "http://media.test/" + "a" * 5000, "too_long",
          "is an address of 5018 characters; it may have 4096"),
]  # fmt: skip
"""Addresses that are refused as they stand."""

ADDRESSES: Final = [
    at("a name of loopback", "at a loopback address", "127.0.0.1"),
    at("a name of IPv6 loopback", "at a loopback address", "::1"),
    at("a name of loopback, everything open", "at a loopback address", "127.0.0.53", **EVERYWHERE),
    at("a name inside", "at a private address, which mediaPrivateNetworks does not list", "10.0.0.5"),
    at("a name in another network inside", "at a private address", "192.168.1.1",
       private_networks=(ip_network("10.0.0.0/8"),)),
    at("a name behind a carrier", "at a private address", "100.64.0.1"),
    at("a name of a unique local address", "at a private address", "fd12::1"),
    at("a mapped address", "at a private address", "::ffff:10.0.0.1"),
    at("a mapped loopback address", "at a loopback address", "::ffff:7f00:1"),
    at("an address through a gateway", "at a private address", "64:ff9b::a00:1"),
    at("an address through a relay", "at a loopback address", "2002:7f00:1::"),
    at("an address in an old form", "at a private address", "::7f00:1"),
    at("the metadata address", "never fetched from", "169.254.169.254"),
    at("the metadata address, everything open", "never fetched from", "169.254.169.254", **EVERYWHERE),
    at("the metadata address, mapped", "never fetched from", "::ffff:169.254.169.254", **EVERYWHERE),
    at("the metadata address through a gateway", "never fetched from", "64:ff9b::a9fe:a9fe", **EVERYWHERE),
    at("an IPv6 metadata address", "never fetched from", "fd00:ec2::254", **EVERYWHERE),
    at("a metadata address behind a carrier", "never fetched from", "100.100.100.200", **EVERYWHERE),
    at("the host of a virtual machine", "never fetched from", "168.63.129.16", **EVERYWHERE),
    at("a link-local address", "never fetched from", "fe80::1", **EVERYWHERE),
    at("this host", "never fetched from", "0.0.0.0", **EVERYWHERE),
    at("all hosts", "never fetched from", "255.255.255.255", **EVERYWHERE),
    at("a group of hosts", "never fetched from", "ff02::1", **EVERYWHERE),
    at("one address outside, one inside", "at a private address", PUBLIC, "10.0.0.5"),
    at("no address at all", "an address that is none", "media"),
    named("a listed private address", "http://10.0.0.7/a.png", FORBIDDEN, "at a private address",
          domains=("10.0.0.7",)),
    named("a listed loopback address", "http://[::1]/a.png", FORBIDDEN, "at a loopback address", domains=("[::1]",)),
    Attack("a name that nobody knows", "http://media.test/a.png", UNREACHABLE, "no address that can be found",
           names={}),
    Attack("a name server that is silent", "http://media.test/a.png", UNREACHABLE, "address was not found within 0.2 s",
           names={"media.test": ((),)}, limits=NO_LINK),
]  # fmt: skip
"""Names that lead where nobody may be led."""

CHANGING: Final = {"media.test": ((PUBLIC,), ("127.0.0.1",))}
"""A name server that has another answer the second time."""
REDIRECTS: Final = [
    moved("a redirect to loopback", NOT_LISTED, "http://127.0.0.1/a.png"),
    moved("a redirect to metadata", NOT_LISTED, "http://169.254.169.254/latest/meta-data/"),
    moved("a redirect to a host that is not listed", "redirects to http://evil.test/b, whose",
          "http://evil.test/b?secret"),
    moved("a redirect without a scheme", NOT_LISTED, "//evil.test/a.png"),
    moved("a redirect to a name that has moved inside", "at a loopback address", "/b.png", names=CHANGING),
    moved("a redirect to another port", "has another port, 8080 instead of 80", "http://media.test:8080/a.png"),
    moved("a redirect to another port with TLS", "has another port, 22 instead of 80", "https://media.test:22/a.png"),
    moved("a redirect to a file", "redirects to an address that is not an address of the form", "file:///etc/passwd"),
    moved("a redirect to data", "is not an address of the form", "data:image/png;base64,AAAA"),
    moved("a redirect with a user", "has a user name in it", "http://ann:secret@media.test/a.png"),
    moved("a redirect with a backslash", "a control character or a backslash", "/\\evil.test/a.png"),
    moved("a redirect with a tab", "a control character or a backslash", "http://media\t.test/a.png"),
    moved("a redirect to nowhere", "redirects to no addresses instead of one", code=UNREACHABLE),
    moved("a redirect to two places", "redirects to 2 addresses instead of one", "/a.png", "/b.png", code=UNREACHABLE),
    moved("a redirect in other bytes", "that is not UTF-8", "/\xff.png"),
    moved("a redirect to a long address", "an address of 5001 characters; it may have 4096", "/" + "a" * 5000),
    moved("a circle of redirects", "redirects more than 3 times", "/b.png", hops=4, code=UNREACHABLE),
]  # fmt: skip
"""Hosts that lead elsewhere. What they lead to is never connected to."""

NO_ANSWER: Final = "gave no whole and valid HTTP answer"
NOT_IN_TIME: Final = "was not there whole within 0.5 s"
SERVERS: Final = [
    sent("silence", silent(), UNREACHABLE, "which sent nothing for 0.05 s", **SILENT),
    sent("silence in the middle", silent(answer(b"abc", "Content-Length: 9")), UNREACHABLE, "sent nothing for 0.05 s",
         **SILENT),
    sent("a slow body", dribble(answer(b"", "Content-Length: 9999")), UNREACHABLE, NOT_IN_TIME, **SLOW),
    sent("slow headers", dribble(HEAD + b"X: "), UNREACHABLE, NOT_IN_TIME, **SLOW),
    sent("preliminary answers without end", dribble(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"), UNREACHABLE,
         NOT_IN_TIME, **SLOW),
    sent("a body without end", endless(answer()), TOO_LARGE, "has more than 1024 bytes", max_image_bytes=KB),
    sent("a body that is too long, then silence", silent(answer(bytes(1025))), TOO_LARGE, "has more than 1024 bytes",
         max_image_bytes=KB),
    sent("a large body without end", endless(answer()), TOO_LARGE, "has more than 4 MB",
         max_image_bytes=4 * KB * KB),
    sent("chunks without end", endless(answer(b"", "Transfer-Encoding: chunked"), b"400\r\n" + bytes(KB) + b"\r\n"),
         TOO_LARGE, "has more than 1024 bytes", max_image_bytes=KB),
    sent("headers without end", endless(HEAD, b"X: " + b"x" * 8000 + b"\r\n"), UNREACHABLE, NO_ANSWER),
    sent("a header without end", endless(HEAD + b"X: ", b"x" * 8000), UNREACHABLE, NO_ANSWER),
    sent("a chunk's size without end", endless(answer(b"", "Transfer-Encoding: chunked"), b"0" * 8000), UNREACHABLE,
         NO_ANSWER),
    sent("a length beyond the limit", silent(answer(b"", "Content-Length: 1025")), TOO_LARGE, "more than 1024 bytes",
         max_image_bytes=KB),
    sent("a length beyond all numbers", answer(b"", f"Content-Length: {10**19}"), TOO_LARGE, "more than 40 MB"),
    sent("a length that is longer than the body", answer(b"abc", "Content-Length: 9"), UNREACHABLE, NO_ANSWER),
    sent("two lengths", answer(b"abc", "Content-Length: 3", "Content-Length: 9"), UNREACHABLE, NO_ANSWER),
    sent("a length that is no number", answer(b"abc", "Content-Length: -3"), UNREACHABLE, NO_ANSWER),
    sent("a compressed body", answer(b"abc", "Content-Encoding: gzip"), INVALID, "came compressed ('gzip')"),
    sent("a body compressed twice", answer(b"abc", "Content-Encoding: br", "Content-Encoding: GZIP"), INVALID,
         "came compressed ('br, GZIP')"),
    sent("a compressed transfer", answer(b"abc", "Transfer-Encoding: gzip, chunked"), UNREACHABLE, NO_ANSWER),
    sent("an error page", answer(b"<html>", status="404 Not Found"), UNREACHABLE, "HTTP status 404 instead of 200"),
    sent("a part", answer(b"abc", status="206 Partial Content"), UNREACHABLE, "HTTP status 206 instead of 200"),
    sent("another protocol", answer(b"abc", "Upgrade: x", status="101 Switching Protocols"), UNREACHABLE, NO_ANSWER),
    sent("a body of nothing", answer(b"", "Content-Length: 0"), INVALID, "leads to an empty file, which is no image"),
    sent("no HTTP", b"SSH-2.0-OpenSSH_9.6\r\n", UNREACHABLE, NO_ANSWER),
    sent("no answer", b"", UNREACHABLE, NO_ANSWER),
    Attack("a host that is down", "http://media.test/a.png", UNREACHABLE, "to which no connection could be made",
           names={"media.test": (("192.0.0.9", OTHER_PUBLIC),)},
           limits={"private_networks": (ip_network("192.0.0.0/24"),)},
           connected=("192.0.0.9", OTHER_PUBLIC)),
    Attack("no TLS", "https://media.test/a.png", UNREACHABLE, "no connection could be made within 0.2 s",
           limits=NO_LINK, connected=(PUBLIC,)),
]  # fmt: skip
"""Listed hosts that answer badly."""

OUTSIDE: Final = "which is not in {folder}"
NO_FILE: Final = "there is no such file in {folder} that can be read"
PATHS: Final = [
    named("a way up", "../outside/a.png", FORBIDDEN, OUTSIDE),
    named("a way down and up", "inner/../../outside/a.png", FORBIDDEN, OUTSIDE),
    named("a way over a link and up", "out/../../outside/a.png", FORBIDDEN, OUTSIDE),
    named("another folder", "/etc/./passwd", FORBIDDEN, OUTSIDE),
    named("another folder as an address", "file:///etc/passwd", FORBIDDEN, OUTSIDE),
    named("the memory of the server", "file:///proc/self/environ", FORBIDDEN, OUTSIDE),
    named("a folder whose name begins alike", "{folder}_too/a.png", FORBIDDEN, OUTSIDE),
    named("an escaped way up", "file://%2e%2e/outside/a.png", FORBIDDEN, OUTSIDE),
    named("a way up that is escaped twice", "file://%252e%252e/outside/a.png", UNREACHABLE, NO_FILE),
    named("another machine's file", "file://localhost/etc/passwd", UNREACHABLE, NO_FILE),
    named("two slashes before it", "/{folder}/a.png", FORBIDDEN, OUTSIDE),
    named("a path that ends early", "a.png\0.jpg", INVALID, "is a path with a control character in it"),
    named("an escaped zero", "file://a.png%00.jpg", INVALID, "is a path with a control character in it"),
    named("escapes that are no text", "file://%ff%fe.png", INVALID, "has escapes that are not UTF-8"),
    named("no slashes", "file:a.png", INVALID, "a path follows file://"),
    named("a link to elsewhere", "out.png", FORBIDDEN, OUTSIDE),
    named("a way over a link", "out/a.png", FORBIDDEN, OUTSIDE),
    named("a file over a link that is not there", "out/none.png", FORBIDDEN, OUTSIDE),
    named("a link to a device", "zero.png", FORBIDDEN, OUTSIDE),
    named("a link to a descriptor", "descriptor.png", FORBIDDEN, OUTSIDE),
    named("a circle of links", "circle.png", UNREACHABLE, NO_FILE),
    named("a pipe", "pipe.png", UNREACHABLE, NO_FILE),
    named("a socket", "socket.png", UNREACHABLE, NO_FILE),
    named("a folder", "folder.png", UNREACHABLE, NO_FILE),
    named("the folder itself", ".", FORBIDDEN, OUTSIDE),
    named("a file that is not there", "none.png", UNREACHABLE, NO_FILE),
    named("a long name", "a" * 300 + ".png", UNREACHABLE, NO_FILE),
    named("a long path", "file://" + "a/" * 3000, "too_long", "is a path of 6007 characters; it may have 4096"),
    named("an empty file", "empty.png", INVALID, "leads to an empty file, which is no image"),
    named("a large file", "large.png", TOO_LARGE, "has more than 1024 bytes", max_image_bytes=KB),
    named("a file where none are read", "a.png", FORBIDDEN, "this deployment reads no local files", folder=None),
]  # fmt: skip
"""Local files that are none of the client's business."""

JPEG_URI: Final = "data:image/jpeg;base64,"
ALLOWED_URIS: Final = "must begin with one of data:image/jpeg;base64,, data:image/png;base64,"
INLINE: Final = [
    named("a foreign character", JPEG_URI + "AAAA!AAA", INVALID,
          "is not valid Base64: '!' at character 5 is not of its"),
    named("a foreign character far on", JPEG_URI + "A" * 700_000 + "\u00e9AAA", INVALID, "'\\xe9' at character 700001"),
    named("the alphabet for URLs", JPEG_URI + "AAA_", INVALID, "'_' at character 4 belongs to the form for URLs"),
    named("an escape", JPEG_URI + "AAA%2B", INVALID, "'%' at character 4"),
    named("a space", JPEG_URI + "AAAA AAAA", INVALID, "' ' at character 5"),
    named("no padding", JPEG_URI + "AAAAA", INVALID, "is not valid Base64"),
    named("padding in the middle", JPEG_URI + "AA==AAAA", INVALID, "is not valid Base64"),
    named("padding at the end of a block", JPEG_URI + "A" * (256 * KB - 2) + "==AAAA", INVALID, "padding"),
    named("nothing but padding", JPEG_URI + "====", INVALID, "is not valid Base64"),
    named("no Base64 text", JPEG_URI, INVALID, "leads to an empty file"),
    named("nothing but line ends", JPEG_URI + "\r\n" * 9, INVALID, "leads to an empty file"),
    named("no Base64", "data:image/png,%89PNG", INVALID, f"begins with 'data:image/png,'; a data URI {ALLOWED_URIS}"),
    named("a drawing with scripts", "data:image/svg+xml;base64,AAAA", INVALID, ALLOWED_URIS),
    named("a page", "data:text/html;base64,AAAA", INVALID, ALLOWED_URIS),
    named("a video as an image", "data:video/mp4;base64,AAAA", INVALID, ALLOWED_URIS),
    named("no comma", "data:image/png;base64" + "A" * 999, INVALID, ALLOWED_URIS),
    named("more in the head", "data:image/png;charset=x;base64,AAAA", INVALID, ALLOWED_URIS),
    named("a head without end", "data:image/png;" + "x=y;" * 9999 + "base64,AAAA", INVALID, ALLOWED_URIS),
    named("text beyond the limit", JPEG_URI + "A" * 2000, TOO_LARGE, "has more than 1024 bytes", max_image_bytes=KB),
    named("a byte beyond the limit", JPEG_URI + "A" * 1368, TOO_LARGE, "more than 1024 bytes", max_image_bytes=KB),
    named("no path and no Base64", "/data/multimodal_inputs/cat", INVALID,
          "is no path with a dot, no address and no data"),
    Attack("a recording without its head", "AAAA", INVALID, "Base64 alone is for images", kind="audio", names={}),
    Attack("a data URI as a recording", "data:audio/x-wav;base64,AAAA", INVALID, "':' at character 5", "audio",
           "wav", {}),
    Attack("an address as a recording", "http://media.test/a.wav", INVALID, "':' at character 5", "audio", "wav", {}),
    Attack("a recording beyond the limit", "A" * 2000, TOO_LARGE, "the most that a recording inside a request may have",
           "audio", "wav", {}, limits={"max_input_audio_bytes": KB}),
]  # fmt: skip
"""Media inside a request that are none."""

ATTACKS: Final = [*URLS, *ADDRESSES, *REDIRECTS, *SERVERS, *PATHS, *INLINE]
