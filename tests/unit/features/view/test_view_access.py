"""The token, its cookie, and requests that are refused: of strangers, of other sites, by other methods."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from pytest_crucible.features.view.application import make_application
from pytest_crucible.features.view.server.access import LONGEST_ADDRESS
from pytest_crucible.features.view.server.hosts import Hosts
from pytest_crucible.features.view.site import Site
from pytest_crucible.runs.run_store import open_for_reading
from pytest_crucible.store.runs import RunStore

HERE = "http://127.0.0.1:8765"
EVERY_ADDRESS = ("/", "/events", "/runs/x", "/runs/x/results", "/assets/view.js", "/assets/report/page.css", "/nothing")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("access") / "runs.db"
    RunStore(str(path)).close()
    with open_for_reading(str(path), "view") as opened:
        yield opened


@pytest.fixture
def site(store):
    return Site(store)


@pytest.fixture
def stranger(site):
    return TestClient(make_application(site), base_url=HERE, follow_redirects=False)


@pytest.fixture
def client(stranger, site):
    stranger.get("/", params={"token": site.token})
    return stranger


@pytest.mark.parametrize("address", EVERY_ADDRESS)
def test_without_the_cookie_every_address_is_refused(stranger, address):
    for query in ("", "?token=guessed", "?token="):
        response = stranger.get(address + query)

        assert response.status_code == 403
        assert response.text == (
            'open the link that "crucible view" printed: it has the token without which nothing is shown'
        )


def test_the_token_is_exchanged_for_a_cookie_and_is_in_no_later_address(stranger, site):
    response = stranger.get("/", params={"q": "a b", "token": site.token, "suite": "x"})

    assert response.status_code == 303
    assert response.headers["location"] == "/?q=a+b&suite=x"
    name, _, rest = response.headers["set-cookie"].partition("=")
    assert name == "crucible-8765"
    assert rest.lower().endswith("; httponly; path=/; samesite=strict")
    assert site.token not in response.headers["set-cookie"]
    assert stranger.get("/").status_code == 200


def test_the_cookie_is_not_the_token(client, site):
    value = client.cookies["crucible-8765"]
    client.cookies.clear()

    assert client.get("/", params={"token": value}).status_code == 403
    assert client.get("/", headers={"cookie": f"crucible-8765={site.token}"}).status_code == 403
    assert client.get("/", headers={"cookie": f"crucible-8766={value}"}).status_code == 403
    assert client.get("/", headers={"cookie": f"crucible-8765={value}"}).status_code == 200


def test_behind_a_tunnel_the_cookie_has_the_port_that_the_browser_uses(stranger, site):
    response = stranger.get("http://localhost:9000/", params={"token": site.token})

    assert response.headers["set-cookie"].startswith("crucible-9000=")


@pytest.mark.parametrize("start", ["//evil.example/a", "/\\evil.example"])
def test_the_token_leads_to_no_other_host(stranger, site, start):
    location = stranger.get(HERE + start, params={"token": site.token}).headers["location"]

    assert location.startswith("/")
    assert not location.startswith(("//", "/\\"))


def test_a_link_in_a_page_of_another_site_leads_on_by_a_page(stranger, site):
    """Browsers keep a strict cookie back from redirects that another site began: of a private file, too."""
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}

    response = stranger.get('/runs/x"<b>', params={"token": site.token, "q": '"><b>'}, headers=headers)

    assert response.status_code == 200
    assert "set-cookie" in response.headers
    assert site.token not in response.text
    assert "<b>" not in response.text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "10.1.2.3:8765", "", "[", "127.0.0.1.evil.example"]
)
def test_a_foreign_host_is_refused_with_the_cookie_too(client, host):
    assert client.get("/", headers={"host": host, "cookie": _cookies(client)}).status_code == 403


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1", "127.0.0.9:80", "[::1]:8765", "LOCALHOST:1"])
def test_this_machine_s_own_names_are_allowed(stranger, site, host):
    assert stranger.get("/", params={"token": site.token}, headers={"host": host}).status_code == 303


def test_a_dashboard_for_other_machines_allows_addresses_and_its_own_name():
    hosts = Hosts("gpu1.example.org")

    assert hosts.allows("gpu1.example.org:8765")
    assert hosts.allows("10.1.2.3:8765")
    assert hosts.allows("[fe80::1]:8765")
    assert hosts.allows("localhost:9000")
    assert not hosts.allows("gpu1.example.org.evil.example:8765")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8766"},
        {"origin": "https://127.0.0.1:8765"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    ],
)
def test_requests_of_other_sites_are_refused_with_the_cookie_too(client, headers):
    response = client.get("/", headers=headers)

    assert response.status_code == 403
    assert response.text.startswith("this request was made by another site")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": HERE},
        {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"},
        {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
    ],
)
def test_own_requests_and_clicks_on_links_are_answered(client, headers):
    assert client.get("/", headers=headers).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_only_get_and_head_are_answered(client, method):
    response = client.request(method, "/", headers={"origin": HERE})

    assert response.status_code == 405
    assert response.headers["allow"] == "GET, HEAD"


def test_head_has_the_headers_of_get(client):
    response = client.head("/")

    assert (response.status_code, response.content) == (200, b"")


def test_a_label_without_the_origin_is_refused(client):
    assert client.post("/runs/x/labels").status_code == 405
    assert client.post("/runs/x/labels", headers={"origin": "http://evil.example"}).status_code == 403


def test_addresses_end_somewhere(client):
    response = client.get("/", params={"q": "a" * LONGEST_ADDRESS})

    assert response.status_code == 414
    assert response.text == "an address has at most 8,192 bytes: shorten the search"


@pytest.mark.parametrize("address", ["/", "/assets/view.css", "/nothing", "/runs/x"])
def test_every_response_has_the_policy(client, stranger, address):
    for response in (client.get(address), client.get(address, headers={"host": "evil.example"})):
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "address",
    ["/assets/../access.py", "/assets/%2e%2e/access.py", "/assets/..%2faccess.py", "/assets//etc/passwd", "/assets/"],
)
def test_assets_lead_to_no_other_file(client, address):
    assert client.get(HERE + address).status_code == 404


def test_another_start_has_another_token_and_cookie(store, client):
    other = TestClient(make_application(Site(store)), base_url=HERE)

    assert other.get("/", headers={"cookie": _cookies(client)}).status_code == 403


def _cookies(client):
    return "; ".join(f"{name}={value}" for name, value in client.cookies.items())


@pytest.mark.parametrize("address", ["/assets/view.js", "/assets/report/page.css"])
def test_assets_are_sent_compressed(client, address):
    plain, compressed = (client.get(address, headers={"accept-encoding": each}) for each in ("identity", "gzip"))

    assert compressed.headers["content-encoding"] == "gzip"
    assert int(compressed.headers["content-length"]) < int(plain.headers["content-length"]) / 2
    assert compressed.text == plain.text
