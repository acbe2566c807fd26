// Every settlement, also of dead letters and deferred messages, lock renewal and loss.
"use strict";

const { assert, run, receiveOne, assertNothing, assertFails } = require("./common.js");

run(async (client, queue) => {
    const sender = client.createSender(queue);
    // By default the SDK renews the locks of what it has received.
    const receiver = client.createReceiver(queue, { maxAutoLockRenewalDurationInMs: 0 });
    const dead = client.createReceiver(queue, { subQueueType: "deadLetter" });
    const send = (body) => sender.sendMessages({ body, messageId: body });

    await send("completed");
    await receiver.completeMessage(await receiveOne(receiver));
    await assertNothing(receiver);

    await send("abandoned");
    const first = await receiveOne(receiver);
    await receiver.abandonMessage(first, { note: "again" });
    const second = await receiveOne(receiver);
    assert.equal(second.deliveryCount, 1);
    assert.deepEqual(second.sequenceNumber, first.sequenceNumber);
    assert.notEqual(second.lockToken, first.lockToken);
    assert.equal(second.applicationProperties.note, "again");

    const renewed = await receiver.renewMessageLock(second);
    assert.ok(renewed > first.lockedUntilUtc);

    await receiver.deferMessage(second, { note: "later" });
    await assertNothing(receiver);
    const [deferred] = await receiver.receiveDeferredMessages(second.sequenceNumber);
    assert.equal(deferred.state, "deferred");
    assert.equal(deferred.applicationProperties.note, "later");
    await receiver.deadLetterMessage(deferred, {
        deadLetterReason: "tired",
        deadLetterErrorDescription: "of waiting",
        note: "never",
    });
    await assertFails(receiver.receiveDeferredMessages(second.sequenceNumber), "MessageNotFound");

    const letter = await receiveOne(dead);
    assert.equal(letter.body, "abandoned");
    assert.equal(letter.deadLetterReason, "tired");
    assert.equal(letter.deadLetterErrorDescription, "of waiting");
    assert.equal(letter.applicationProperties.note, "never");
    await dead.deferMessage(letter);
    const [again] = await dead.receiveDeferredMessages([letter.sequenceNumber]);
    await dead.completeMessage(again);
    await assertNothing(dead);

    // Ten deliveries are allowed; then it is a dead letter.
    await send("poison");
    for (let count = 0; count < 10; count += 1) {
        const message = await receiveOne(receiver);
        assert.equal(message.deliveryCount, count);
        await receiver.abandonMessage(message);
    }
    const poison = await receiveOne(dead);
    assert.equal(poison.deadLetterReason, "MaxDeliveryCountExceeded");
    await dead.completeMessage(poison);

    // The queue's locks last five seconds.
    await send("lost");
    const lost = await receiveOne(receiver);
    await new Promise((done) => setTimeout(done, 5500));
    await assertFails(receiver.completeMessage(lost), "MessageLockLost");
    await assertFails(receiver.renewMessageLock(lost), "MessageLockLost");
    const found = await receiveOne(receiver);
    assert.equal(found.deliveryCount, 1);

    // A message whose link is gone is settled through the management node.
    await receiver.close();
    const other = client.createReceiver(queue);
    await other.completeMessage(found);
    // A peek shows locked messages too.
    assert.deepEqual(await other.peekMessages(1, { fromSequenceNumber: found.sequenceNumber }), []);
    await other.close();
});
