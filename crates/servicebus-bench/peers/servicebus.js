// The JavaScript SDK in one case of `servicebus-bench client`: `node servicebus.js CONNECTION_STRING CASE QUEUE COUNT`.
//
// Prints what it measured as one line of JSON.
"use strict";

const fs = require("node:fs");
const { ServiceBusClient } = require("@azure/service-bus");

const BODY = Buffer.alloc(1024, "x");
// How many operations are under way, and how many messages one call receives.
const IN_FLIGHT = 1000;
const BATCHES = 8;
const PER_BATCH = 100;
const PER_SESSION = 100;
// The others renew nothing within the seconds of a run either.
const RECEIVER = { maxAutoLockRenewalDurationInMs: 0 };
const WAIT = { maxWaitTimeInMs: 20000 };

const cases = {
    async send(client, queue, count) {
        const sender = client.createSender(queue);
        await sender.createMessageBatch();
        const meter = new Meter();
        await concurrently(IN_FLIGHT, count, () => sender.sendMessages({ body: BODY }));
        meter.print(count);
    },
    async send_batch(client, queue, count) {
        const sender = client.createSender(queue);
        await sender.createMessageBatch();
        const meter = new Meter();
        await concurrently(BATCHES, count / PER_BATCH, async () => {
            const batch = await sender.createMessageBatch();
            for (let n = 0; n < PER_BATCH; n++) {
                if (!batch.tryAddMessage({ body: BODY })) throw new Error("the batch is full");
            }
            await sender.sendMessages(batch);
        });
        meter.print(count);
    },
    async peek_lock_complete(client, queue, count) {
        const receiver = client.createReceiver(queue, RECEIVER);
        const meter = new Meter();
        await receive(receiver, count, (message) => receiver.completeMessage(message));
        meter.print(count);
    },
    async receive_and_delete(client, queue, count) {
        const receiver = client.createReceiver(queue, { ...RECEIVER, receiveMode: "receiveAndDelete" });
        const meter = new Meter();
        await receive(receiver, count, async () => {});
        meter.print(count);
    },
    async session(client, queue, count) {
        const meter = new Meter();
        for (let n = 0; n < count / PER_SESSION; n++) {
            const receiver = await client.acceptNextSession(queue, RECEIVER);
            await receive(receiver, PER_SESSION, (message) => receiver.completeMessage(message));
            await receiver.close();
        }
        meter.print(count);
    },
};

// Runs `operation` `count` times, `limit` of them at once.
async function concurrently(limit, count, operation) {
    let started = 0;
    const work = async () => {
        while (started < count) {
            started++;
            await operation();
        }
    };
    await Promise.all(Array.from({ length: limit }, work));
}

async function receive(receiver, count, settle) {
    let received = 0;
    while (received < count) {
        const messages = await receiver.receiveMessages(Math.min(IN_FLIGHT, count - received), WAIT);
        if (messages.length === 0) throw new Error(`no more messages after ${received}`);
        for (const message of messages) {
            if (message.body.length !== BODY.length) throw new Error("a body has the wrong size");
        }
        await Promise.all(messages.map(settle));
        received += messages.length;
    }
}

// Wall and CPU time of this process.
class Meter {
    constructor() {
        this.wall = process.hrtime.bigint();
        this.cpu = process.cpuUsage();
    }

    print(count) {
        const cpu = process.cpuUsage(this.cpu);
        const elapsed = process.hrtime.bigint() - this.wall;
        const [, peak] = /VmHWM:\s*(\d+) kB/.exec(fs.readFileSync("/proc/self/status", "ascii"));
        console.log(
            JSON.stringify({
                count,
                elapsed_ns: Number(elapsed),
                cpu_ns: (cpu.user + cpu.system) * 1000,
                peak_rss: Number(peak) * 1024,
            }),
        );
    }
}

async function main() {
    const [connectionString, name, queue, count] = process.argv.slice(2);
    const client = new ServiceBusClient(connectionString);
    await cases[name](client, queue, Number(count));
    await client.close();
    // The SDK leaves timers behind.
    process.exit(0);
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
