// An AMQP client on rhea that does one thing and says what happened.
//
// Standard input: one JSON request
//   { do: "send" | "receive" | "drain", port, transport: "tcp" | "tls" | "websocket", ca,
//     sasl: "none" | "anonymous" | "plain", user, password, max_frame_size, answers_detach, address,
//     messages: [{ id, body, properties }], outcomes: ["accepted", ...], credit, expected }
// Standard output: one JSON answer
//   { outcomes: [...] } or { messages: [{ id, body, properties, delivery_count }] } or { error }
// Bodies are base64. The answer comes after the link and the connection have been closed from both sides.
"use strict";

const fs = require("fs");
const rhea = require("rhea");

const request = JSON.parse(fs.readFileSync(0, "utf8"));
const container = rhea.create_container();
const answer = {};
let finished = false;

// The first call decides; writing a large answer takes a while.
function finish(error) {
    if (finished) {
        return;
    }
    finished = true;
    if (error) {
        answer.error = String(error.message || error.description || error.condition || error);
    }
    process.stdout.write(JSON.stringify(answer), () => process.exit(error ? 1 : 0));
}

for (const event of ["connection_error", "session_error", "sender_error", "receiver_error", "protocol_error"]) {
    container.on(event, (context) => {
        const endpoint = context.receiver || context.sender || context.session || context.connection;
        const cause = endpoint ? endpoint.error : context;
        finish(`${event}: ${cause && (cause.condition || cause.message)}: ${cause && cause.description}`);
    });
}
container.on("error", (error) => finish(error));
container.on("disconnected", (context) => finish(`disconnected: ${context.error || "by the peer"}`));
container.on("connection_close", () => finish());

function connect() {
    const options = {
        host: "127.0.0.1",
        port: request.port,
        reconnect: false,
        max_frame_size: request.max_frame_size,
    };
    if (request.sasl === "plain") {
        options.username = request.user;
        options.password = request.password;
    } else if (request.sasl === "anonymous") {
        // A name without a password is rhea's way to say ANONYMOUS; without a name it leaves SASL out.
        options.username = "anonymous";
    }
    if (request.transport === "tls") {
        options.transport = "tls";
        options.servername = "localhost";
        options.ca = fs.readFileSync(request.ca);
    } else if (request.transport === "websocket") {
        const websocket = container.websocket_connect(require("ws"));
        options.connection_details = websocket(`ws://127.0.0.1:${request.port}/`, ["amqp"], {});
    }
    return container.connect(options);
}

function closeLinkThenConnection(link, closed) {
    if (!request.answers_detach) {
        link.connection.close();
        return;
    }
    container.once(closed, (context) => context.connection.close());
    link.close();
}

function send(connection) {
    const sender = connection.open_sender({ target: { address: request.address } });
    const indices = new Map();
    answer.outcomes = request.messages.map(() => null);
    let next = 0;
    let settled = 0;

    container.on("sendable", () => {
        while (next < request.messages.length && sender.sendable()) {
            const message = request.messages[next];
            const delivery = sender.send({
                message_id: message.id,
                application_properties: message.properties,
                body: rhea.message.data_section(Buffer.from(message.body, "base64")),
            });
            indices.set(delivery.id, next);
            next += 1;
        }
    });
    for (const outcome of ["accepted", "released", "rejected", "modified"]) {
        container.on(outcome, (context) => {
            answer.outcomes[indices.get(context.delivery.id)] = outcome;
            settled += 1;
            if (settled === request.messages.length) {
                closeLinkThenConnection(sender, "sender_close");
            }
        });
    }
}

function keep(message) {
    const content = message.body && message.body.content ? message.body.content : message.body;
    const parts = Array.isArray(content) ? content : [content];
    answer.messages.push({
        id: String(message.message_id),
        body: Buffer.concat(parts.map((part) => Buffer.from(part))).toString("base64"),
        properties: message.application_properties || {},
        delivery_count: message.delivery_count || 0,
    });
}

function settle(delivery, outcome) {
    switch (outcome) {
        case "accepted": return delivery.accept();
        case "released": return delivery.release();
        case "rejected": return delivery.reject({ condition: "amqp:precondition-failed", description: "not wanted" });
        case "modified": return delivery.modified({ delivery_failed: true, undeliverable_here: false });
        default: return finish(`unknown outcome ${outcome}`);
    }
}

function receive(connection) {
    answer.messages = [];
    const receiver = connection.open_receiver({
        source: { address: request.address },
        credit_window: 0,
        autoaccept: false,
    });
    container.on("message", (context) => {
        keep(context.message);
        settle(context.delivery, request.outcomes[answer.messages.length - 1]);
        if (answer.messages.length === request.outcomes.length) {
            closeLinkThenConnection(receiver, "receiver_close");
        }
    });
    receiver.add_credit(request.outcomes.length);
}

function drain(connection) {
    answer.messages = [];
    const receiver = connection.open_receiver({
        source: { address: request.address },
        credit_window: 0,
        autoaccept: true,
    });
    container.on("message", (context) => {
        keep(context.message);
        if (answer.messages.length === request.expected) {
            receiver.drain_credit();
        }
    });
    container.on("receiver_drained", () => closeLinkThenConnection(receiver, "receiver_close"));
    container.once("receiver_open", () => {
        receiver.add_credit(request.credit);
        if (request.expected === 0) {
            receiver.drain_credit();
        }
    });
}

const actions = { send, receive, drain };
actions[request.do](connect());
