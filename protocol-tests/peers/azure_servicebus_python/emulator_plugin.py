"""A pytest plugin that makes the emulator be the cloud for the live tests of azure-servicebus.

It stands in for the packages that the tests import and nobody publishes or that would call the cloud, leads the host name
of the namespace to the emulator, and has the emulator's certificate trusted.
"""

import json
import os
import re
import socket
import sys
import types

import certifi
import pytest

import management

HOST_SUFFIX = os.environ["SERVICEBUS_ENDPOINT_SUFFIX"]
EMULATOR_PORT = int(os.environ["EMULATOR_PORT"])


def module(name, **members):
    made = types.ModuleType(name)
    made.__dict__.update(members)
    sys.modules[name] = made


module("azure.mgmt")
module("azure.mgmt.resource", ResourceManagementClient=management.ResourceManagementClient)
module("azure.mgmt.servicebus", ServiceBusManagementClient=management.ServiceBusManagementClient)
module(
    "azure.mgmt.servicebus.models",
    SBQueue=management.SBQueue,
    SBSubscription=management.SBSubscription,
    SBAuthorizationRule=management.SBAuthorizationRule,
    AccessRights=management.AccessRights,
)

# Before the SDK is imported: it may keep what it finds.
certifi.where = lambda: os.environ["EMULATOR_CA_FILE"]

resolve = socket.getaddrinfo


def resolve_emulator(host, port, *arguments, **options):
    """Leads the namespace's host, on the ports of AMQP over TLS and of HTTPS, to the port of the emulator."""
    if isinstance(host, bytes):
        host = host.decode()
    if host == management.ENDPOINT:
        return resolve("127.0.0.1", EMULATOR_PORT, *arguments, **options)
    if host is not None and host.endswith(HOST_SUFFIX):
        raise socket.gaierror(socket.EAI_NONAME, f"{host} is not known")
    return resolve(host, port, *arguments, **options)


socket.getaddrinfo = resolve_emulator


# Tests that take two minutes to six: they begin first, so that none of them ends last.
LONG = re.compile(
    "keep_conn_alive|link_timeout|failure_is_idempotent|messages_w_sleep|issue_6178|schedule_m|cancel_scheduled"
)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not LONG.search(item.name))


@pytest.fixture(scope="session")
def test_proxy():
    """Records and replays HTTP in the original."""


class Results:
    """Collects how each test ended, in the process that hands them out, and keeps it in a file for whoever gives up waiting."""

    def __init__(self, path):
        self.path = path
        self.ended = {}

    def pytest_runtest_logreport(self, report):
        before = self.ended.get(report.nodeid)
        # The worst of set-up, test and clean-up.
        if before is None or before["outcome"] == "passed":
            self.ended[report.nodeid] = {"outcome": report.outcome, "detail": report.longreprtext}
            self.write()

    def write(self):
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.ended, file)
        os.replace(self.path + ".new", self.path)


def pytest_configure(config):
    path = os.environ.get("EMULATOR_RESULTS")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(path))
