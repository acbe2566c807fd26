// Topics: what is sent to them in every way, and subscriptions as sources of everything a queue is, sessions included.
"use strict";

const { assert, run, receive, receiveOne, assertNothing, bodies, withId } = require("./common.js");

run(async (client, topic, subscription, withSessions) => {
    const sender = client.createSender(topic);
    const batch = await sender.createMessageBatch();
    assert.ok(batch.tryAddMessage({ body: "batched", sessionId: "s", messageId: "batched" }));
    await sender.sendMessages(batch);
    await sender.sendMessages({ body: "single", sessionId: "s", messageId: "single" });

    const receiver = client.createReceiver(topic, subscription);
    const [batched, single] = await receive(receiver, 2);
    assert.deepEqual(bodies([batched, single]), ["batched", "single"]);
    await receiver.abandonMessage(batched);
    const again = await receiveOne(receiver);
    assert.deepEqual([again.body, again.deliveryCount], ["batched", 1]);
    await receiver.deferMessage(again);
    const [deferred] = await receiver.receiveDeferredMessages(again.sequenceNumber);
    await receiver.deadLetterMessage(deferred, { deadLetterReason: "enough" });
    await receiver.renewMessageLock(single);
    await receiver.completeMessage(single);
    await assertNothing(receiver);

    const dead = client.createReceiver(topic, subscription, { subQueueType: "deadLetter", receiveMode: "receiveAndDelete" });
    const letter = await receiveOne(dead);
    assert.deepEqual([letter.body, letter.deadLetterReason], ["batched", "enough"]);
    const transfer = client.createReceiver(topic, subscription, { subQueueType: "transferDeadLetter" });
    await assertNothing(transfer);

    // The other subscription has its own copies, in a session.
    const session = await client.acceptSession(topic, withSessions, "s");
    assert.deepEqual(bodies(await session.peekMessages(10)), ["batched", "single"]);
    for (const copy of await receive(session, 2)) {
        assert.equal(copy.sessionId, "s");
        await session.completeMessage(copy);
    }
    await session.close();

    const [cancelled] = await sender.scheduleMessages({ body: "never", sessionId: "s" }, new Date(Date.now() + 3600000));
    await sender.cancelScheduledMessages(cancelled);
    await sender.scheduleMessages([withId({ body: "later", sessionId: "next" })], new Date(Date.now() + 500));
    const later = await receiveOne(receiver);
    assert.equal(later.body, "later");
    await receiver.completeMessage(later);
    const next = await client.acceptNextSession(topic, withSessions, { receiveMode: "receiveAndDelete" });
    assert.equal(next.sessionId, "next");
    assert.deepEqual(bodies(await receive(next, 1)), ["later"]);
    await assertNothing(next);
    await next.close();
});
