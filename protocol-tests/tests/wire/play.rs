//! Plays each operation that a golden frame is of, and picks the frame that our client sends for it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use servicebus::types::{Map, Value};
use servicebus::{
    Client, ClientOptions, CorrelationFilter, DeadLetter, KeepLock, Message, PeekLock,
    ReceiverOptions, Rule, RuleFilter, SessionReceiverOptions, Settlement, SubQueue, Subscription,
};
use servicebus_amqp::types::ByteString;
use servicebus_emulator::broker::{QueueOptions, SubscriptionOptions, TopicOptions};
use servicebus_emulator::{Clock, Emulator};

use crate::tap::Tap;

/// How long what is there may take to come.
const SOON: Duration = Duration::from_secs(60);

/// The names of golden frames, each with the frame of ours that stands beside it.
pub(crate) async fn play() -> Vec<(&'static str, String)> {
    let mut stage = Stage::new().await;
    stage.connect_and_send().await;
    stage.schedule().await;
    stage.receive_and_settle().await;
    stage.ask_management().await;
    stage.receive_and_delete().await;
    stage.sessions().await;
    stage.rules().await;
    stage.transactions().await;
    stage.close().await;
    stage.compared
}

struct Stage {
    /// In its strict mode it fails the test that leaves the protocol.
    _emulator: Arc<Emulator>,
    tap: Tap,
    client: Client,
    compared: Vec<(&'static str, String)>,
}

/// The frame of this kind that has this in it.
fn pick(sent: &[String], kind: &str, with: &str) -> String {
    let found = sent
        .iter()
        .find(|frame| frame.starts_with(kind) && frame.contains(with));
    found
        .unwrap_or_else(|| panic!("no {kind} with {with} among {sent:#?}"))
        .clone()
}

impl Stage {
    async fn new() -> Self {
        let emulator = Emulator::builder()
            .in_memory()
            .clock(Clock::manual(SystemTime::now()))
            .strict()
            .start()
            .await
            .unwrap();
        let emulator = Arc::new(emulator);
        let namespace = emulator.default_namespace();
        namespace
            .create_queue("q1", QueueOptions::default())
            .unwrap();
        let sessions = QueueOptions {
            requires_session: true,
            ..QueueOptions::default()
        };
        namespace.create_queue("qs", sessions).unwrap();
        namespace
            .create_topic("t1", TopicOptions::default())
            .unwrap();
        namespace
            .create_subscription("t1", "sub1", SubscriptionOptions::default())
            .unwrap();
        let tap = Tap::default();
        let client = tap.client(&emulator, ClientOptions::new());
        Self {
            _emulator: emulator,
            tap,
            client,
            compared: Vec::new(),
        }
    }

    fn beside(&mut self, names: &[&'static str], ours: &str) {
        for name in names {
            self.compared.push((name, ours.to_owned()));
        }
    }

    async fn connect_and_send(&mut self) {
        let sender = self.client.sender("q1");
        let hello = || Message::new("hello").message_id("id-1");
        sender.send(hello()).await.unwrap();
        let sent = self.tap.sent();
        self.beside(
            &["py-header-sasl"],
            &pick(&sent, "protocol-header sasl", ""),
        );
        self.beside(
            &["py-header-amqp"],
            &pick(&sent, "protocol-header amqp", ""),
        );
        let init = pick(&sent, "sasl-init", "");
        self.beside(&["py-sasl-init", "js-sasl-init"], &init);
        self.beside(&["py-open", "js-open"], &pick(&sent, "open", ""));
        self.beside(&["py-begin", "js-begin"], &pick(&sent, "begin", ""));
        let cbs = |role: &str| {
            let of_cbs = sent.iter().filter(|frame| frame.contains("$cbs"));
            pick(&of_cbs.cloned().collect::<Vec<_>>(), "attach", role)
        };
        let answers = cbs("role=true");
        self.beside(
            &["py-attach-cbs-receiver", "js-attach-cbs-receiver"],
            &answers,
        );
        let requests = cbs("role=false");
        self.beside(&["py-attach-cbs-sender"], &requests);
        let token = pick(&sent, "transfer", "put-token");
        self.beside(&["py-put-token", "js-put-token"], &token);
        let attach = pick(&sent, "attach", "target=target(address=\"q1\")");
        self.beside(&["py-attach-sender", "js-attach-sender"], &attach);
        let transfer = pick(&sent, "transfer", "\"id-1\"");
        self.beside(&["py-transfer-simple", "js-transfer-simple"], &transfer);

        let full = Message::new("hello")
            .message_id("id-2")
            .to("dest")
            .subject("lbl")
            .reply_to("rq")
            .correlation_id("cid")
            .content_type("text/plain")
            .session_id("s1")
            .partition_key("s1")
            .reply_to_session_id("rs")
            .time_to_live(Duration::from_secs(60))
            .property("i", 1)
            .property("s", "x")
            .property("b", true)
            .property("f", 1.5);
        sender.send(full).await.unwrap();
        let transfer = pick(&self.tap.sent(), "transfer", "\"id-2\"");
        self.beside(&["py-transfer-full"], &transfer);

        let mut batch = sender.batch().await.unwrap();
        for (id, body) in [("b-1", "a"), ("b-2", "b")] {
            let message = Message::new(body).message_id(id).session_id("s1");
            assert!(batch.try_add(&message).unwrap());
        }
        sender.send_batch(batch).await.unwrap();
        let transfer = pick(&self.tap.sent(), "transfer", "");
        self.beside(&["py-transfer-batch", "js-transfer-batch"], &transfer);
        self.client.receiver("q1").purge(None).await.unwrap();
        self.tap.sent();
    }

    async fn schedule(&mut self) {
        let sender = self.client.sender("q1");
        sender.send("attached").await.unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_893_456_000);
        let message = Message::new("later").message_id("sch-1");
        let number = sender.schedule(message, at).await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "schedule-message");
        self.beside(&["py-mgmt-schedule", "js-mgmt-schedule"], &request);
        sender.cancel_scheduled(number).await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "cancel-scheduled");
        self.beside(&["py-mgmt-cancel"], &request);
        sender.close().await;
        let detach = pick(&self.tap.sent(), "detach", "");
        self.beside(&["py-detach-closed"], &detach);
        let deleting = self.client.deleting_receiver("q1");
        deleting.receive().await.unwrap();
    }

    async fn receive_and_settle(&mut self) {
        let sender = self.client.sender("q1");
        sender
            .send_all(["1", "2", "3", "4", "5", "6"])
            .await
            .unwrap();
        self.tap.sent();
        let options = ReceiverOptions::new()
            .identifier(ByteString::from("my-receiver"))
            .linger(Duration::from_secs(5))
            .keep_lock(KeepLock::Off);
        let receiver = self.client.receiver_with("q1", options);
        let mut messages = receiver.receive_batch(4, SOON).await.unwrap();
        assert_eq!(messages.len(), 4);
        let sent = self.tap.sent();
        let attach = pick(&sent, "attach", "source=source(address=\"q1\")");
        let names = ["py-attach-receiver-peeklock", "js-attach-receiver-peeklock"];
        self.beside(&names, &attach);
        let flow = pick(&sent, "flow", "link-credit=uint:4");
        self.beside(&["py-flow-credit4", "js-flow-credit"], &flow);

        messages[0].renew_lock().await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "renew-lock");
        self.beside(&["py-mgmt-renew-lock", "js-mgmt-renew-lock"], &request);

        messages.remove(0).complete().await.unwrap();
        let complete = pick(&self.tap.sent(), "disposition", "");
        let names = ["py-disposition-complete", "js-disposition-complete"];
        self.beside(&names, &complete);
        messages.remove(0).abandon().await.unwrap();
        let abandon = pick(&self.tap.sent(), "disposition", "");
        let names = ["py-disposition-abandon", "syn-disposition-modified-empty"];
        self.beside(&names, &abandon);
        messages.remove(0).defer().await.unwrap();
        let defer = pick(&self.tap.sent(), "disposition", "");
        let names = [
            "py-disposition-defer",
            "js-disposition-defer",
            "syn-disposition-defer-net",
        ];
        self.beside(&names, &defer);
        let why = DeadLetter::new("bad").description("very bad");
        messages.remove(0).dead_letter(why.clone()).await.unwrap();
        let dead = pick(&self.tap.sent(), "disposition", "");
        self.beside(&["py-disposition-deadletter"], &dead);

        let mut messages = receiver.receive_batch(2, SOON).await.unwrap();
        self.tap.sent();
        let properties = Map::new().with("p", Value::Uint(1));
        messages.remove(0).abandon_with(properties).await.unwrap();
        let abandon = pick(&self.tap.sent(), "disposition", "");
        self.beside(&["js-disposition-abandon-props"], &abandon);
        let why = why.property("x", "y");
        messages.remove(0).dead_letter(why).await.unwrap();
        let dead = pick(&self.tap.sent(), "disposition", "");
        self.beside(&["js-disposition-deadletter-props"], &dead);
        receiver.close().await;
    }

    async fn ask_management(&mut self) {
        let receiver = self.client.receiver("q1");
        let _again = receiver.receive().await.unwrap();
        let peeked = receiver.peek_from(0, 100).await.unwrap();
        let deferred = peeked
            .iter()
            .find(|message| message.state() == servicebus::MessageState::Deferred)
            .unwrap()
            .sequence_number();
        self.tap.sent();
        receiver.peek_from(5, 5).await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "peek-message");
        self.beside(&["py-mgmt-peek"], &request);
        let messages = receiver.receive_deferred([deferred]).await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "receive-by-sequence");
        self.beside(&["py-mgmt-receive-by-seq"], &request);
        let token = messages[0].lock_token();
        receiver.settle(token, Settlement::Complete).await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "update-disposition");
        let names = ["py-mgmt-update-disposition", "js-mgmt-update-disposition"];
        self.beside(&names, &request);
        let before = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        receiver.delete_batch(100, before).await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "batch-delete");
        self.beside(&["syn-mgmt-batch-delete"], &request);
        receiver.close().await;
        // What is fetched ahead, and given back.
        let options = ReceiverOptions::new().prefetch(3);
        let receiver = self.client.receiver_with("q1", options);
        let sender = self.client.sender("q1");
        sender.send_all(["7", "8"]).await.unwrap();
        let message = receiver.receive().await.unwrap();
        self.tap.sent();
        receiver.close().await;
        let sent = self.tap.sent();
        self.beside(&["js-flow-drain"], &pick(&sent, "flow", "drain"));
        let released = pick(&sent, "disposition", "");
        self.beside(&["syn-disposition-released"], &released);
        drop(message);
    }

    async fn receive_and_delete(&mut self) {
        let subscription = || Subscription::new("t1", "sub1");
        let sender = self.client.sender("t1");
        sender.send_all(["1", "2"]).await.unwrap();
        let message = self.client.receiver(subscription()).receive().await;
        let why = DeadLetter::new("bad");
        message.unwrap().dead_letter(why).await.unwrap();
        self.tap.sent();
        let receiver = self.client.deleting_receiver(subscription());
        receiver.receive().await.unwrap();
        let attach = pick(&self.tap.sent(), "attach", "t1/Subscriptions/sub1\")");
        self.beside(&["py-attach-subscription-receive-and-delete"], &attach);
        let options = ReceiverOptions::new().sub_queue(SubQueue::DeadLetter);
        let receiver = self.client.deleting_receiver_with(subscription(), options);
        receiver.receive().await.unwrap();
        let attach = pick(&self.tap.sent(), "attach", "$DeadLetterQueue");
        self.beside(&["js-attach-dlq-receive-and-delete"], &attach);
    }

    async fn sessions(&mut self) {
        let session = self.client.accept_session("qs", "s1").await.unwrap();
        let attach = pick(&self.tap.sent(), "attach", "session-filter");
        let names = ["py-attach-session-receiver", "js-attach-session-receiver"];
        self.beside(&names, &attach);
        session.set_state("st").await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "set-session-state");
        self.beside(&["py-mgmt-set-session-state"], &request);
        session.state().await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "get-session-state");
        self.beside(&["py-mgmt-get-session-state"], &request);
        session.set_state("{\"a\":1}").await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "set-session-state");
        self.beside(&["js-mgmt-set-session-state"], &request);
        session.renew_lock().await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "renew-session-lock");
        self.beside(&["py-mgmt-renew-session-lock"], &request);
        session.peek_from(1, 2).await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "peek-message");
        self.beside(&["py-mgmt-peek-session"], &request);
        session.close().await;
        self.client.list_sessions("qs", None).await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "get-message-sessions");
        self.beside(&["py-mgmt-get-message-sessions"], &request);

        let message = Message::new("m").session_id("s2");
        self.client.sender("qs").send(message).await.unwrap();
        self.tap.sent();
        let options = SessionReceiverOptions::new().accept_wait(Duration::from_secs(5));
        let next = self
            .client
            .accept_next_session_with::<PeekLock>("qs", options)
            .await
            .unwrap();
        let attach = pick(&self.tap.sent(), "attach", "session-filter");
        let names = ["py-attach-next-session", "js-attach-next-session"];
        self.beside(&names, &attach);
        next.unwrap().close().await;
    }

    async fn rules(&mut self) {
        let rules = self.client.rules(Subscription::new("t1", "sub1"));
        let sql = Rule::new("r1", RuleFilter::sql("a=1")).action("SET b=2");
        rules.add(sql).await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "add-rule");
        self.beside(&["js-mgmt-add-rule-sql"], &request);
        let filter = CorrelationFilter::new()
            .correlation_id("c")
            .property("x", Value::Uint(1));
        rules.add(Rule::new("r2", filter)).await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "add-rule");
        self.beside(&["js-mgmt-add-rule-correlation"], &request);
        rules.list().await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "enumerate-rules");
        self.beside(&["js-mgmt-enumerate-rules"], &request);
        rules.remove("r1").await.unwrap();
        let request = pick(&self.tap.sent(), "transfer", "remove-rule");
        self.beside(&["js-mgmt-remove-rule"], &request);
    }

    async fn transactions(&mut self) {
        let sender = self.client.sender("q1");
        sender.send("in a transaction").await.unwrap();
        let receiver = self.client.receiver("q1");
        let message = receiver.receive().await.unwrap();
        self.tap.sent();
        let transaction = self.client.transaction();
        let sending = Message::new("x").message_id("t-1");
        transaction.send(&sender, sending).await.unwrap();
        let sent = self.tap.sent();
        let attach = pick(&sent, "attach", "coordinator");
        self.beside(&["syn-attach-coordinator-caps"], &attach);
        self.beside(&["syn-declare"], &pick(&sent, "transfer", "@0x31"));
        let transfer = pick(&sent, "transfer", "\"t-1\"");
        self.beside(&["syn-transfer-in-transaction"], &transfer);
        transaction.complete(message).await.unwrap();
        let settled = pick(&self.tap.sent(), "disposition", "");
        self.beside(&["syn-disposition-transactional-complete"], &settled);
        transaction.commit().await.unwrap();
        let discharge = pick(&self.tap.sent(), "transfer", "@0x32");
        self.beside(&["syn-discharge-commit"], &discharge);
        let transaction = self.client.transaction();
        transaction.send(&sender, "y").await.unwrap();
        self.tap.sent();
        transaction.rollback().await.unwrap();
        let discharge = pick(&self.tap.sent(), "transfer", "@0x32");
        self.beside(&["syn-discharge-rollback"], &discharge);
    }

    async fn close(&mut self) {
        self.client.close().await;
        let sent = self.tap.sent();
        let end = sent.iter().find(|frame| frame.starts_with("end"));
        let end = end.cloned().unwrap_or_default();
        self.beside(&["py-end"], &end);
        self.beside(&["py-close"], &pick(&sent, "close", ""));
    }
}
