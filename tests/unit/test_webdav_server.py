"""The trial server has the rules of Nextcloud that affect a load test, and the faults of real servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from http_support import ask
from webdav_support import FILES, PDF, Server, webdav_server

SECRET = "long enough 1"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with webdav_server() as running:
        yield running


@pytest.fixture
def anna(server: Server) -> Iterator[tuple[str, str]]:
    assert server.create("anna", SECRET) == (200, 200)
    yield "anna", SECRET
    server.ocs("DELETE", "/anna")


def test_without_the_ocs_header_nothing_is_done(server: Server) -> None:
    assert server.create("header", SECRET, headers={}) == (412, 412)
    assert server.code("DELETE", "/header", headers={}) == (412, 412)
    assert "header" not in server.users()


def test_a_name_can_be_used_once(server: Server, anna: tuple[str, str]) -> None:
    assert server.create("anna", SECRET) == (400, 102)
    assert server.create("anna", SECRET, version=1) == (200, 102), "version 1 says in the body alone that it failed"


@pytest.mark.parametrize("password", ["", "too short", "locust-user-1"])
def test_weak_passwords_are_refused(server: Server, password: str) -> None:
    assert server.create("locust-user-1", password) == (400, 107)


def test_names_must_be_plain(server: Server) -> None:
    assert server.create("a b/c", SECRET) == (400, 101)


def test_a_user_can_be_deleted_once(server: Server) -> None:
    server.create("gone", SECRET)
    assert server.dav("GET", f"gone/{PDF}", ("gone", SECRET)).status == 200
    assert server.code("DELETE", "/gone") == (200, 200)
    assert server.code("DELETE", "/gone") == (404, 998)
    assert server.dav("GET", f"gone/{PDF}", ("gone", SECRET)).status == 401


def test_search_finds_by_part_of_the_name(server: Server) -> None:
    for name in ("lr-one-1", "lr-one-2", "lr-two-1"):
        server.create(name, SECRET)
    assert server.users("lr-one") == ["lr-one-1", "lr-one-2"]
    assert len(server.ocs("GET", params={"search": "lr-", "limit": 2}).document["ocs"]["data"]["users"]) == 2
    for name in server.users("lr-"):
        server.ocs("DELETE", f"/{name}")


def test_only_the_administrator_makes_users(server: Server, anna: tuple[str, str]) -> None:
    assert server.create("friend", SECRET, auth=anna) == (403, 403)
    assert server.create("friend", SECRET, auth=("anna", "wrong")) == (401, 997)
    assert server.create("friend", SECRET, auth=("anna", "wrong"), version=1) == (401, 997)


def test_an_administrator_with_a_users_cookie_is_that_user(server: Server, anna: tuple[str, str]) -> None:
    cookie = server.dav("GET", f"anna/{PDF}", anna).headers["Set-Cookie"].partition(";")[0]
    assert server.code("DELETE", "/anna", headers={"OCS-APIRequest": "true", "Cookie": cookie}) == (403, 403)
    assert server.users() == ["anna"]


def test_a_new_home_holds_a_pdf_of_its_own(server: Server, anna: tuple[str, str]) -> None:
    server.create("berta", SECRET)
    manual = server.dav("GET", f"anna/{PDF}", anna).body
    assert (manual[:5], len(manual)) == (b"%PDF-", 50_000)
    assert server.dav("PUT", f"anna/{PDF}", anna, data=b"mine").status in (201, 204)
    assert server.dav("GET", f"anna/{PDF}", anna).body == b"mine"
    assert server.dav("GET", f"berta/{PDF}", ("berta", SECRET)).body == manual, "homes must not share a file"
    server.ocs("DELETE", "/berta")


def test_homes_are_closed_to_others(server: Server, anna: tuple[str, str]) -> None:
    server.create("berta", SECRET)
    server.dav("PUT", "anna/secret.txt", anna, data=b"x")
    berta = ("berta", SECRET)
    assert server.dav("GET", "anna/secret.txt", berta).status == 403
    assert server.dav("PROPFIND", "", berta).status == 403
    to_anna = {"Destination": f"{server.url}{FILES}/anna/from-berta.pdf"}
    assert server.dav("MOVE", f"berta/{PDF}", berta, headers=to_anna).status == 403
    assert server.dav("GET", "berta/../anna/secret.txt", berta).status == 403
    server.ocs("DELETE", "/berta")


def test_files_can_be_listed_moved_and_deleted(server: Server, anna: tuple[str, str]) -> None:
    assert server.dav("PUT", "anna/a.txt", anna, data=b"1").status == 201
    assert server.dav("PUT", "anna/a.txt", anna, data=b"22").status == 204
    assert server.dav("MKCOL", "anna/new", anna).status == 201
    assert server.dav("PUT", "anna/none/a.txt", anna, data=b"1").status == 409
    move = {"Destination": f"{server.url}{FILES}/anna/new/b.txt"}
    assert server.dav("MOVE", "anna/a.txt", anna, headers=move).status == 201
    listing = server.dav("PROPFIND", "anna/new/", anna, headers={"Depth": "1"})
    assert listing.status == 207
    assert "/anna/new/b.txt" in listing.text
    assert server.dav("DELETE", "anna/new/b.txt", anna).status == 204


def test_the_second_writer_of_one_file_is_refused(server: Server, anna: tuple[str, str]) -> None:
    """Real servers answered eight of ten parallel uploads to one file with 423."""
    codes: list[int] = []

    def body() -> Iterator[bytes]:
        for _ in range(10):
            yield b"x" * 1000
            time.sleep(0.03)

    def write() -> None:
        length = {"Content-Length": "10000"}
        codes.append(server.dav("PUT", "anna/same.txt", anna, data=body(), headers=length).status)

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(codes)[0] in (201, 204)
    assert codes.count(423) >= 1
    assert server.dav("PUT", "anna/same.txt", anna, data=b"after").status == 204


def test_creation_lies_and_locks() -> None:
    with webdav_server("create-locked=3", "create-lies=2", "delete-locked") as server:
        answers = [server.create(f"user-{number}", SECRET) for number in range(4)]
        assert answers == [(200, 200), (400, 101), (500, 996), (400, 101)]
        assert len(server.users()) == 4, "the users were made, whatever was said"
        assert server.code("DELETE", "/user-0") == (500, 996)
        assert server.code("DELETE", "/user-0") == (200, 200)
        assert server.code("DELETE", "/user-0", version=1) == (200, 998)


def test_with_status_200_only_the_body_shows_a_failure() -> None:
    with webdav_server("status-200", "create-lies=1") as server:
        assert server.create("anna", SECRET) == (200, 101)
        assert server.create("anna", SECRET, headers={}) == (200, 412)
        assert server.code("DELETE", "/nobody") == (200, 998)


def test_an_address_is_shut_out_after_bad_logins() -> None:
    with webdav_server("throttle=3") as server:
        assert [server.code("GET", auth=("admin", "wrong"))[0] for _ in range(4)] == [401, 401, 401, 401]
        assert server.ocs("GET").status == 429, "the administrator too, and the right password"


def test_every_fault_of_files_has_its_status() -> None:
    switches = ("file-locked=2", "html=3", "cut=2", "quota=60000", "first-put-503", "slow-login=0.1")
    with webdav_server(*switches, accounts=(f"carl:{SECRET}",)) as server:
        carl = ("carl", SECRET)
        assert server.dav("PUT", "carl/a.txt", carl, data=b"1").status == 503
        answers = [server.dav("PUT", "carl/a.txt", carl, data=b"1").status for _ in range(4)]
        assert answers == [201, 423, 204, 423]
        assert server.dav("PUT", "carl/b.txt", carl, data=b"x" * 20_000).status == 507
        kinds = [server.dav("GET", f"carl/{PDF}", carl) for _ in range(3)]
        assert {kind.status for kind in kinds} == {200}
        assert [(kind.body[:5], len(kind.body)) for kind in kinds] == [
            (b"%PDF-", 50_000),
            (b"%PDF-", 900),
            (b"<!DOC", len(kinds[2].body)),
        ]
        first = server.dav("HEAD", "carl/a.txt", carl)
        cookie = {"Cookie": first.headers["Set-Cookie"].partition(";")[0]}
        assert first.seconds >= 0.1 > server.dav("HEAD", "carl/a.txt", carl, headers=cookie).seconds


@pytest.mark.parametrize(
    ("switch", "status"), [("untrusted-host", 400), ("maintenance", 503), ("no-provisioning", 404), ("busy", 503)]
)
def test_whole_server_modes(switch: str, status: int) -> None:
    with webdav_server(switch, accounts=(f"carl:{SECRET}",)) as server:
        path = f"{FILES}/carl/{PDF}" if switch == "busy" else "/ocs/v2.php/cloud/users"
        assert ask("GET", server.url + path, auth=("carl", SECRET)).status == status


def test_its_folder_is_deleted_with_it() -> None:
    with webdav_server() as server:
        server.create("anna", SECRET)
        assert (server.folder / "files" / "anna").is_dir()
    assert not server.folder.exists()


@pytest.mark.parametrize("switch", ["nonsense", "html=0", "html=often", "slow=-1"])
def test_wrong_switches_are_named(switch: str) -> None:
    with pytest.raises(ValueError), webdav_server(switch):  # it prints no line of JSON, it says why and ends
        pass
