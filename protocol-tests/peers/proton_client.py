"""An AMQP client on Qpid Proton that does one thing and says what happened.

Standard input: one JSON request
  { do: "send" | "receive" | "drain", port, transport: "tcp" | "tls", ca, sasl: "none" | "anonymous" | "plain", user,
    password, max_frame_size, answers_detach, address, messages: [{ id, body, properties }], outcomes: ["accepted", ...], credit,
    expected }
Standard output: one JSON answer
  { outcomes: [...] } or { messages: [{ id, body, properties, delivery_count }] } or { error }
Bodies are base64. The answer comes after the link and the connection have been closed from both sides.
"""

import base64
import json
import sys

from proton import Condition, Delivery, Message, SSLDomain
from proton.handlers import MessagingHandler
from proton.reactor import AtLeastOnce, Container

STATES = {
    "accepted": Delivery.ACCEPTED,
    "released": Delivery.RELEASED,
    "rejected": Delivery.REJECTED,
    "modified": Delivery.MODIFIED,
}
NAMES = {state: name for name, state in STATES.items()}


class Client(MessagingHandler):
    """What all actions share: one connection, errors, and an orderly end."""

    def __init__(self, request):
        super().__init__(prefetch=0, auto_accept=False)
        self.request = request
        self.answer = {}
        self.done = False

    def on_start(self, event):
        request = self.request
        scheme, options = "amqp", {}
        if request["transport"] == "tls":
            scheme = "amqps"
            domain = SSLDomain(SSLDomain.MODE_CLIENT)
            domain.set_trusted_ca_db(request["ca"])
            domain.set_peer_authentication(SSLDomain.VERIFY_PEER)
            options["ssl_domain"] = domain
        if request["sasl"] == "plain":
            options.update(user=request["user"], password=request["password"], allowed_mechs="PLAIN", allow_insecure_mechs=True)
        elif request["sasl"] == "anonymous":
            options["allowed_mechs"] = "ANONYMOUS"
        else:
            options["sasl_enabled"] = False
        if request.get("max_frame_size"):
            options["max_frame_size"] = request["max_frame_size"]
        self.connection = event.container.connect(
            f"{scheme}://127.0.0.1:{request['port']}", reconnect=False, **options
        )
        self.begin(event.container)

    def begin(self, container):
        raise NotImplementedError

    def finish(self, link):
        if not self.done:
            self.done = True
            if self.request["answers_detach"]:
                link.close()
            else:
                self.connection.close()

    def on_link_closed(self, event):
        if self.done:
            self.connection.close()
        else:
            self.fail("the peer closed the link")

    def on_link_error(self, event):
        self.fail(f"link: {event.link.remote_condition}")

    def on_session_error(self, event):
        self.fail(f"session: {event.session.remote_condition}")

    def on_connection_error(self, event):
        self.fail(f"connection: {event.connection.remote_condition}")

    def on_transport_error(self, event):
        self.fail(f"transport: {event.transport.condition}")

    def on_disconnected(self, event):
        if not self.done:
            self.fail("disconnected")

    def fail(self, words):
        self.answer.setdefault("error", words)
        self.done = True
        self.connection.close()


class Send(Client):
    def begin(self, container):
        self.waiting = list(enumerate(self.request["messages"]))
        self.answer["outcomes"] = [None] * len(self.waiting)
        self.indices = {}
        # AtLeastOnce keeps deliveries unsettled until the peer has said its outcome.
        container.create_sender(self.connection, self.request["address"], options=AtLeastOnce())

    def on_sendable(self, event):
        while self.waiting and event.sender.credit:
            index, wanted = self.waiting.pop(0)
            message = Message(id=wanted["id"], properties=wanted["properties"], body=base64.b64decode(wanted["body"]))
            # An inferred bytes body is a data section rather than an amqp-value.
            message.inferred = True
            self.indices[event.sender.send(message).tag] = index

    def on_outcome(self, event):
        self.answer["outcomes"][self.indices[event.delivery.tag]] = NAMES[event.delivery.remote_state]
        if all(self.answer["outcomes"]):
            self.finish(event.link)

    on_accepted = on_outcome
    on_rejected = on_outcome
    on_released = on_outcome  # also called for modified


class Receive(Client):
    def begin(self, container):
        self.answer["messages"] = []
        receiver = container.create_receiver(self.connection, self.request["address"], options=AtLeastOnce())
        self.grant(receiver)

    def grant(self, receiver):
        receiver.flow(len(self.request["outcomes"]))

    def on_message(self, event):
        message = event.message
        self.answer["messages"].append({
            "id": str(message.id),
            "body": base64.b64encode(bytes(message.body)).decode(),
            "properties": message.properties or {},
            "delivery_count": message.delivery_count,
        })
        self.decide(event.delivery, len(self.answer["messages"]) - 1)
        self.after(event)

    def decide(self, delivery, index):
        outcome = self.request["outcomes"][index]
        if outcome == "rejected":
            delivery.local.condition = Condition("amqp:precondition-failed", "not wanted")
        elif outcome == "modified":
            delivery.local.failed = True
        delivery.update(STATES[outcome])
        delivery.settle()

    def after(self, event):
        if len(self.answer["messages"]) == len(self.request["outcomes"]):
            self.finish(event.link)


class Drain(Receive):
    def grant(self, receiver):
        if self.request["expected"] == 0:
            # In one flow with the credit, and perhaps before the peer has answered the attach.
            receiver.drain(self.request["credit"])
        else:
            receiver.flow(self.request["credit"])

    def decide(self, delivery, index):
        self.accept(delivery)

    def after(self, event):
        if len(self.answer["messages"]) == self.request["expected"]:
            event.link.drain(0)

    def on_link_flow(self, event):
        if event.link.is_receiver and event.link.drained() > 0:
            self.finish(event.link)


request = json.load(sys.stdin)
client = {"send": Send, "receive": Receive, "drain": Drain}[request["do"]](request)
Container(client).run()
json.dump(client.answer, sys.stdout)
sys.exit(1 if "error" in client.answer else 0)
