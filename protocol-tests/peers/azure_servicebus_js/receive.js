// Receiving: in batches, by iterator, by subscription, in both modes, with automatic renewal of locks.
"use strict";

const { assert, run, receive, receiveOne, assertNothing, bodies } = require("./common.js");

run(async (client, queue) => {
    const sender = client.createSender(queue);
    const send = (...all) => sender.sendMessages(all.map((body) => ({ body, messageId: body })));

    await send("1", "2", "3");
    const receiver = client.createReceiver(queue);
    const locked = await receive(receiver, 3);
    assert.deepEqual(bodies(locked), ["1", "2", "3"]);
    assert.equal(new Set(locked.map((message) => message.lockToken)).size, 3, "a lock each");
    assert.ok(locked.every((message) => message.lockedUntilUtc > new Date()));
    await assertNothing(receiver);
    for (const message of locked) {
        await receiver.completeMessage(message);
    }

    await send("4", "5");
    const iterated = [];
    for await (const message of receiver.getMessageIterator()) {
        iterated.push(message.body);
        await receiver.completeMessage(message);
        if (iterated.length === 2) {
            break;
        }
    }
    assert.deepEqual(iterated, ["4", "5"]);
    await receiver.close();

    await send("6", "7", "8");
    const subscriber = client.createReceiver(queue, { maxAutoLockRenewalDurationInMs: 60000 });
    const subscribed = [];
    await new Promise((resolve, reject) => {
        const subscription = subscriber.subscribe(
            {
                processMessage: async (message) => {
                    // Longer than the queue's lock of one second: only renewal keeps it.
                    if (message.body === "6") {
                        await new Promise((done) => setTimeout(done, 2500));
                    }
                    subscribed.push([message.body, message.deliveryCount]);
                    if (subscribed.length === 3) {
                        // The last one is completed after this handler.
                        setTimeout(() => subscription.close().then(resolve, reject), 100);
                    }
                },
                processError: async (problem) => reject(problem.error),
            },
            { autoCompleteMessages: true, maxConcurrentCalls: 1 },
        );
    });
    assert.deepEqual(subscribed, [["6", 0], ["7", 0], ["8", 0]]);
    await subscriber.close();

    const deleting = client.createReceiver(queue, { receiveMode: "receiveAndDelete" });
    await assertNothing(deleting);
    await send("9");
    const gone = await receiveOne(deleting);
    assert.equal(gone.body, "9");
    await assert.rejects(deleting.completeMessage(gone), /receiveAndDelete/);
    await assertNothing(deleting);
});
