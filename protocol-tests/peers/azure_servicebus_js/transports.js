// The same exchange over TLS and over WebSocket.
"use strict";

const WebSocket = require("ws");
const { ServiceBusClient } = require("@azure/service-bus");
const { assert, run, receiveOne } = require("./common.js");

run(async (_, queue, endpoint) => {
    const secured = process.argv[2].replace("UseDevelopmentEmulator=true;", "").replace(/sb:\/\/[^;]*/, `sb://${new URL(endpoint).hostname}`);
    for (const webSocketOptions of [undefined, { webSocket: WebSocket }]) {
        const client = new ServiceBusClient(secured, { customEndpointAddress: endpoint, webSocketOptions });
        const body = webSocketOptions ? "over WebSocket" : "over TLS";
        await client.createSender(queue).sendMessages({ body, messageId: body });
        const receiver = client.createReceiver(queue);
        const message = await receiveOne(receiver);
        assert.equal(message.body, body);
        await receiver.completeMessage(message);
        await client.close();
    }
});
