"""The parts of azure.mgmt.resource and azure.mgmt.servicebus that the tests call, as calls to the emulator's control API."""

import json
import os
import re
import types
import urllib.error
import urllib.request
import uuid
from urllib.parse import quote

CONTROL = os.environ["EMULATOR_CONTROL"]
NAMESPACE = os.environ["EMULATOR_NAMESPACE"]
ENDPOINT = NAMESPACE + os.environ["SERVICEBUS_ENDPOINT_SUFFIX"]
ROOT_KEY_NAME = "RootManageSharedAccessKey"
ROOT_KEY = os.environ["EMULATOR_KEY"]


class AccessRights:
    manage = "Manage"
    send = "Send"
    listen = "Listen"


class SBQueue(types.SimpleNamespace):
    pass


class SBSubscription(types.SimpleNamespace):
    pass


class SBAuthorizationRule(types.SimpleNamespace):
    pass


class Resource:
    def __init__(self, name):
        self.name = name
        self.id = name


class Done:
    """A long-running operation that has ended."""

    def __init__(self, result=None):
        self._result = result

    def result(self):
        return self._result

    def wait(self, timeout=None):
        pass

    def done(self):
        return True


class Key:
    def __init__(self, name, key, entity=None):
        self.key_name = name
        self.primary_key = key
        path = f";EntityPath={entity}" if entity else ""
        self.primary_connection_string = (
            f"Endpoint=sb://{ENDPOINT}/;SharedAccessKeyName={name};SharedAccessKey={key}{path}"
        )


def call(method, path, body=None, missing_is_fine=False):
    request = urllib.request.Request(CONTROL + path, method=method)
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    try:
        urllib.request.urlopen(request, timeout=30).read()
    except urllib.error.HTTPError as error:
        if not (missing_is_fine and error.code == 404):
            raise RuntimeError(f"{method} {path}: {error.code} {error.read().decode()}") from None


def create_entity(**body):
    call("POST", "/$emulator/entities", {key: value for key, value in body.items() if value is not None})


def delete_entity(path):
    # A test may have deleted it.
    call("DELETE", f"/$emulator/entities?path={quote(path, safe='')}", missing_is_fine=True)


def millis(duration):
    """The milliseconds of an ISO 8601 duration of minutes and seconds."""
    minutes, seconds = re.fullmatch(r"PT(?:(\d+)M)?(?:(\d+)S)?", duration).groups()
    return (60 * int(minutes or 0) + int(seconds or 0)) * 1000


class Keys:
    """Keys by the name of their authorization rule."""

    def __init__(self):
        self._keys = {ROOT_KEY_NAME: ROOT_KEY}

    def create(self, name, rule):
        self._keys[name] = uuid.uuid4().hex
        rights = "manage" if AccessRights.manage in rule.rights else rule.rights[0].lower()
        call("POST", "/$emulator/keys", {"name": name, "key": self._keys[name], "rights": rights})
        return Resource(name)

    def find(self, name, entity=None):
        return Key(name, self._keys[name], entity)


KEYS = Keys()


class Namespaces:
    def begin_create_or_update(self, group, name, options):
        return Done(Resource(NAMESPACE))

    def delete(self, group, name):
        pass

    def list_keys(self, group, name, rule):
        return KEYS.find(rule)

    def create_or_update_authorization_rule(self, group, namespace, name, rule):
        return KEYS.create(name, rule)

    def delete_authorization_rule(self, group, namespace, name):
        pass


class Queues:
    def create_or_update(self, group, namespace, name, queue):
        create_entity(
            kind="queue",
            name=name,
            lockDuration=millis(queue.lock_duration),
            requiresSession=queue.requires_session,
            deadLetterOnExpiration=queue.dead_lettering_on_message_expiration,
            duplicateDetection=600_000 if queue.requires_duplicate_detection else None,
        )
        return Resource(name)

    def delete(self, group, namespace, name):
        delete_entity(name)

    def create_or_update_authorization_rule(self, group, namespace, queue, name, rule):
        return KEYS.create(name, rule)

    def list_keys(self, group, namespace, queue, name):
        return KEYS.find(name, queue)

    def delete_authorization_rule(self, group, namespace, queue, name):
        pass


class Topics:
    def create_or_update(self, group, namespace, name, topic):
        create_entity(kind="topic", name=name)
        return Resource(name)

    def delete(self, group, namespace, name):
        delete_entity(name)


class Subscriptions:
    def create_or_update(self, group, namespace, topic, name, subscription):
        create_entity(
            kind="subscription",
            topic=topic,
            name=name,
            lockDuration=millis(subscription.lock_duration),
            requiresSession=subscription.requires_session,
        )
        return Resource(name)

    def delete(self, group, namespace, topic, name):
        delete_entity(f"{topic}/Subscriptions/{name}")


class ServiceBusManagementClient:
    namespaces = Namespaces()
    queues = Queues()
    topics = Topics()
    subscriptions = Subscriptions()


class ResourceGroups:
    def create_or_update(self, name, parameters):
        return Resource(name)

    def begin_delete(self, name, polling=True):
        return Done()


class ResourceManagementClient:
    resource_groups = ResourceGroups()
