// What the scripts of this folder share. Each is run as `node GROUP.js CONNECTION_STRING ENTITY...` and ends with a failure
// and a stack trace when a result is not as expected.
"use strict";

const assert = require("node:assert/strict");
const { ServiceBusClient } = require("@azure/service-bus");

// How long a receiver waits for what is there already, or is about to be.
const SOON = { maxWaitTimeInMs: 20000 };
// How long a receiver waits for what must not come.
const NEVER = { maxWaitTimeInMs: 300 };

async function main(group) {
    const [connectionString, ...entities] = process.argv.slice(2);
    const client = new ServiceBusClient(connectionString, { retryOptions: { maxRetries: 0, timeoutInMs: 20000 } });
    try {
        await group(client, ...entities);
    } finally {
        await client.close();
    }
}

function run(group) {
    main(group).then(
        // The SDK leaves timers behind.
        () => process.exit(0),
        (error) => {
            console.error(error);
            process.exit(1);
        },
    );
}

// Receives exactly `count` messages, in as many calls as that takes.
async function receive(receiver, count) {
    const messages = [];
    while (messages.length < count) {
        const more = await receiver.receiveMessages(count - messages.length, SOON);
        assert.notEqual(more.length, 0, `only ${messages.length} of ${count} messages came`);
        messages.push(...more);
    }
    return messages;
}

async function receiveOne(receiver) {
    const [message] = await receive(receiver, 1);
    return message;
}

// The SDK stops the renewal of locks by message id, and fails on a message without one.
const withId = (message) => ({ messageId: message.body, ...message });

async function assertNothing(receiver) {
    assert.deepEqual(await receiver.receiveMessages(1, NEVER), []);
}

const bodies = (messages) => messages.map((message) => message.body);

async function assertFails(promise, code) {
    await assert.rejects(promise, (error) => {
        assert.equal(error.code, code, error.message);
        return true;
    });
}

module.exports = { assert, run, receive, receiveOne, assertNothing, assertFails, bodies, withId, SOON, NEVER };
