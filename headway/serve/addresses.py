"""Where a request comes from: the client's address, also behind proxies; and which Host it may ask for."""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from starlette.types import Scope

from headway.errors import HeadwayError
from headway.serve.errors import ApiError
from headway.serve.settings import ServerSettings

IPV6_CLIENT_BITS = 64  # a household or a machine is given that many addresses at once
MAX_FORWARDED = 20  # addresses in X-Forwarded-For that are looked at
LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost")
URL_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*/?")
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")
Address = IPv4Address | IPv6Address


def parse_address(text: str) -> Address | None:
    """An IP address, perhaps with a port, as proxies write it."""
    text = text.strip()[:60]
    if match := re.fullmatch(r"\[(.*)\](:\d+)?|([\d.]+):\d+", text):
        text = match[3] or match[1]
    try:
        parsed = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return parsed.ipv4_mapped or parsed if isinstance(parsed, IPv6Address) else parsed


def network_of(address: str) -> str:
    """The address by which a client is known: of an IPv6 address, its network."""
    parsed = parse_address(address)
    if isinstance(parsed, IPv6Address) and not parsed.is_loopback:
        return str(IPv6Network((int(parsed) >> 64 << 64, IPV6_CLIENT_BITS)))
    return str(parsed or "-")


def is_loopback(host: str) -> bool:
    """Whether a host, as bound or asked for, is this machine for itself."""
    parsed = parse_address(host)
    return parsed.is_loopback if parsed else host.lower().rstrip(".") in LOOPBACK_NAMES


class TrustedProxies:
    """Proxies whose X-Forwarded-For, -Proto and -Prefix are believed."""

    def __init__(self, given: Sequence[str]) -> None:
        self.networks: list[IPv4Network | IPv6Network] = []
        for text in given:
            try:
                self.networks.append(ip_network(text, strict=False))
            except ValueError:
                raise HeadwayError(
                    f"--trusted-proxy {text} is not an address. Write 127.0.0.1, ::1, or a network such as 10.0.0.0/8."
                ) from None

    def trust(self, address: str) -> bool:
        parsed = parse_address(address)
        return parsed is not None and any(parsed in network for network in self.networks)

    def find_client(self, peer: str, forwarded: str) -> str:
        """The last address in X-Forwarded-For that no trusted proxy has: those before it may be invented."""
        client = peer
        for entry in reversed(forwarded.split(",")[-MAX_FORWARDED:]):
            if not self.trust(client):
                break
            parsed = parse_address(entry)
            if parsed is None:
                break
            client = str(parsed)
        return client

    def resolve(self, scope: Scope, url_prefix: str) -> Scope:
        """The request as its client sent it: address, scheme, and the prefix of its path (as root_path)."""
        headers = [(name, value) for name, value in scope["headers"] if not name.startswith(b"x-forwarded-")]
        forwarded = {
            name: value.decode("latin-1") for name, value in scope["headers"] if name.startswith(b"x-forwarded-")
        }
        peer = scope["client"][0] if scope.get("client") else "-"
        changes: dict[str, object] = {"headers": headers}
        if forwarded and self.trust(peer):
            every = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
            client = self.find_client(peer, b",".join(every).decode("latin-1"))
            changes["client"] = (client, 0 if client != peer else scope["client"][1])
            scheme = forwarded.get(b"x-forwarded-proto", "").rpartition(",")[2].strip().lower()
            if scheme in ("http", "https"):
                changes["scheme"] = scheme
            prefix = forwarded.get(b"x-forwarded-prefix", "").rpartition(",")[2].strip()
            if prefix and len(prefix) <= 200 and URL_PREFIX.fullmatch(prefix):
                url_prefix = prefix.rstrip("/")
        path = scope["path"]
        has_prefix = path == url_prefix or path.startswith(url_prefix + "/")
        changes["route_path"] = path[len(url_prefix) :] if has_prefix else path
        if url_prefix:  # a proxy may have taken it off already
            changes["root_path"] = url_prefix
            changes["path"] = path if has_prefix else url_prefix + path
        return {**scope, **changes}


def parse_url_prefix(text: str) -> str:
    """Without the slash at its end; "" for none."""
    prefix = "/" + text.strip("/") if text.strip("/") else ""
    if not URL_PREFIX.fullmatch(prefix):
        raise HeadwayError(f"--url-prefix {text} is not a path. Write it as /translate-service.")
    return prefix


class AllowedHosts:
    """The names that a request may ask for in its header Host. A page whose name is made to point at this server
    (DNS rebinding) asks for its own."""

    def __init__(self, given: Sequence[str], bound: str) -> None:
        """bound: the address that the server listens on. Loopback names are always allowed; where it listens to the
        loopback interface and nothing is given, these alone, otherwise all."""
        for text in given:
            if text != "*" and not HOST.fullmatch(text.removeprefix("*.")):
                raise HeadwayError(f"--allowed-host {text} is not a host name. Write translate.example.org.")
        everything = "*" in given or not (given or is_loopback(bound))
        self.names = None if everything else [text.lower() for text in given]

    def check(self, scope: Scope) -> None:
        if self.names is None:
            return
        given = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), None)
        if given is None:  # HTTP/1.0: no browser sends it
            return
        match = HOST.fullmatch(given.strip())
        if match is None or not self._allow(match[1].lower().rstrip("."), match[0].lower()):
            raise ApiError(400, "Invalid request: this server does not answer for this Host: see --allowed-host")

    def _allow(self, name: str, with_port: str) -> bool:
        if is_loopback(name):  # nobody else can have this name
            return True
        return any(
            one in (name, with_port) or (one.startswith("*.") and name.endswith(one[1:])) for one in self.names or []
        )


class RequestOrigin:
    """What the settings say about where requests come from, and for whom."""

    def __init__(self, settings: ServerSettings) -> None:
        self.proxies = TrustedProxies(settings.trusted_proxies)
        self.hosts = AllowedHosts(settings.allowed_hosts, settings.host)
        self.url_prefix = parse_url_prefix(settings.url_prefix)

    def is_exempt(self, address: str) -> bool:
        """Whether an address stands for many clients, or for this machine: it may have any number of connections."""
        return is_loopback(address) or self.proxies.trust(address)
