// Sessions: named, next, state, lock, all settlements, subscribe, and what is refused.
"use strict";

const { assert, run, receive, receiveOne, assertNothing, assertFails, bodies, withId } = require("./common.js");

run(async (client, queue) => {
    const sender = client.createSender(queue);
    await sender.sendMessages([
        withId({ body: "r1", sessionId: "red" }),
        withId({ body: "b1", sessionId: "blue" }),
        withId({ body: "r2", sessionId: "red" }),
    ]);
    await assert.rejects(sender.sendMessages({ body: "without" }), /session/i);

    const red = await client.acceptSession(queue, "red");
    assert.equal(red.sessionId, "red");
    assert.ok(red.sessionLockedUntilUtc > new Date());
    await assertFails(client.acceptSession(queue, "red"), "SessionCannotBeLocked");

    const [r1, r2] = await receive(red, 2);
    assert.deepEqual(bodies([r1, r2]), ["r1", "r2"]);
    assert.equal(r1.sessionId, "red");
    await red.completeMessage(r1);
    await red.deferMessage(r2);
    const [deferred] = await red.receiveDeferredMessages(r2.sequenceNumber);
    await red.abandonMessage(deferred);
    const [still] = await red.peekMessages(1, { fromSequenceNumber: r2.sequenceNumber });
    assert.equal(still.state, "deferred", "an abandoned deferred message stays deferred");
    const [last] = await red.receiveDeferredMessages([r2.sequenceNumber]);
    await red.deadLetterMessage(last, { deadLetterReason: "done", deadLetterErrorDescription: "with it" });
    await assertNothing(red);

    assert.equal(await red.getSessionState(), null);
    await red.setSessionState(JSON.stringify({ step: 2 }));
    assert.equal(String(await red.getSessionState()), '{"step":2}');
    const before = red.sessionLockedUntilUtc;
    await new Promise((done) => setTimeout(done, 20));
    const renewed = await red.renewSessionLock();
    assert.ok(renewed > before);

    const next = await client.acceptNextSession(queue);
    assert.equal(next.sessionId, "blue");
    const handled = [];
    await new Promise((resolve, reject) => {
        next.subscribe({
            processMessage: async (message) => {
                handled.push(message.body);
                setTimeout(resolve, 100);
            },
            processError: async (problem) => reject(problem.error),
        });
    });
    assert.deepEqual(handled, ["b1"]);
    await next.close();
    await red.close();

    const again = await client.acceptSession(queue, "red");
    assert.equal(String(await again.getSessionState()), '{"step":2}', "the state outlives the lock");
    await again.setSessionState(null);
    assert.equal(await again.getSessionState(), null);
    await again.close();

    await sender.sendMessages(["g1", "g2", "g3"].map((body) => withId({ body, sessionId: "green" })));
    const green = await client.acceptSession(queue, "green");
    for await (const message of green.getMessageIterator()) {
        assert.equal(message.body, "g1");
        await green.completeMessage(message);
        break;
    }
    await green.close();
    const deleting = await client.acceptSession(queue, "green", { receiveMode: "receiveAndDelete" });
    assert.deepEqual(bodies(await receive(deleting, 2)), ["g2", "g3"]);
    await assertNothing(deleting);
    await deleting.close();

    const dead = client.createReceiver(queue, { subQueueType: "deadLetter" });
    const letter = await receiveOne(dead);
    assert.deepEqual([letter.body, letter.sessionId, letter.deadLetterReason], ["r2", "red", "done"]);
    await dead.completeMessage(letter);

    const impatient = { retryOptions: { timeoutInMs: 2000, maxRetries: 0 } };
    const { ServiceBusClient } = require("@azure/service-bus");
    const other = new ServiceBusClient(process.argv[2], impatient);
    await assertFails(other.acceptNextSession(queue), "ServiceTimeout");
    await other.close();
});
