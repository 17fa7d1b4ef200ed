"""Where a request comes from: forwarded headers of stated proxies alone, and the Host that it asks for."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from headway.errors import HeadwayError
from headway.serve.addresses import AllowedHosts, TrustedProxies, is_loopback, network_of, parse_url_prefix
from headway.serve.errors import ApiError
from serve.conftest import Running, running, until

BODY = {"q": "The dog sees a red house.", "source": "en", "target": "qtx"}


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
        ("no address", "-"),
        ("[]", "-"),
        ("[]:80", "-"),
        (":80", "-"),
    ],
)
def test_a_client_is_a_network(address: str, network: str) -> None:
    assert network_of(address) == network


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ("203.0.113.5", "203.0.113.5"),
        ("1.1.1.1, 203.0.113.5", "203.0.113.5"),  # what comes before may be invented
        ("1.1.1.1, 203.0.113.5, 10.0.0.8", "203.0.113.5"),  # the last is a trusted proxy
        ("203.0.113.5:4711", "203.0.113.5"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("10.0.0.1, 10.0.0.2", "10.0.0.1"),
        ("evil\x1b[31m", "127.0.0.1"),
        ("203.0.113.5, evil", "127.0.0.1"),
        ("", "127.0.0.1"),
        (",".join(["203.0.113.5"] * 10_000), "203.0.113.5"),
        (",".join(["10.0.0.1"] * 10_000), "10.0.0.1"),
    ],
)
def test_the_last_address_that_no_proxy_has(forwarded: str, client: str) -> None:
    proxies = TrustedProxies(["127.0.0.1", "10.0.0.0/8"])
    assert proxies.find_client("127.0.0.1", forwarded) == client
    assert proxies.find_client("198.51.100.9", forwarded) == "198.51.100.9"
    assert TrustedProxies([]).find_client("127.0.0.1", forwarded) == "127.0.0.1"


def test_wrong_settings() -> None:
    with pytest.raises(HeadwayError, match="--trusted-proxy nginx is not an address"):
        TrustedProxies(["nginx"])
    with pytest.raises(HeadwayError, match="--allowed-host http://x is not a host name"):
        AllowedHosts(["http://x"], "127.0.0.1")
    with pytest.raises(HeadwayError, match="--url-prefix a b is not a path"):
        parse_url_prefix("a b")
    assert parse_url_prefix("/") == parse_url_prefix("") == ""
    assert parse_url_prefix("a/b/") == parse_url_prefix("/a/b") == "/a/b"


def allowed(hosts: AllowedHosts, host: str) -> bool:
    try:
        hosts.check({"headers": [(b"host", host.encode("latin-1"))]})
    except ApiError:
        return False
    return True


def test_hosts() -> None:
    loopback = AllowedHosts([], "127.0.0.1")
    for host in ("localhost", "localhost:5000", "LOCALHOST.:80", "127.0.0.1:1", "[::1]:5000", "127.1.2.3"):
        assert allowed(loopback, host), host
    evil = ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:5000", "", "a b", "evil\r\n", "[::2]")
    for host in (*evil, "192.0.2.1", "localhost:5000@evil.example", "localhost/", "127.0.0.1:5000:1"):
        assert not allowed(loopback, host), host
    assert allowed(AllowedHosts([], "0.0.0.0"), "evil.example")
    assert allowed(AllowedHosts(["*"], "127.0.0.1"), "evil.example")
    named = AllowedHosts(["translate.example.org", "*.example.com", "other.example:8443"], "0.0.0.0")
    for host in ("translate.example.org", "Translate.Example.Org:443", "a.b.example.com", "other.example:8443"):
        assert allowed(named, host), host
    assert allowed(named, "127.0.0.1:5000")  # health checks of this machine
    for host in (*evil, "example.com", "other.example", "other.example:80", "xexample.com"):
        assert not allowed(named, host), host
    named.check({"headers": []})  # HTTP/1.0
    assert is_loopback("localhost") and not is_loopback("0.0.0.0")


def test_another_host_is_refused(served: Running) -> None:
    answer = served.get("/languages", headers={"Host": "evil.example"})
    assert answer.status_code == 400
    assert answer.json() == {"error": "Invalid request: this server does not answer for this Host: see --allowed-host"}
    assert served.get("/languages", headers={"Host": f"localhost:{served.port}"}).status_code == 200


def forwarded(server: Running, **headers: str) -> dict[str, Any]:
    """The last line of the log, after such a request."""
    before = len(server.log)
    server.get("/health", headers={f"X-Forwarded-{name}": value for name, value in headers.items()})
    until(lambda: len(server.log) > before)
    return server.log[-1][2]


def test_forwarded_addresses_in_the_log(translator_dir: Path) -> None:
    evil = "203.0.113.5\x1b[31m status=200 client=root"
    with running(translator_dir) as server:
        assert forwarded(server, For="203.0.113.5")["client"] == "127.0.0.1"
    with running(translator_dir, trusted_proxies=("127.0.0.0/8",)) as server:
        assert forwarded(server, For="203.0.113.5")["client"] == "203.0.113.5"
        assert forwarded(server, For=evil)["client"] == "127.0.0.1"
        assert "\x1b" not in repr(server.log)
        assert "root" not in repr(server.log)


def translated_file(server: Running, path: str, **headers: str) -> str:
    form = {"data": {"source": "en", "target": "qtx"}, "files": {"file": ("a.txt", b"A dog.")}}
    return str(server.post(path, **form, headers=headers).json()["translatedFileUrl"])


def test_under_a_prefix(translator_dir: Path) -> None:
    with running(translator_dir, url_prefix="/translate-service/") as server:
        for prefix in ("/translate-service", ""):  # a proxy may have taken it off
            assert server.post(f"{prefix}/translate", BODY).status_code == 200
            assert server.get(f"{prefix}/languages").status_code == 200
            assert server.get(f"{prefix}/static/page.js").status_code == 200
            assert 'href="spec"' in server.get(f"{prefix}/docs").text
            assert server.get(f"{prefix}/spec").json()["servers"] == [{"url": "/translate-service"}]
            url = translated_file(server, f"{prefix}/translate_file")
            assert url.startswith(f"{server.url}/translate-service/download_file/")
            assert httpx.get(url, timeout=30).status_code == 200
        moved = server.get("/translate-service")
        assert (moved.status_code, moved.headers["location"]) == (308, "/translate-service/")
        assert "static/page.js" in server.get("/translate-service/").text
        assert server.get("/translate-servicex/").status_code == 404
        assert server.get("/translate-service/translate-service/health").status_code == 404
        assert server.post("/translate-service/v1/completions", {"model": "x"}).json()["error"]["type"]


def test_behind_a_proxy(translator_dir: Path) -> None:
    told = {"X-Forwarded-Proto": "https", "X-Forwarded-Prefix": "/de/", "Host": "translate.example.org"}
    hosts = {"allowed_hosts": ("translate.example.org",)}
    with running(translator_dir, **hosts) as server:
        url = translated_file(server, "/translate_file", **told)
        assert url.startswith("http://translate.example.org/download_file/")
    with running(translator_dir, **hosts, trusted_proxies=("127.0.0.1",)) as server:
        url = translated_file(server, "/translate_file", **told)
        assert url.startswith("https://translate.example.org/de/download_file/")
        odd = {
            "X-Forwarded-Proto": "javascript",
            "X-Forwarded-Host": "evil",
            "X-Forwarded-Prefix": "//evil.example/<x>",
        }
        assert translated_file(server, "/translate_file", **odd).startswith(f"{server.url}/download_file/")
