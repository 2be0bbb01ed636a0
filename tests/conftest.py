import os
import sys
from ipaddress import ip_address

import hypothesis
import pytest
import torch

torch.set_num_threads(1)  # the workers share the cores

hypothesis.settings.register_profile(
    "onenth", deadline=None, print_blob=True, derandomize=bool(os.environ.get("CI"))
)
hypothesis.settings.load_profile("onenth")


class TorchRandom:
    """Torch's numbers, for hypothesis to seed: an example replayed draws the same ones."""

    seed = staticmethod(torch.manual_seed)
    getstate = staticmethod(torch.get_rng_state)
    setstate = staticmethod(torch.set_rng_state)


hypothesis.register_random(TorchRandom)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


LOOKUPS = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}
SENDS = {"socket.connect", "socket.sendto", "socket.sendmsg"}


def is_loopback(host):
    try:
        return host in (None, "", "localhost") or ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_network(event, args):
    if event in LOOKUPS:
        host = args[0]
    elif event in SENDS and isinstance(args[1], tuple):  # a path is a socket of this machine
        host = args[1][0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if not is_loopback(host):
        raise RuntimeError(f"the tests run without a network, and this one asked for {host} ({event})")


sys.addaudithook(refuse_network)
