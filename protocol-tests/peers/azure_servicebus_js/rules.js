// Rules of subscriptions: the default one, SQL with an action, correlation; and what copies they make.
"use strict";

const { assert, run, receive, assertNothing, assertFails, bodies, withId } = require("./common.js");

run(async (client, topic, subscription) => {
    const rules = client.createRuleManager(topic, subscription);
    const list = async () => {
        const found = [];
        for await (const rule of rules.listRules()) {
            found.push(rule);
        }
        return found.sort((a, b) => a.name.localeCompare(b.name));
    };

    const [byDefault, ...none] = await list();
    assert.deepEqual(none, []);
    assert.equal(byDefault.name, "$Default");
    assert.equal(byDefault.filter.sqlExpression, "1=1");
    await rules.deleteRule("$Default");
    await rules.createRule("sql", { sqlExpression: "size > 10 AND sys.Label LIKE 'a%'" }, { sqlExpression: "SET size = size + 1" });
    await rules.createRule("correlation", { subject: "wanted", applicationProperties: { color: "red" } });
    await assertFails(rules.createRule("sql", { sqlExpression: "1=1" }), "MessagingEntityAlreadyExists");
    await assert.rejects(rules.deleteRule("no-such-rule"), /could not be found/);
    await assert.rejects(rules.createRule("bad", { sqlExpression: "size >" }));

    const [correlation, sql, ...more] = await list();
    assert.deepEqual(more, []);
    assert.equal(correlation.filter.subject, "wanted");
    assert.deepEqual(correlation.filter.applicationProperties, { color: "red" });
    assert.equal(sql.filter.sqlExpression, "size > 10 AND sys.Label LIKE 'a%'");
    assert.equal(sql.action.sqlExpression, "SET size = size + 1");

    const sender = client.createSender(topic);
    const messages = [
        { body: "1", subject: "apple", applicationProperties: { size: 11 } },
        { body: "2", subject: "apple", applicationProperties: { size: 10 } },
        { body: "3", subject: "pear", applicationProperties: { size: 11 } },
        { body: "4", subject: "wanted", applicationProperties: { color: "red" } },
        { body: "5", subject: "wanted", applicationProperties: { color: "blue" } },
    ];
    await sender.sendMessages(messages.map(withId));
    const receiver = client.createReceiver(topic, subscription);
    const copies = await receive(receiver, 2);
    assert.deepEqual(bodies(copies), ["1", "4"]);
    assert.equal(copies[0].applicationProperties.size, 12, "the action has changed the copy");
    for (const copy of copies) {
        await receiver.completeMessage(copy);
    }
    await assertNothing(receiver);
});
