"""What the live tests of azure-servicebus take from a package that its source distribution leaves out.

Each `AzureMgmtPreparer` makes a resource before a test and passes it on as keyword arguments. The resources are made by
`management.py`, on the emulator.
"""

import asyncio
import functools
import inspect
import time
import uuid

from azure.core.credentials import AccessToken


class AzureTestError(Exception):
    pass


class ReservedResourceNameError(AzureTestError):
    pass


class FakeResource:
    """Stands for resources in recorded tests, of which there are none here."""

    def __init__(self, name, id):
        self.name = name
        self.id = id


class AzureMgmtRecordedTestCase:
    pass


class AzureRecordedTestCase:
    @staticmethod
    def await_prepared_test(test):
        """Makes a plain function of a coroutine function, for decorators that know only the former."""

        @functools.wraps(test)
        def run(*arguments, **options):
            return asyncio.run(test(*arguments, **options))

        return run


class _Credential:
    """Tokens that look like those of Entra ID to a client: all it reads is when they expire."""

    def get_token(self, *scopes, **kwargs):
        return AccessToken("header.claims.signature", int(time.time()) + 3600)


class _AsyncCredential(_Credential):
    async def get_token(self, *scopes, **kwargs):
        return super().get_token(*scopes, **kwargs)

    async def close(self):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *details):
        pass


def get_credential(is_async=False, **kwargs):
    return _AsyncCredential() if is_async else _Credential()


def get_region_override(default):
    return default


def add_general_regex_sanitizer(**kwargs):
    pass


def set_custom_default_matcher(**kwargs):
    pass


class AzureMgmtPreparer:
    """A decorator that makes a resource, runs the test with it, and removes it.

    A "cached" resource is shared between tests by the original. Here each test has its own, so that no test depends on
    which ones ran before it in the same process.
    """

    is_live = True
    moniker = None

    def __init__(self, name_prefix, random_name_length, random_name_enabled=False, **options):
        self.name_prefix = name_prefix
        self.random_name_enabled = random_name_enabled
        self.resource = None

    def set_cache(self, enabled, *key):
        pass

    def create_mgmt_client(self, client, **options):
        return client()

    def __call__(self, test):
        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def prepared(instance, **arguments):
                name, arguments = self._prepare(arguments)
                try:
                    return await test(instance, **arguments)
                finally:
                    self.remove_resource(name, **arguments)

        else:

            @functools.wraps(test)
            def prepared(instance, **arguments):
                name, arguments = self._prepare(arguments)
                try:
                    return test(instance, **arguments)
                finally:
                    self.remove_resource(name, **arguments)

        return prepared

    def _prepare(self, arguments):
        name = f"{self.name_prefix}{uuid.uuid4().hex[:12]}"
        self.moniker = name
        return name, {**arguments, **self.create_resource(name, **arguments)}


class RandomNameResourceGroupPreparer(AzureMgmtPreparer):
    def __init__(self):
        super().__init__("group", 24)

    def create_resource(self, name, **arguments):
        return {"resource_group": FakeResource(name, name)}

    def remove_resource(self, name, **arguments):
        pass
