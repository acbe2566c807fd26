// Scheduling, cancelling and peeking, in all states.
"use strict";

const { assert, run, receive, receiveOne, assertFails, bodies, withId } = require("./common.js");

run(async (client, queue) => {
    const sender = client.createSender(queue);
    const receiver = client.createReceiver(queue);
    const inAnHour = new Date(Date.now() + 3600000);

    const [one] = await sender.scheduleMessages({ body: "one" }, inAnHour);
    const numbers = await sender.scheduleMessages([{ body: "two" }, { body: "three" }], inAnHour);
    assert.equal(numbers.length, 2);
    await sender.sendMessages([{ body: "1" }, { body: "2" }, { body: "3" }].map(withId));

    const [first, second, third] = await receive(receiver, 3);
    await receiver.abandonMessage(first);
    await receiver.deferMessage(third);
    const all = await receiver.peekMessages(10);
    assert.equal(all.length, 6);
    const states = Object.fromEntries(all.map((message) => [message.body, message.state]));
    assert.deepEqual(states, {
        one: "scheduled", two: "scheduled", three: "scheduled", 1: "active", 2: "active", 3: "deferred",
    });
    const scheduled = all.find((message) => message.body === "one");
    assert.deepEqual(scheduled.sequenceNumber, one);
    assert.equal(scheduled.scheduledEnqueueTimeUtc.getTime(), inAnHour.getTime());
    assert.equal(scheduled.lockToken, undefined);

    // A peek goes on where the last one ended, or from a number.
    assert.deepEqual(await receiver.peekMessages(10), []);
    const from = await receiver.peekMessages(1, { fromSequenceNumber: one });
    assert.deepEqual(bodies(from), ["one"]);
    assert.deepEqual(bodies(await receiver.peekMessages(2)), ["two", "three"]);

    await sender.cancelScheduledMessages(one);
    await sender.cancelScheduledMessages(numbers);
    await assertFails(sender.cancelScheduledMessages(one), "MessageNotFound");
    assert.equal((await receiver.peekMessages(10, { fromSequenceNumber: one })).length, 3);

    await receiver.completeMessage(second);
    assert.deepEqual(bodies(await receiver.peekMessages(10, { fromSequenceNumber: one })), ["1", "3"]);
    await receiver.completeMessage(await receiveOne(receiver));
    await receiver.completeMessage((await receiver.receiveDeferredMessages(third.sequenceNumber))[0]);
    const due = new Date(Date.now() + 1000);
    await sender.scheduleMessages(withId({ body: "soon" }), due);
    const soon = await receiveOne(receiver);
    assert.equal(soon.body, "soon");
    assert.ok(soon.enqueuedTimeUtc >= due, "it is enqueued when it is due");
    await receiver.completeMessage(soon);
});
