// Every kind of credential, and what happens without a good one.
"use strict";

const crypto = require("node:crypto");
const { AzureNamedKeyCredential, AzureSASCredential } = require("@azure/core-auth");
const { ServiceBusClient, parseServiceBusConnectionString } = require("@azure/service-bus");
const { assert, run, receiveOne } = require("./common.js");

run(async (_, queue, endpoint) => {
    const { sharedAccessKeyName: name, sharedAccessKey: key } = parseServiceBusConnectionString(process.argv[2]);
    const host = new URL(endpoint).hostname;
    const clientWith = (credential) =>
        new ServiceBusClient(host, credential, {
            customEndpointAddress: endpoint,
            retryOptions: { maxRetries: 0, timeoutInMs: 20000 },
        });

    const audience = encodeURIComponent(`sb://${host}/`);
    const expiry = Math.floor(Date.now() / 1000) + 3600;
    const signature = crypto.createHmac("sha256", key).update(`${audience}\n${expiry}`).digest("base64");
    const credentials = {
        "a key": new AzureNamedKeyCredential(name, key),
        "a signature": new AzureSASCredential(
            `SharedAccessSignature sr=${audience}&sig=${encodeURIComponent(signature)}&se=${expiry}&skn=${name}`,
        ),
        // Of the tokens of Entra ID a client reads only when they expire.
        "a token": { getToken: async () => ({ token: "header.claims.signature", expiresOnTimestamp: expiry * 1000 }) },
    };
    for (const [body, credential] of Object.entries(credentials)) {
        const client = clientWith(credential);
        await client.createSender(queue).sendMessages({ body });
        const receiver = client.createReceiver(queue, { receiveMode: "receiveAndDelete" });
        assert.equal((await receiveOne(receiver)).body, body);
        await client.close();
    }

    const stranger = clientWith(new AzureNamedKeyCredential(name, "another"));
    await assert.rejects(stranger.createSender(queue).sendMessages({ body: "lost" }), (error) => {
        assert.equal(error.code, "UnauthorizedAccess", error.message);
        return true;
    });
    await stranger.close();
});
