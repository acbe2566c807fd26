//! What runs for weeks does not grow: tasks, links, locks and memory come to an end. Client and emulator are in one thread
//! here, and their memory is counted together.

use std::future::Future;

use servicebus::{KeepLock, ReceiverOptions};
use servicebus_emulator::Fault;

use crate::support::*;

/// How much more memory may be in use after many rounds than after few.
const GROWTH: i64 = 256 * 1024;

/// As often as the case asks for in a release build; a debug build, which is ten times slower, does a tenth of it.
const fn often(rounds: usize) -> usize {
    if cfg!(debug_assertions) {
        rounds / 10
    } else {
        rounds
    }
}

/// What is done over and over again, in virtual time.
struct Rounds {
    runtime: tokio::runtime::Runtime,
    world: World,
}

impl Rounds {
    fn new() -> Self {
        let runtime = paused_runtime();
        let world = runtime.block_on(World::new());
        Self { runtime, world }
    }

    fn on<T>(&self, what: impl AsyncFnOnce(&World) -> T) -> T {
        self.runtime.block_on(what(&self.world))
    }

    /// Does it this often, after a hundredth of that to warm up, and sees that no task is left behind and no memory.
    fn leave_nothing<F: Future>(&self, rounds: usize, mut round: impl FnMut(usize) -> F) {
        let mut play = |rounds: usize| {
            self.runtime.block_on(async {
                for n in 0..rounds {
                    round(n).await;
                }
                tokio::time::sleep(secs(30)).await;
                tokio::runtime::Handle::current()
                    .metrics()
                    .num_alive_tasks()
            })
        };
        let before = play((rounds / 100).max(20));
        let mut after = 0;
        let memory = allocation_counter::measure(|| after = play(rounds));
        assert!(after <= before, "{before} tasks before, {after} after");
        let growth = memory.bytes_current;
        assert!(growth < GROWTH, "{growth} bytes more after {rounds} rounds");
    }
}

#[test]
fn b119_receives_that_get_nothing() {
    let rounds = Rounds::new();
    rounds.world.queue("q");
    let receiver = rounds.world.client.receiver("q");
    rounds.leave_nothing(often(200_000), |_| async {
        assert!(receiver.receive_within(millis(10)).await.unwrap().is_none());
    });
}

/// A week of receives that wait for a minute each, with what a week brings: heartbeats, and tokens that are renewed.
#[test]
fn b119_a_week_of_receives_that_get_nothing() {
    const MINUTES: usize = 7 * 24 * 60;
    let rounds = Rounds::new();
    let queue = rounds.world.queue("q");
    let receiver = rounds.world.client.receiver("q");
    let began = rounds.on(async |_| tokio::time::Instant::now());
    rounds.leave_nothing(MINUTES, |_| async {
        assert!(receiver.receive_within(secs(60)).await.unwrap().is_none());
        rounds.world.advance(secs(60)).await;
    });
    rounds.on(async |world| {
        assert!(began.elapsed() >= secs(7 * 24 * 60 * 60));
        world.client.sender("q").send("m").await.unwrap();
        receiver.receive().await.unwrap().complete().await.unwrap();
        assert_eq!(world.emulator.connections().len(), 1);
        assert_eq!(queue.counts().unwrap().active, 0);
    });
}

#[test]
fn b119_senders_and_receivers_that_come_and_go() {
    let rounds = Rounds::new();
    let queue = rounds.world.queue("q");
    let client = &rounds.world.client;
    rounds.leave_nothing(often(20_000), |n| async move {
        let receiver = client.receiver("q");
        assert!(receiver.receive_within(millis(1)).await.unwrap().is_none());
        if n % 10 == 0 {
            client.sender("q").send("m").await.unwrap();
            receiver.receive().await.unwrap().complete().await.unwrap();
        }
        if n % 2 == 0 {
            receiver.close().await;
        }
    });
    assert!(queue.snapshot().unwrap().receivers.is_empty());
}

#[test]
fn b119_connections_that_are_lost() {
    let rounds = Rounds::new();
    let world = &rounds.world;
    world.queue("q");
    let sender = world.client.sender("q");
    let receiver = world.client.receiver("q");
    rounds.leave_nothing(often(2_000), |_| async {
        sender.send("m").await.unwrap();
        receiver.receive().await.unwrap().complete().await.unwrap();
        receiver.peek(1).await.unwrap();
        world.order(Fault::Drop { connection: None });
    });
}

#[test]
fn b119_sends_that_are_dropped() {
    let rounds = Rounds::new();
    let world = &rounds.world;
    world.queue("q");
    let sender = world.client.sender("q");
    let deleting = world.client.deleting_receiver("q");
    rounds.on(async |_| sender.send("attached").await.unwrap());
    rounds.leave_nothing(often(20_000), |n| {
        let (sender, deleting) = (sender.clone(), &deleting);
        async move {
            let mut send = Box::pin(sender.send("m"));
            for _ in 0..n % 5 {
                if futures_util::poll!(&mut send).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(send);
            // Those that were sent do not pile up in the emulator.
            if n % 100 == 99 {
                while !deleting
                    .receive_batch(100, millis(10))
                    .await
                    .unwrap()
                    .is_empty()
                {}
            }
        }
    });
    rounds.on(async |_| sender.send("in order").await.unwrap());
}

#[test]
fn b119_accepts_that_find_no_session() {
    let rounds = Rounds::new();
    let world = &rounds.world;
    let queue = world.session_queue("q");
    rounds.leave_nothing(often(20_000), |_| async {
        let accept = world.client.accept_next_session("q", millis(500));
        let pass = async {
            tokio::task::yield_now().await;
            world.advance(secs(1)).await;
        };
        let (session, ()) = tokio::join!(accept, pass);
        assert!(session.unwrap().is_none());
    });
    assert!(queue.snapshot().unwrap().receivers.is_empty());
}

/// For how many deliveries clients have stated an outcome.
fn stated(world: &World) -> u64 {
    let number = |line: &str, key| {
        let (_, rest) = line.split_once(key)?;
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        rest[..end].parse::<u64>().ok()
    };
    let frames = world.emulator.frames();
    let dispositions = frames
        .lines()
        .filter(|line| line.contains("<-") && line.contains("Disposition"));
    dispositions
        .map(|line| {
            let first = number(line, "first: ").unwrap();
            number(line, "last: Some(").unwrap_or(first) - first + 1
        })
        .sum()
}

/// Messages that others settle, or nobody, are forgotten by the link that they came on when their locks are over.
#[tokio::test(start_paused = true)]
async fn b66_messages_that_are_not_settled_here_are_forgotten() {
    let world = World::with_frames().await;
    world.queue_with_locks("q", secs(5));
    let options = ReceiverOptions::new().keep_lock(KeepLock::Off);
    let receiver = world.client.receiver_with("q", options);
    let sender = world.client.sender("q");
    let elsewhere = world.another_client().receiver("q");
    for _ in 0..10 {
        sender
            .send_all((0..200).map(|n| n.to_string()))
            .await
            .unwrap();
        let mut received = 0;
        while received < 200 {
            let batch = soon(receiver.receive_batch(200, secs(1))).await.unwrap();
            received += batch.len();
            for message in batch {
                let token = message.lock_token();
                drop(message);
                elsewhere
                    .settle(token, servicebus::Settlement::Complete)
                    .await
                    .unwrap();
            }
        }
        // What is forgotten here is stated there: that is how the engine lets go of it.
        let before = stated(&world);
        world.pass(secs(6)).await;
        assert_eq!(stated(&world) - before, 200);
    }
    sender.send("last").await.unwrap();
    let last = soon(receiver.receive()).await.unwrap();
    assert_eq!(last.text().as_deref(), Some("last"));
    last.complete().await.unwrap();
}
