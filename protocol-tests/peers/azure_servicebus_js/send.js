// Sending: one message with all its properties, many, a batch, raw AMQP bodies, and what is refused.
"use strict";

const { assert, run, receive, receiveOne, assertNothing, assertFails, bodies } = require("./common.js");

run(async (client, queue) => {
    const sender = client.createSender(queue);
    const receiver = client.createReceiver(queue, { receiveMode: "receiveAndDelete", skipConvertingDate: true });

    const sent = {
        body: { answer: 42 },
        messageId: "m-1",
        contentType: "application/json",
        correlationId: "c-1",
        partitionKey: "p-1",
        replyTo: "replies",
        replyToSessionId: "rs-1",
        subject: "subject",
        to: "to",
        timeToLive: 60000,
        applicationProperties: { text: "t", number: 7, fraction: 1.5, truth: true, date: new Date(1700000000000), nothing: null },
    };
    await sender.sendMessages(sent);
    const received = await receiveOne(receiver);
    const { timeToLive, ...same } = sent;
    for (const name of Object.keys(same)) {
        assert.deepEqual(received[name], sent[name], name);
    }
    // The SDK reckons it from when the message was made until it expires, which counts from when it was enqueued.
    assert.ok(received.timeToLive >= timeToLive && received.timeToLive < timeToLive + 20000);
    assert.equal(received.state, "active");
    assert.equal(received.sequenceNumber.toNumber(), 1);
    assert.equal(received.deliveryCount, 0);
    assert.equal(received.expiresAtUtc - received.enqueuedTimeUtc, 60000);

    await sender.sendMessages([{ body: "a" }, { body: "b" }]);
    const batch = await sender.createMessageBatch({ maxSizeInBytes: 1024 });
    assert.equal(batch.maxSizeInBytes, 1024);
    assert.ok(batch.tryAddMessage({ body: "c" }));
    assert.ok(batch.tryAddMessage({ body: "d" }));
    assert.ok(!batch.tryAddMessage({ body: "x".repeat(1024) }), "it does not fit");
    assert.equal(batch.count, 2);
    await sender.sendMessages(batch);
    const messages = await receive(receiver, 4);
    assert.deepEqual(bodies(messages), ["a", "b", "c", "d"]);
    assert.deepEqual(messages.map((message) => message.sequenceNumber.toNumber()), [2, 3, 4, 5]);

    await sender.sendMessages({ bodyType: "value", body: { nested: [1, "two"] } });
    await sender.sendMessages({ bodyType: "sequence", body: [[1, 2], ["three"]] });
    await sender.sendMessages({ body: Buffer.from([0, 255]) });
    const [value, sequence, data] = await receive(receiver, 3);
    assert.deepEqual(value.body, { nested: [1, "two"] });
    assert.equal(value._rawAmqpMessage.bodyType, "value");
    assert.deepEqual(sequence.body, [[1, 2], ["three"]]);
    assert.equal(sequence._rawAmqpMessage.bodyType, "sequence");
    assert.deepEqual([...data.body], [0, 255]);

    // The standard tier takes 256 KiB.
    const large = "x".repeat(150000);
    await sender.sendMessages({ body: large });
    assert.equal((await receiveOne(receiver)).body, large);
    assert.equal((await sender.createMessageBatch()).maxSizeInBytes, 262144);
    await assert.rejects(sender.createMessageBatch({ maxSizeInBytes: 262145 }), /maximum message size/);
    // It costs the sender its link.
    const greedy = client.createSender(queue);
    await assertFails(greedy.sendMessages({ body: "x".repeat(300000) }), "MessageSizeExceeded");

    // All sections of a message of AMQP.
    await sender.sendMessages({
        bodyType: "data",
        body: Buffer.from("annotated"),
        header: { durable: true, priority: 7 },
        messageAnnotations: { "x-note": "kept" },
        properties: { messageId: "annotated", userId: "user", groupSequence: 3 },
        applicationProperties: { truth: false },
        footer: { checksum: 1 },
    });
    const { body, _rawAmqpMessage: raw } = await receiveOne(receiver);
    assert.equal(String(body), "annotated");
    assert.equal(raw.header.priority, 7);
    assert.equal(raw.messageAnnotations["x-note"], "kept");
    assert.equal(raw.properties.groupSequence, 3);
    assert.deepEqual(raw.applicationProperties, { truth: false });
    assert.equal(raw.footer.checksum, 1);
    await assertNothing(receiver);

    await assertFails(client.createSender("no-such-queue").sendMessages({ body: "lost" }), "MessagingEntityNotFound");
    await receiver.close();
    await sender.close();
    assert.ok(sender.isClosed && receiver.isClosed);
});
