"""The tests reach nothing but this machine (the guard is in conftest.py)."""

import socket

import pytest

NETWORK = "192.0.2.1"  # set aside for documentation by RFC 5737


@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_no_connection(method):
    with socket.socket() as client, pytest.raises(RuntimeError, match=r"192\.0\.2\.1"):
        getattr(client, method)((NETWORK, 80))


def test_no_datagram():
    with socket.socket(type=socket.SOCK_DGRAM) as client, pytest.raises(RuntimeError, match=r"192\.0\.2\.1"):
        client.sendto(b"", (NETWORK, 80))


@pytest.mark.parametrize("host", ["example.org", b"example.org"])
def test_no_name_lookup(host):
    with pytest.raises(RuntimeError, match=r"example\.org"):
        socket.getaddrinfo(host, 80)
    with pytest.raises(RuntimeError, match=r"example\.org"):
        socket.gethostbyname(host)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_loopback_works(host):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection((host, port)) as client, server.accept()[0] as peer:
            client.sendall(b"hello")
            assert peer.recv(5) == b"hello"


def test_unix_sockets_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("socket")
        server.listen()
        client.connect("socket")
