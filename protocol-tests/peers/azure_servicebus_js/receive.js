// Receiving: in batches, by iterator, by subscription, in both modes, with automatic renewal of locks, and given up.
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
                    // Longer than the queue's lock of five seconds: only renewal keeps it.
                    if (message.body === "6") {
                        await new Promise((done) => setTimeout(done, 6500));
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

    // A handler that fails abandons its message; up to three run at once.
    await send("a", "b", "c");
    const parallel = client.createReceiver(queue, { maxAutoLockRenewalDurationInMs: 60000 });
    const counts = {};
    let running = 0;
    let most = 0;
    const problems = [];
    await new Promise((resolve, reject) => {
        const subscription = parallel.subscribe(
            {
                processMessage: async (message) => {
                    counts[message.body] = message.deliveryCount;
                    running += 1;
                    most = Math.max(most, running);
                    while (most < 3) {
                        await new Promise((done) => setTimeout(done, 10));
                    }
                    running -= 1;
                    if (message.body === "b" && message.deliveryCount === 0) {
                        throw new Error("not yet");
                    }
                    if (counts.b === 1 && running === 0) {
                        setTimeout(() => subscription.close().then(resolve, reject), 200);
                    }
                },
                processError: async (problem) => problems.push(problem),
            },
            { maxConcurrentCalls: 3 },
        );
    });
    assert.deepEqual(counts, { a: 0, b: 1, c: 0 });
    assert.equal(most, 3);
    assert.deepEqual(problems.map((problem) => [problem.errorSource, problem.error.message]), [["processMessageCallback", "not yet"]]);
    await parallel.close();

    // A subscription that cannot be says so to its handler, and tries again until it is closed.
    const lost = client.createReceiver("no-such-queue");
    const problem = await new Promise((resolve) => {
        lost.subscribe({ processMessage: async () => {}, processError: async (problem) => resolve(problem) });
    });
    assert.equal(problem.error.code, "MessagingEntityNotFound");
    assert.equal(problem.entityPath, "no-such-queue");
    await lost.close();

    const deleting = client.createReceiver(queue, { receiveMode: "receiveAndDelete" });
    await assertNothing(deleting);
    await send("9");
    const gone = await receiveOne(deleting);
    assert.equal(gone.body, "9");
    await assert.rejects(deleting.completeMessage(gone), /receiveAndDelete/);
    await assertNothing(deleting);

    await send("10");
    const locking = client.createReceiver(queue);
    const put = await receiveOne(locking);
    await locking.deferMessage(put);
    const [taken] = await deleting.receiveDeferredMessages(put.sequenceNumber);
    assert.equal(taken.body, "10");
    assert.deepEqual(await locking.peekMessages(1, { fromSequenceNumber: put.sequenceNumber }), []);

    const stop = new AbortController();
    const waiting = locking.receiveMessages(1, { maxWaitTimeInMs: 60000, abortSignal: stop.signal });
    setTimeout(() => stop.abort(), 50);
    await assert.rejects(waiting, { name: "AbortError" });
});
