"""What media become that are as they should be: each form of each kind gives its bytes, in the order of the parts."""

from __future__ import annotations

import base64
import ssl
from ipaddress import ip_network
from pathlib import Path

import pytest
from hostile_server import OTHER_PUBLIC, PUBLIC, Network, answer, redirect, running, whole
from open_files import open_below
from pki import Authority
from source_world import part, world

from engine.types import MediaKind
from handlers.errors import Problem
from handlers.media.inline import MIME_TYPES
from handlers.media.limits import MediaLimits
from handlers.media.sources import MediaSources
from handlers.media.spool import Spools

DATA = bytes(range(256)) * 5
TEXT = base64.b64encode(DATA).decode()


@pytest.mark.parametrize("form", [
    *("a b.png", "file://a b.png", "file://a%20b.png", "inner/link.png", "inner/../a b.png"),
    *("{folder}/a b.png", "{folder}//a b.png", "file://{folder}/a b.png", "FILE://{folder}/a%20b.png"),
])  # fmt: skip
async def test_a_local_file_is_found_in_every_form(form: str, tmp_path: Path) -> None:
    """From the folder or from the root, as a path or as an address, over links that stay inside."""
    async with world(tmp_path) as here:
        folder = here.limits.folder
        assert folder is not None
        (folder / "a b.png").write_bytes(DATA)
        (folder / "inner").mkdir()
        (folder / "inner" / "link.png").symlink_to("../a b.png")
        assert await here.bytes_of(form.replace("{folder}", str(folder))) == [DATA]


async def test_a_folder_behind_a_link_is_read(tmp_path: Path) -> None:
    """Where an operator's folder is a link, its files are inside."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.png").write_bytes(DATA)
    (tmp_path / "named").symlink_to("elsewhere")
    async with world(tmp_path, folder=tmp_path / "named") as here:
        assert await here.bytes_of("a.png", f"{tmp_path}/named/a.png") == [DATA, DATA]


async def test_a_local_file_is_copied(tmp_path: Path) -> None:
    """What is decoded later is what was judged, whatever becomes of the file."""
    async with world(tmp_path) as here:
        assert here.limits.folder is not None
        (here.limits.folder / "a.png").write_bytes(DATA)
        [file] = await here.sources.files([part("a.png")], here.spool)
        (here.limits.folder / "a.png").write_bytes(b"other")
        assert file.path.read_bytes() == DATA
        assert file.path.parent == here.spool.folder


async def test_no_local_file_stays_open(tmp_path: Path) -> None:
    """Neither one that was copied, nor those that were refused once they had been opened."""
    async with world(tmp_path, max_image_bytes=1024) as here:
        folder = here.limits.folder
        assert folder is not None
        (folder / "a.png").write_bytes(b"a")
        (folder / "large.png").write_bytes(bytes(1025))
        (folder / "folder.png").mkdir()
        with (folder / "a.png").open("rb"):
            assert open_below(folder) == [str((folder / "a.png").resolve())]
        assert await here.bytes_of("a.png") == [b"a"]
        for refused in ("large.png", "folder.png"):
            with pytest.raises(Problem):
                await here.bytes_of(refused)
        assert open_below(folder) == []


@pytest.mark.parametrize(("kind", "mime"), [(kind, mime) for kind, mimes in MIME_TYPES.items() for mime in mimes])
async def test_a_data_uri_of_each_type_is_decoded(kind: MediaKind, mime: str, tmp_path: Path) -> None:
    """In any letter case."""
    async with world(tmp_path) as here:
        values = [f"data:{mime};base64,{TEXT}", f"DATA:{mime.upper()};BASE64,{TEXT}"]
        assert await here.bytes_of(*values, kind=kind) == [DATA, DATA]


async def test_base64_alone_is_an_image_or_a_recording(tmp_path: Path) -> None:
    """A JPG's begins with a slash as a path does; lines may end in it."""
    lines = base64.encodebytes(DATA).decode()
    async with world(tmp_path) as here:
        jpeg = base64.b64encode(b"\xff\xd8\xff" + DATA).decode()
        assert jpeg.startswith("/9j/")
        assert await here.bytes_of(jpeg, lines) == [b"\xff\xd8\xff" + DATA, DATA]
        assert await here.bytes_of(TEXT, lines.replace("\n", "\r\n"), kind="audio", audio_format="wav") == [DATA, DATA]


async def test_order_is_kept_whatever_comes_first(tmp_path: Path) -> None:
    """Of fetched, local and inline media."""
    async with world(tmp_path, {f"/{n}.png": whole(b"%d" % n) for n in range(9)}) as here:
        assert here.limits.folder is not None
        (here.limits.folder / "a.png").write_bytes(b"a")
        values = [f"http://media.test/{n}.png" for n in range(9)]
        found = await here.bytes_of("a.png", *values, TEXT)
        assert found == [b"a", *(b"%d" % n for n in range(9)), DATA]


async def test_no_parts_are_no_files(tmp_path: Path) -> None:
    """And no error."""
    async with world(tmp_path) as here:
        assert await here.bytes_of() == []


async def test_what_a_host_is_asked(tmp_path: Path) -> None:
    """The path with its query, escaped once, of the host in small letters; no cookies and no compression."""
    target = "/%E5%9B%BE%20a.png?q=%20&r=1"
    async with world(tmp_path, {target: whole(DATA)}) as here:
        assert await here.bytes_of("HTTP://Media.Test/图 a.png?q=%20&r=1#part") == [DATA]
        head = (
            f"GET {target} HTTP/1.1\r\nHost: media.test\r\nUser-Agent: mindspec/0.1.0\r\nAccept: */*\r\n"
            "Accept-Encoding: identity\r\nConnection: close\r\n\r\n"
        )
        assert here.network.heads == [head.encode()]


async def test_proxies_of_the_environment_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be connected to instead of the address that was checked."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with world(tmp_path, {"/a.png": whole(DATA)}) as here:
        assert await here.bytes_of("http://media.test/a.png") == [DATA]
        assert here.network.connected == [PUBLIC]


@pytest.mark.parametrize(("value", "domain", "host", "port"), [
    ("http://media.test:8080/a.png", "media.test", "media.test:8080", 8080),
    ("http://media.test:8080/a.png", "media.test:8080", "media.test:8080", 8080),
    ("http://media.test:80/a.png", "media.test:80", "media.test", 80),
    ("http://93.184.216.34/a.png", "93.184.216.34", "93.184.216.34", 80),
    ("http://[2606:2800:220:1:248:1893:25C8:1946]:81/a.png", f"[{OTHER_PUBLIC}]", f"[{OTHER_PUBLIC}]:81", 81),
    ("http://localhost/a.png", "localhost", "localhost", 80),
])  # fmt: skip
async def test_a_listed_host_is_fetched_from(value: str, domain: str, host: str, port: int, tmp_path: Path) -> None:
    """By name or address, with any port where the list names none."""
    names = {"media.test": ((PUBLIC,),), "localhost": (("127.0.0.1",),)}
    networks = (ip_network("127.0.0.0/8"),)
    async with world(
        tmp_path, {"/a.png": whole(DATA)}, names=names, domains=(domain,), private_networks=networks
    ) as here:
        assert await here.bytes_of(value) == [DATA]
        assert f"Host: {host}\r\n".encode() in here.network.heads[0]
        assert here.network.ports == [port]


@pytest.mark.parametrize(("network", "address"), [
    ("10.0.0.0/8", "10.1.2.3"), ("127.0.0.1/32", "127.0.0.1"), ("::1/128", "::1"), ("fd12::/16", "fd12::5"),
    ("10.0.0.0/8", "::ffff:10.1.2.3"), ("0.0.0.0/0", "192.168.0.9"), ("10.0.0.0/8", "64:ff9b::a01:203"),
])  # fmt: skip
async def test_a_private_network_is_opened_for_listed_hosts(network: str, address: str, tmp_path: Path) -> None:
    """The connection goes to the address that was checked, a mapped one to the address that it means."""
    networks = (ip_network(network),)
    names = {"media.test": ((address,),)}
    async with world(tmp_path, {"/a.png": whole(DATA)}, names=names, private_networks=networks) as here:
        assert await here.bytes_of("http://media.test/a.png") == [DATA]
        assert here.network.connected == [address.removeprefix("::ffff:")]
        with pytest.raises(Problem, match="not on this deployment's list"):
            await here.bytes_of("http://other.test/a.png")


async def test_the_next_address_is_tried_where_one_does_not_answer(tmp_path: Path) -> None:
    """All of them were checked."""
    names, dead = {"media.test": ((OTHER_PUBLIC, PUBLIC),)}, frozenset({OTHER_PUBLIC})
    async with world(tmp_path, {"/a.png": whole(DATA)}, names=names, dead=dead) as here:
        assert await here.bytes_of("http://media.test/a.png") == [DATA]
        assert here.network.connected == [OTHER_PUBLIC, PUBLIC]


async def test_a_name_is_looked_up_once(tmp_path: Path) -> None:
    """So that a name server cannot show one address to the check and another to the connection."""
    names = {"media.test": ((PUBLIC,), ("127.0.0.1",))}
    async with world(tmp_path, {"/a.png": whole(DATA)}, names=names) as here:
        assert await here.bytes_of("http://media.test/a.png") == [DATA]
        assert (here.network.looked_up, here.network.connected) == (["media.test"], [PUBLIC])


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize("location", ["/b.png", "b.png", "//media.test/b.png", "http://MEDIA.test:80/b.png#x"])
async def test_a_redirect_is_followed(status: str, location: str, tmp_path: Path) -> None:
    """To another path of a listed host, with the name looked up again."""
    scripts = {"/a.png": redirect(location, status=status), "/b.png": whole(DATA)}
    async with world(tmp_path, scripts) as here:
        assert await here.bytes_of("http://media.test/a.png") == [DATA]
        assert here.network.looked_up == ["media.test"] * 2


async def test_a_redirect_to_another_listed_host_is_followed(tmp_path: Path) -> None:
    """At its own address."""
    names = {"media.test": ((PUBLIC,),), "more.test": ((OTHER_PUBLIC,),)}
    scripts = {"/a.png": redirect("http://more.test/b.png"), "/b.png": whole(DATA)}
    async with world(tmp_path, scripts, names=names, domains=("media.test", "more.test")) as here:
        assert await here.bytes_of("http://media.test/a.png") == [DATA]
        assert here.network.connected == [PUBLIC, OTHER_PUBLIC]


@pytest.mark.parametrize(("script", "body"), [
    (answer(b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "Transfer-Encoding: chunked"), b"hello world"),
    (answer(b"hello", "Content-Encoding: identity"), b"hello"),
    (answer(b"hello and more", "Content-Length: 5"), b"hello"),
    (b"HTTP/1.1 103 Early Hints\r\n\r\n" + whole(b"hello"), b"hello"),
    (answer(bytes(3_000_000)), bytes(3_000_000)),
])  # fmt: skip
async def test_a_body_in_any_form_of_http_is_read(script: bytes, body: bytes, tmp_path: Path) -> None:
    """In chunks, up to the end of the connection, no further than its length says."""
    async with world(tmp_path, {"/a.png": script}) as here:
        assert await here.bytes_of("http://media.test/a.png") == [body]


async def test_as_many_bytes_as_are_allowed_are_taken(tmp_path: Path) -> None:
    """Of each way in; the first byte more is refused in the table of attacks."""
    async with world(tmp_path, {"/a.png": whole(bytes(1024))}, max_image_bytes=1024) as here:
        assert here.limits.folder is not None
        (here.limits.folder / "a.png").write_bytes(bytes(1024))
        inline_ = base64.b64encode(bytes(1024)).decode()
        assert await here.bytes_of("http://media.test/a.png", "a.png", inline_) == [bytes(1024)] * 3


@pytest.fixture
def ca(tmp_path: Path) -> tuple[Authority, ssl.SSLContext, ssl.SSLContext]:
    """A CA, a server with a certificate of it for localhost, and a client that trusts it."""
    authority = Authority()
    cert, key = authority.issue("server").write(tmp_path, "server")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(cert, key)
    return authority, server, ssl.create_default_context(cadata=authority.pem.decode())


LOCALHOST = {"localhost": (("127.0.0.1",),), "media.test": (("127.0.0.1",),)}
LOOPBACK = (ip_network("127.0.0.0/8"),)


async def test_https_is_checked_by_the_name_of_the_host(
    tmp_path: Path, ca: tuple[Authority, ssl.SSLContext, ssl.SSLContext]
) -> None:
    """Although the connection goes to an address: the right name is served, another one refused."""
    domains = ("localhost", "media.test")
    async with world(tmp_path, {"/a.png": whole(DATA)}, tls=ca[1], client_tls=ca[2], names=LOCALHOST, domains=domains,
                     private_networks=LOOPBACK) as here:  # fmt: skip
        assert await here.bytes_of("https://localhost/a.png") == [DATA]
        with pytest.raises(Problem, match=r"no TLS could be agreed on: Hostname mismatch.*'media\.test'") as caught:
            await here.bytes_of("https://media.test/a.png?secret")
        assert caught.value.code == "media_unreachable"
        assert here.network.heads[1:] == []


async def test_https_of_an_unknown_ca_is_refused(
    tmp_path: Path, ca: tuple[Authority, ssl.SSLContext, ssl.SSLContext]
) -> None:
    """And nothing is sent."""
    async with world(tmp_path, {"/a.png": whole(DATA)}, tls=ca[1], client_tls=None, names=LOCALHOST,
                     domains=("localhost",), private_networks=LOOPBACK) as here:  # fmt: skip
        with pytest.raises(Problem, match=r"no TLS could be agreed on: (unable to get local issuer|self-signed)"):
            await here.bytes_of("https://localhost/a.png")
        assert here.network.heads == []


async def test_a_redirect_may_add_tls_and_not_take_it_away(
    tmp_path: Path, ca: tuple[Authority, ssl.SSLContext, ssl.SSLContext]
) -> None:
    """From port 80 to port 443, not back."""
    plain = Network(LOCALHOST, {"/a.png": redirect("https://localhost/b.png"), "/d.png": whole(DATA)})
    secure = Network(LOCALHOST, {"/b.png": whole(DATA), "/c.png": redirect("http://localhost/d.png")}, tls=ca[1])
    limits = MediaLimits(spool_folder=tmp_path, domains=("localhost",), private_networks=LOOPBACK)
    spools = Spools(limits)
    spool = spools.open()
    async with running(plain), running(secure):

        async def connect(address: str, port: int, timeout_s: float) -> object:
            return await (secure if port == 443 else plain).connect(address, port, timeout_s)

        sources = MediaSources(limits, resolver=plain.resolve, connector=connect, tls=ca[2])  # type: ignore[arg-type]
        [file] = await sources.files([part("http://localhost/a.png")], spool)
        assert file.path.read_bytes() == DATA
        with pytest.raises(Problem, match="redirects to an address that has no TLS, while the one before it had"):
            await sources.files([part("https://localhost/c.png")], spool)
        sources.close()
    assert len(plain.heads) == 1
    spools.close()
